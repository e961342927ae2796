"""The page of a card: what gpu_steps.py found there, benchmarks/results/gpu_steps_CARD.md."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.gpu_times import BESIDE_COMPILE, FORMS, LEVELS, PRODUCTS, TF32, WORKS, verdicts
from benchmarks.machine import made_on

PARTS = {"proof": len(FORMS), "times": len(WORKS) + 1, "compiled": len(WORKS)}


def text(result: dict[str, Any]) -> str:
    """All of the page."""
    m, found = result["machine"], verdicts([*result["times"], *result["compiled"]])
    lines = [
        f"# Steps on a card: {m['device']}", "", *_answer(result, found), "",
        "Made by `python benchmarks/gpu_steps.py`, which says what each part asks. "
        f"CuPy {m['cupy']}, CUDA {m['cuda']}, PyTorch {m['torch']}, {made_on(m)}.",
    ]  # fmt: skip
    if missing := [part for part, rows in PARTS.items() if len(result[part]) < rows]:
        lines[-1] += f" Not all rows are there of: {', '.join(missing)}."
    for title, rows in (
        ("Forms of a step, beside steps computed call by call", _proof(result["proof"])),
        ("Kernels, beside the readable forms", _kernels(result["kernels"])),
        ("The fastest form, beside PyTorch", _verdicts(found)),
        *((work["title"].capitalize(), _times(work)) for work in _merged(result)),
        ("Attention alone, 128 users, 2 heads of 32, forward and backward", _attention(result["attention"])),
        ("Largest errors of products of 256 numbers", _products(result["times"])),
    ):
        if there := list(rows):
            lines += ["", f"## {title}", "", *there]
    return "\n".join(lines) + "\n"


def _answer(result: dict[str, Any], found: Sequence[dict[str, Any]]) -> list[str]:
    """Do recorded steps with kernels hold, and how fast are the fastest forms?"""
    whole = next((row for row in result["proof"] if row["item"] == "recorded, with kernels"), None)
    if whole is None or not whole["holds"]:
        words = "Recorded steps with kernels **do not hold** here, or were not tried."
    else:
        words = (f"Recorded steps with kernels give the numbers of steps computed call by call: parameters and losses "
                 f"are {whole['off']:.1e} apart after 12 steps, in units of the largest.")  # fmt: skip
    if wrong := [row["item"] for row in result["kernels"] if not row["holds"]]:
        words += f" Kernels that do not hold: {', '.join(wrong)}."
    if found:
        ratios = [row["as fast as eager"] for row in found]
        words += (f" The fastest form of each work is {min(ratios):.2f} to {max(ratios):.2f} times as fast as the "
                  "faster eager form of PyTorch.")  # fmt: skip
    return [words]


def _table(*rows: Sequence[Any]) -> Iterator[str]:
    """Of a heading and rows; nothing without rows."""
    if len(rows) > 1:
        for i, row in enumerate(rows):
            yield f"| {' | '.join(map(str, row))} |"
            if i == 0:
                yield "|---" * len(row) + "|"


def _proof(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    return _table(("form", "apart", "same bits three times", "holds"),
                  *((row["item"], f"{row['off']:.1e}", _yes(row["bitwise"]), _held(row)) for row in rows))  # fmt: skip


def _kernels(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    return _table(
        ("kernel", "apart, of what is allowed", "same bits three times", "holds", "µs", "readable, µs", "float64 in"),
        *((row["item"], f"{row['off']:.2g}", _yes(row["bitwise"]), _held(row), _micro(row.get("seconds")),
           _micro(row.get("readable seconds")), ", ".join(row.get("float64 in", []))) for row in rows),
    )  # fmt: skip


def _verdicts(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield from _table(
        ("work", "products", "form", "PyTorch, eager", "times as fast", "beside torch.compile", "MB", "PyTorch, MB",
         "level"),
        *((row["work"], "TF32" if row["TF32"] else "float32", row["form"].removesuffix(TF32),
           row["eager"].removeprefix("torch ").removesuffix(TF32), f"{row['as fast as eager']:.2f}",
           "" if row["as fast as compiled"] is None else f"{row['as fast as compiled']:.2f}", *row["MB"],
           row["verdict"]) for row in rows),
    )  # fmt: skip
    if rows:
        levels = ", ".join(f"{name} {least:g}" for name, least in LEVELS.items())
        yield from ("", f"Levels: {levels}, and for the last {BESIDE_COMPILE} beside torch.compile.")


def _merged(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each work's rows of `times` and `compiled` as one; only PyTorch's of the second are others."""
    for name in WORKS:
        rows = {part: row for part in ("compiled", "times") for row in result[part] if row["item"] == name}
        found: dict[str, Any] = {"title": WORKS[name].title, "seconds": {}, "bytes": {}, "errors": {}}
        for part, row in rows.items():
            for each in ("seconds", "bytes", "errors"):
                found[each] |= row.get(each, {})
            found["errors"] |= {f"All of the part `{part}`": row["error"]} if "error" in row else {}
        yield found


def _times(row: dict[str, Any]) -> Iterator[str]:
    fastest_first = sorted(row["seconds"].items(), key=lambda pair: pair[1])
    yield from _table(
        ("", "products", "µs", "MB"),
        *((name.removesuffix(TF32), "TF32" if name.endswith(TF32) else "float32", _micro(seconds),
           row["bytes"][name] >> 20) for name, seconds in fastest_first),
    )  # fmt: skip
    for name, why in row["errors"].items():
        yield from ("", f"{name} failed: {why}")


def _attention(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    return _table(
        ("length", "", "µs", "MB"),
        *((row["item"], way, _micro(seconds), row["bytes"][way] >> 20)
          for row in rows for way, seconds in row.get("seconds", {}).items()),
        *((row["item"], way, "failed", why) for row in rows for way, why in row.get("errors", {}).items()),
    )  # fmt: skip


def _products(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    errors: dict[str, list[float]] = next((row["off"] for row in rows if row["item"] == PRODUCTS and "off" in row), {})
    return _table(("", "float32", "TF32"), *((way, f"{a:.1e}", f"{b:.1e}") for way, (a, b) in errors.items()))


def _micro(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e6 * seconds:,.0f}"


def _yes(x: bool) -> str:
    return "yes" if x else "no"


def _held(row: dict[str, Any]) -> str:
    why = row.get("error") or row.get("refused") or row.get("recorded") or ""
    return "yes" if row["holds"] else f"**no** {why}".strip()

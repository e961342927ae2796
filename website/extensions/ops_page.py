"""The ops, a page a family. An op that no page names gets a section from its docstrings, so a new op needs no line.

The title is what the module's docstring begins with. Forward and backward stand beside each other, set from the
equations that each docstring begins with: `y = x_hat ⊙ γ, with x_hat = x · r and r = 1 / √(mean(x²) + eps).`
website/api/ops.md lists the ops of every page.
"""

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from tinyattn import ops

PAGE = "website/api/ops"
PAGES = Path(__file__).parents[1] / "api"
FAMILIES = {                 # of a module: the folder of ops/ that it is in, or this
    "activations": "functions", "elu": "functions", "root_elu": "functions", "sigmoid": "functions",
    "silu": "functions", "softmax": "functions", "losses": "functions", "masks": "attention",
}  # fmt: skip
SIGNS = {
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\varepsilon ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "σ": r"\sigma ", "φ": r"\varphi ", "Φ": r"\Phi ", "Σ": r"\sum ", "∂": r"\partial ",
    "⊙": r"\odot ", "·": r"\,", "²": "^2", "³": "^3", "ᵀ": r"^\top ", "<=": r"\le ", ">=": r"\ge ",
}  # fmt: skip
FUNCTIONS = {"mean", "var", "exp", "log", "max", "min", "softmax", "tanh"}
NEXT = re.compile(r"(?:, with |, and |, | and |; )(?=[^\s=]+ = )")     # between two equations of a sentence
WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)?")
PROSE = re.compile(r"`|\b[a-z]{2,} [a-z]{3,}\b")


def family(module: str) -> str:
    """The page that ops of a module are on; those that no folder and no line of FAMILIES claims are maps."""
    path = module.removeprefix(f"{ops.__name__}.").split(".")
    return path[0] if len(path) > 1 and path[0] != "tinyattn" else FAMILIES.get(path[-1], "maps")


def sections(text: str, of: str) -> str:
    """Sections of a family's ops whose names do not stand in `text`, a module after the other."""
    found = []
    for module in pkgutil.walk_packages(ops.__path__, f"{ops.__name__}."):
        source = importlib.import_module(module.name)
        names = [name for name in ops.__all__ if getattr(getattr(ops, name), "__module__", None) == source.__name__]
        names = [name for name in names if not re.search(rf"::\s+{name}$", text, flags=re.M)]
        if names and family(module.name) == of:
            found.append(section(source.__doc__ or "", [(name, getattr(ops, name)) for name in names]))
    return "\n".join(found)


def index() -> str:
    """The ops by page. Each line has the anchor that the op had when all stood on one page: old links lead to it."""
    by_page: dict[str, list[str]] = {}
    for name in ops.__all__:
        by_page.setdefault(family(getattr(ops, name).__module__), []).append(name)
    lines = []
    for page, names in by_page.items():
        links = (f'<a id="tinyattn.ops.{n}" href="ops_{page}.html#tinyattn.ops.{n}">{n}</a>' for n in sorted(names))
        title = (PAGES / f"ops_{page}.md").read_text(encoding="utf-8").split("\n")[0]
        lines += [f"## [{title.removeprefix('# ')}](ops_{page}.md)", "", ",\n".join(links), ""]
    return "\n".join(lines)


def section(about: str, members: list[tuple[str, Any]]) -> str:
    """One section: title, formulas of each forward and backward side by side, entries."""
    lines = [f"## {re.split('[:.(]', about.strip(), maxsplit=1)[0].strip()}", ""]
    docs = {name: member.__doc__ or "" for name, member in members}
    for name in docs:
        if f"{name}_backward" in docs:
            halves = [aligned(docs[each]) for each in (name, f"{name}_backward")]
            if all(halves):
                boxed = [line for half in halves for line in (":::{container} half", f"$${half}$$", ":::")]
                lines += ["::::{container} pair", *boxed, "::::", ""]
    kinds = {name: "autoclass" if isinstance(member, type) else "autofunction" for name, member in members}
    return "\n".join([*lines, "```{eval-rst}", *(f".. {kind}:: {name}" for name, kind in kinds.items()), "```", ""])


def aligned(docstring: str) -> str:
    """The equations of a docstring's first sentence, a line each; nothing where it does not begin with one."""
    sentence = re.split(r"\.(?=\s|$)", " ".join(docstring.split("\n\n")[0].split()), maxsplit=1)[0]
    equations = NEXT.split(sentence)
    if not all(" = " in equation and not PROSE.search(equation.split(" over ")[0]) for equation in equations):
        return ""
    lines = [" &= ".join(map(tex, equation.split(" = ", 1))) for equation in equations]
    return "\\begin{aligned} " + " \\\\ ".join(lines) + " \\end{aligned}"


def tex(plain: str) -> str:
    """A formula of a docstring as TeX."""
    plain = re.sub(r"√(\w+)", r"√(\1)", plain)
    root = re.search(r"√\(", plain)
    if root:
        end = _closing(plain, root.end() - 1)
        inside, rest = plain[root.end() : end], plain[end + 1 :]
        return tex(plain[: root.start()]) + rf"\sqrt{{{tex(inside)}}}" + tex(rest)
    plain, *words = plain.split(" over ", 1)                            # Σ dy over tokens
    plain = WORD.sub(lambda word: _word(word[0]), plain)
    for sign, command in SIGNS.items():
        plain = plain.replace(sign, command)
    return plain + "".join(rf" \quad \text{{over {word}}}" for word in words)


def _word(word: str) -> str:
    name, _, index = word.partition("_")
    if index == "hat":
        return rf"\hat {name}"
    if name == "eps":
        return "ε"
    if name in FUNCTIONS:
        name = rf"\operatorname{{{name}}}"
    elif len(name) > 2 or (len(name) == 2 and name[0] != "d"):          # dx, dW and dγ are differentials
        name = rf"\mathrm{{{name}}}"
    return f"{name}_{{{index}}}" if index else name


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i
    raise ValueError(f"a parenthesis of {text!r} is not closed")


def append(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == PAGE:
        source[0] += "\n" + index()
    elif docname.startswith(f"{PAGE}_"):
        source[0] += "\n" + sections(source[0], docname.removeprefix(f"{PAGE}_"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", append)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

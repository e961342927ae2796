"""Can attention compute a convolution? Measure the error of K² heads with a quadratic relative bias, against α.

    python benchmarks/cordonnier.py

Cordonnier, Loukas & Jaggi 2020, theorem 1. `convolving_attention` is compared with `conv2d` on a grid of random tokens,
inside it and at its edges. Writes benchmarks/results/cordonnier.json and .md and figures/cordonnier.svg.
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from benchmarks.machine import (
    RESULTS,
    ROOT,
    describe,
    made_on,
    read_no_arguments,
    write_pages,
    write_pictures,
    write_result,
)
from tinyattn.ops import conv2d, convolving_attention
from tinyattn.show.style import BLUE, GREEN, GREY, GROUND, ORANGE, figure, in_style

RESULT, PAGE, PICTURE = RESULTS / "cordonnier.json", RESULTS / "cordonnier.md", ROOT / "figures" / "cordonnier.svg"
HEIGHT, WIDTH, DIM, KERNELS = 10, 12, 4, (3, 5)
ALPHAS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 35, 40, 46)


def measure() -> dict[str, Any]:
    """The largest absolute error, by kernel and α: inside, where every neighbour exists, and at the edges."""
    rng, found = np.random.default_rng(0), {}
    x = rng.standard_normal((HEIGHT, WIDTH, DIM))
    for K in KERNELS:
        W, r = rng.standard_normal((K, K, DIM, DIM)), K // 2
        exact, inside = conv2d(x, W), np.zeros((HEIGHT, WIDTH), bool)
        inside[r:-r, r:-r] = True
        rows = []
        for alpha in ALPHAS:
            error = np.abs(convolving_attention(x, W, alpha)[0] - exact)
            rows.append({"alpha": alpha, "inside": float(error[inside].max()), "edge": float(error[~inside].max())})
        found[str(K)] = {"largest": float(np.abs(exact).max()), "errors": rows}
    return {"machine": describe(), "grid": [HEIGHT, WIDTH, DIM], "kernels": found}


def table(result: dict[str, Any]) -> str:
    lines = ["| α | 4 e^-α | " + " | ".join(f"{K} × {K}, inside | at the edges" for K in result["kernels"]) + " |"]
    lines.append("|" + "---:|" * (2 + 2 * len(result["kernels"])))
    for i, alpha in enumerate(ALPHAS):
        rows = [kernel["errors"][i] for kernel in result["kernels"].values()]
        cells = [f"{row[where]:.2g}" for row in rows for where in ("inside", "edge")]
        lines.append(f"| {alpha} | {4 * math.exp(-alpha):.2g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(result: dict[str, Any]) -> str:
    height, width, dim = result["grid"]
    sizes = ", ".join(f"{kernel['largest']:.0f} for {K} × {K}" for K, kernel in result["kernels"].items())
    return f"""# Convolution by attention: the error against α

K² heads of attention, each with the bias -α |δ - Δ_h|² and no other scores, beside the K × K convolution whose kernel
is their output projection (Cordonnier, Loukas & Jaggi 2020, theorem 1): `convolving_attention` and `conv2d`, in
float64, on a grid of {height} × {width} tokens of width {dim}, all numbers from a standard normal distribution.
The largest difference of any number, where the largest number is {sizes}.

{table(result)}

Inside, where all K² neighbours are there, the error falls like 4 e^-α, the weight of the four tokens around the one
that a head looks at, until the weights are 1 and 0 in float64 (an error of 0 is not drawn). At the edges it does not
fall: convolution takes zeros for neighbours that are missing, and weights that sum to 1 cannot.

![The error against α](../../figures/cordonnier.svg)

`python benchmarks/cordonnier.py`, {made_on(result["machine"])}
"""


@in_style
def draw(result: dict[str, Any]) -> Any:
    made, ax = figure(size=(6.4, 3.6))
    for (K, kernel), colour, mark in zip(result["kernels"].items(), (BLUE, ORANGE), "os", strict=True):
        rows = kernel["errors"]
        inside = [row["inside"] or np.nan for row in rows]                    # an error of 0 has no logarithm
        ax.plot(ALPHAS, inside, f"{mark}-", color=colour, ms=4, label=f"{K} × {K}, inside")
        ax.plot(ALPHAS, [row["edge"] for row in rows], f"{mark}--", color=colour, ms=4, mfc=GROUND,
                label=f"{K} × {K}, at the edges")  # fmt: skip
    theory = np.linspace(ALPHAS[0], 36, 50)
    ax.plot(theory, 4 * np.exp(-theory), ":", color=GREEN, label="4 e^-α")
    ax.axhline(np.finfo(float).eps, color=GREY, lw=0.8)
    ax.text(0.5, np.finfo(float).eps * 1.6, "rounding, float64", color=GREY, fontsize=9)
    ax.set(yscale="log", xlabel="α", ylabel="largest error", ylim=(3e-17, 3e3),
           title="K² heads of attention become a K × K convolution")  # fmt: skip
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")
    ax.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0.0, 0.1))
    return made


def pages() -> dict[Path, str]:
    return {PAGE: page(json.loads(RESULT.read_text()))}


def pictures() -> dict[Path, Any]:
    return {PICTURE: draw(json.loads(RESULT.read_text()))}


def main() -> None:
    read_no_arguments(__doc__)
    result = measure()
    write_result(RESULT, result)
    write_pages(__file__, pages())
    write_pictures(pictures())
    print(page(result))


if __name__ == "__main__":
    main()

"""Attention in tiles, where one tile of keys hands on to the next (oracles.tiled_attention)."""

from .slip import slip

OF_TILES = (
    slip("sum_kept", "the sum of the weights so far is not multiplied by e^(m - m') when the maximum rises from m to m'", "Which numbers were computed with the old maximum?", ("shrink * total", "total")),
    slip("output_kept", "the output so far is not multiplied by e^(m - m') when the maximum rises from m to m'", "Which numbers were computed with the old maximum?", ("shrink * acc", "acc")),
    slip("both_kept", "neither the sum nor the output so far is multiplied by e^(m - m') when the maximum rises from m to m'",
          "Which numbers were computed with the old maximum?", ("shrink * total", "total"), ("shrink * acc", "acc")),
    slip("tile_alone", "each tile has its own maximum, and the sums so far are not multiplied by e^(m - m')", "Weights of two tiles are added: to which maximum does each refer?",
          ("max(top, np.max(s))", "np.max(s)"), ("shrink * total", "total"), ("shrink * acc", "acc")),
    slip("upside_down", "the sums so far are multiplied by e^(m' - m), not by e^(m - m'), when the maximum rises from m to m'",
          "If the maximum rises, do old weights grow, or shrink?", ("math.exp(top - new_top)", "math.exp(new_top - top if start else 0.0)")),
    slip("new_shrinks", "the new tile is multiplied by e^(m - m'), where the sums so far should be", "Which numbers were computed with the old maximum?",
          ("shrink * total + np.sum(weights)", "total + (shrink if start else 1.0) * np.sum(weights)"),
          ("shrink * acc + weights @ v[tile]", "acc + (shrink if start else 1.0) * (weights @ v[tile])")),
    slip("last_tile", "only the last tile counts", "Which sums begin at 0 again?", ("shrink * total + np.sum(weights)", "np.sum(weights)"), ("shrink * acc + weights @ v[tile]", "weights @ v[tile]")),
    slip("last_sum", "it divides by the sum of the last tile", "Over which keys does the normaliser sum?", ("acc / total", "acc / np.sum(weights)")),
    slip("sum_over_tiles", "each tile is normalised by itself, and the tiles are added", "Do all weights of a query sum to 1?",
          ("shrink * acc + weights @ v[tile]", "acc + weights @ v[tile] / np.sum(weights)"), ("acc / total", "acc")),
    slip("mean_over_tiles", "each tile is normalised by itself, and the tiles are averaged", "Has each tile the same share?",
          ("shrink * acc + weights @ v[tile]", "acc + weights @ v[tile] / np.sum(weights)"), ("acc / total", "acc / -(-len(k) // width)")),
    slip("divided_each_time", "the output is divided by the sum at every tile, and not multiplied back at the next", "Between tiles, is the output normalised?",
          ("shrink * acc + weights @ v[tile]", "(shrink * acc + weights @ v[tile]) / total"), ("acc / total", "acc")),
    slip("first_tile", "only the first tile counts", "Where does the loop over keys end?", ("range(0, len(k), width)", "range(0, width, width)")),
    slip("rest_left_out", "the last keys, which do not fill a tile, are left out", "What if the number of keys is no multiple of the tile?", ("range(0, len(k), width)", "range(0, max(len(k) // width, 1) * width, width)")),
    slip("values_of_first", "every tile has the values of the first", "Which slice of v belongs to a tile?", ("weights @ v[tile]", "weights @ v[:len(s)]")),
    slip("overlap", "a key at the border of two tiles counts twice", "Where does one slice end, and the next begin?", ("slice(start, start + width)", "slice(start, start + width + 1)")),
)  # fmt: skip

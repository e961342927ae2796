"""Roll-out, attention distance and receptive fields, against what is known of small cases."""

import numpy as np
import pytest

from tinyattn.data import Images
from tinyattn.models import (
    Swin,
    ViT,
    attention_distance,
    convolution_field,
    distances_by_head,
    receptive_field,
    rollout,
    uniform_distance,
)
from tinyattn.tree import leaves, tree_map


def test_attention_rolled_out():
    """Token 1 looks at token 0 in the first block, token 2 at token 1 in the second: a quarter comes through."""
    first, second = np.eye(3), np.eye(3)
    first[1], second[2] = np.eye(3)[0], np.eye(3)[1]
    rolled = rollout([np.stack([first, first])[None], second[None, None]])
    np.testing.assert_allclose(rolled[0], [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
    rng = np.random.default_rng(0)
    drawn = [w / w.sum(axis=-1, keepdims=True) for w in rng.random((4, 2, 3, 5, 5))]
    np.testing.assert_allclose(rollout(drawn).sum(axis=-1), 1)
    with pytest.raises(ValueError, match="rollout is for blocks of the same tokens, and these have 4, 2"):
        rollout([np.eye(4)[None], np.eye(2)[None]])


def test_how_far_heads_look():
    """2 x 3 patches of 4 pixels: heads look nowhere else, a patch aside, everywhere. The class token is left out."""
    aside = np.eye(6)[[1, 0, 1, 4, 3, 4]]
    heads = np.zeros((1, 3, 7, 7))
    heads[0, :, 1:, 1:] = np.eye(6), aside, np.full((6, 6), 1 / 6)
    heads[:, :, :, 0] += 0.5
    found = attention_distance([heads, heads[:, :1]], 8, 12, read=1)
    uniform = uniform_distance(6, 8, 12)
    np.testing.assert_array_equal(attention_distance([heads[:, :, 1:, 1:]], 8, 12), found[:1])    # none by default
    np.testing.assert_allclose(found, [[0, 4, uniform], [0, np.nan, np.nan]], atol=1e-12)
    near = 4 * (4 * 1 + 2 * 2) / 9  # in three columns: sum of |difference| / 9
    assert near < uniform < near + 4 / 2  # and half of the pairs are a row apart


def test_how_far_the_heads_of_a_model_look():
    """With queries and biases of 0 attention is uniform, in ViT's image or Swin's window; Swin's two grids differ."""
    rng = np.random.default_rng(0)
    images = Images(rng.random((6, 4, 4)), np.arange(6) % 2)
    small = {"patch": 1, "dim": 4, "heads": 2, "epochs": 1, "workers": 1}
    everywhere, window = uniform_distance(16, 4, 4), uniform_distance(4, 2, 2)
    swins = {"block 1": (2, window, everywhere), "block 2": (4, uniform_distance(4, 4, 4), uniform_distance(4, 4, 4))}
    for model, expected in (
        (ViT(**small, layers=1), {"block 1": (2, everywhere, everywhere)}),
        (Swin(**small, layers=1, window=2), swins),
    ):
        model.fit(images, progress=False)
        for name, leaf in leaves(model.parameters):
            if "query" in name or "table" in name:
                leaf[...] = 0
        found = distances_by_head(model, images)
        assert list(found) == list(expected)
        for block, (heads, far, alike) in expected.items():
            named = {f"head {head + 1}": far for head in range(heads)}
            assert found[block] == pytest.approx(named | {"mean": far, "alike": alike}, rel=1e-6)


@pytest.mark.parametrize(("cls", "options"), [(ViT, {}), (Swin, {"window": 2, "patch": 1})])
def test_the_jacobian_is_that_of_differences(cls, options):
    rng = np.random.default_rng(0)
    images = Images(rng.random((6, 4, 4)), np.arange(6) % 2)
    small = {"patch": 2, "dim": 4, "heads": 2, "layers": 2, "epochs": 1, "workers": 1} | options
    model = cls(**small).fit(images, progress=False)
    model.parameters = tree_map(lambda a: a.astype(np.float64), model.parameters)
    field, network = receptive_field(model, images.images[0], token=1), model.network
    x = model.standardised(images.images[:1]).astype(float)
    for row, column in ((0, 0), (1, 3), (3, 2)):
        step = np.zeros_like(x)
        step[0, row, column] = 1e-6
        up, down = (network.encode(model.parameters, x + h)[0][0, network.read + 1] for h in (step, -step))
        assert field[row, column] == pytest.approx(np.linalg.norm(up - down) / 2e-6, rel=1e-5)
    for token in (4, -1):
        with pytest.raises(ValueError, match=f"token is {token}, expected 0 to 3: there are 4 patches in the last"):
            receptive_field(model, images.images[0], token=token)


def test_swins_first_stage_sees_its_windows_alone_and_a_vit_everything():
    rng = np.random.default_rng(0)
    images = Images(rng.random((6, 4, 8)), np.arange(6) % 2)
    small = {"patch": 1, "dim": 4, "heads": 2, "epochs": 1, "workers": 1}
    for layers, windows in ((1, [[0, 0, 0, 0], [0, 0, 1, 0]]), (2, [[0, 1, 1, 0]] * 2)):       # of the middle patch
        model = Swin(**small, stages=1, window=2, layers=layers).fit(images, progress=False)
        wanted = np.kron(windows, np.ones((2, 2)))
        np.testing.assert_array_equal(receptive_field(model, images.images[0]) > 0, wanted)
    assert (receptive_field(ViT(**small, layers=1).fit(images, progress=False), images.images[0]) > 0).all()


def test_convolutions_reach_one_pixel_further_a_layer():
    for layers in (1, 2, 3):
        field = convolution_field(9, 9, layers)
        rows, columns = np.nonzero(field)
        assert (rows.min(), rows.max(), columns.min(), columns.max()) == (4 - layers, 4 + layers) * 2
        assert field.sum() == pytest.approx(1)
    assert convolution_field(5, 5, 2)[2].tolist() == pytest.approx((np.array([1, 2, 3, 2, 1]) / 27).tolist())

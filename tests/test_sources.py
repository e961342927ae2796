"""The page of the five sources leads somewhere, names what is there, and what it says is computed here."""

import re
from pathlib import Path

import numpy as np

from tests.test_site import commands
from tinyattn.cli import parser
from tinyattn.commands.train import flags_of
from tinyattn.models import MODELS
from tinyattn.ops import attention
from tinyattn.tree import leaves

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/sources.md").read_text()


def test_every_command_is_one():
    found = commands(TEXT)
    assert len(found) > 30
    for words in found:
        if len(words) > 2:                       # `tinyattn trace` alone stands for the command
            parser(words[1:]).parse_args(words[1:])


def test_every_flag_is_one_and_takes_its_value():
    flags = set().union(*map(flags_of, MODELS.values()))
    alone = re.findall(r"`(--[^`]+)`", TEXT)
    assert len(alone) > 15
    for code in alone:
        flag, *value = code.split()
        assert flag in flags or flag == "--k-core", flag
        if value and flag != "--k-core":
            model = next(name for name, cls in MODELS.items() if flag in flags_of(cls))
            command = ["train", "--model", model, flag, *value]
            parser(command).parse_args(command)


def test_every_test_and_exercise_that_it_names_is_there():
    code = "".join(path.read_text() for path in ROOT.glob("tests/**/*.py"))
    exercises = "".join(path.read_text() for path in ROOT.glob("notebooks/exercises/*.toml"))
    tests, asked = re.findall(r"`(test_\w+)`", TEXT), re.findall(r"`(my_\w+|attention_parameters)`", TEXT)
    assert len(tests) > 2
    assert len(asked) > 3
    assert all(f"def {name}(" in code for name in tests)
    assert all(f"[{name}]" in exercises for name in asked)


def test_every_chapter_but_the_tools_has_a_row():
    assert {f"{number:02}" for number in range(1, 23)} - set(re.findall(r"\[chapter (\d\d)\]", TEXT)) == {
        "03", "04", "09", "10",                  # gradients, tests and training: no source derives them
    }  # fmt: skip


def size(name, users, **options):
    network = MODELS[name](**options).make_network(50, users)
    return sum(leaf.size for _, leaf in leaves(network.init(np.random.default_rng(0))))


def test_parameters_of_sasrec_do_not_grow_with_the_users():
    """(|I| + 1) d + n d, and 5 d² + 6 d a block, + 2 d of the last norm; FPMC has a vector for each user."""
    for d in (8, 16):
        assert size("sasrec", 10, dim=d, maxlen=20) == 51 * d + 20 * d + 2 * (5 * d * d + 6 * d) + 2 * d
        assert size("sasrec", 1000, dim=d, maxlen=20) == size("sasrec", 10, dim=d, maxlen=20)
        assert size("fpmc", 1010, dim=d) - size("fpmc", 10, dim=d) == 1000 * d


def test_a_mask_of_keys_cannot_hide_the_future(rng):
    """With a shape of (B, 1, 1, m) every query has the same weights of 0: none of the 16 masks makes the triangle."""
    q, k, v = rng.standard_normal((3, 1, 1, 4, 8))
    triangle = np.tri(4, dtype=bool)
    for bits in np.ndindex(2, 2, 2, 2):
        mask = np.array(bits, dtype=bool).reshape(1, 1, 1, 4)
        seen = attention(q, k, v, mask)[1][0, 0] > 0
        assert np.array_equal(seen, np.broadcast_to(mask[0, 0], (4, 4)))
        assert not np.array_equal(seen, triangle)


def test_the_tutorials_shapes(rng):
    out, weights = attention(*rng.standard_normal((3, 2, 1, 10, 64)))
    assert (out.shape, weights.shape) == ((2, 1, 10, 64), (2, 1, 10, 10))

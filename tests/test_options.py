"""Options are declared once; what is wrong is refused by name."""

import math
import re
from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest

from tinyattn.layers.mechanisms import MECHANISMS
from tinyattn.layers.mixers import MIXERS
from tinyattn.layers.positions import POSITIONS
from tinyattn.layers.refinements import REFINEMENTS
from tinyattn.models import MODELS
from tinyattn.options import check_options, make_parts, one_of, option, options_of, part_options, with_default


@dataclass(kw_only=True)
class Narrow:
    width: int = option(3, "keys", at_least=1)


@dataclass(kw_only=True)
class Wide:
    width: int = option(30, "keys", at_least=1)
    depth: float = option(0.5, "of the well", at_least=0, below=1)


@dataclass(kw_only=True)
class Plain:
    pass


TABLE = {"narrow": Narrow, "wide": Wide, "plain": Plain}
Parts = part_options(kind=TABLE)


@dataclass(kw_only=True)
class Model(Parts):
    kind: str = option("plain", "which", choices=TABLE)
    count: int | None = option(None, "how many", at_least=1)
    fast: bool = option(True, "or slow")
    rate: float = option(0.1, "of learning", above=0)
    other: str = "no option"


def test_options_are_read_off_the_fields():
    found = {o.name: o for o in options_of(Model)}
    assert list(found) == ["width", "depth", "kind", "count", "fast", "rate"]
    assert found["count"].type is int
    assert found["count"].optional
    assert found["width"].default is None
    assert "(kind narrow; default: 3)" in found["width"].option.help
    assert "(kind wide; default: 30)" in found["width"].option.help
    assert found["fast"].flag == "--fast"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"count": 0}, "count is 0, expected at least 1"),
        ({"count": 10**400}, "count is 1000.*, expected a number of 64 bits"),
        ({"count": 1.5}, "count is 1.5, expected a whole number"),
        ({"count": True}, "count is True, expected a whole number"),
        ({"fast": 1}, "fast is 1, expected True or False"),
        ({"fast": None}, "fast is None, expected True or False"),
        ({"rate": 0.0}, "rate is 0.0, expected a positive, finite number"),
        ({"rate": math.nan}, "rate is nan, expected a positive, finite number"),
        ({"rate": "much"}, "rate is 'much', expected a number"),
        ({"kind": "narow"}, "kind is 'narow', expected one of narrow, wide, plain; did you mean narrow?"),
        ({"kind": 3}, "kind is 3, expected one of narrow, wide, plain"),
    ],
)
def test_what_cannot_be_is_refused_by_name(values, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        check_options(Model(**values))


def test_the_closest_name_is_suggested_if_half_of_it_is_there():
    assert one_of(["efgh", "abcd"], "abxy") == "one of efgh, abcd; did you mean abcd?"
    assert one_of(["abcde"], "abxyz") == "one of abcde"
    assert one_of({"yes": 1}, None) == "one of yes"


def test_a_subclass_has_another_default_and_the_rest_as_it_was():
    @dataclass(kw_only=True)
    class Wider(Wide):
        width: int = with_default(60, Wide, "width")

    before, after = ({o.name: o for o in options_of(cls)} for cls in (Wide, Wider))
    assert after["width"] == before["width"]._replace(default=60)
    assert after["depth"] == before["depth"]


def test_parts_get_their_options_and_no_others():
    model = Model(kind="wide", width=4)
    (part,) = make_parts(model, kind=TABLE)
    assert part == Wide(width=4)
    assert (model.width, model.depth) == (4, 0.5)  # what the part's own default is stands in the model from now on
    with pytest.raises(ValueError, match=r"depth is 0\.0, an option of kind wide; kind is narrow"):
        make_parts(Model(kind="narrow", depth=0.0), kind=TABLE)
    model = Model()
    make_parts(model, kind=TABLE)
    assert model.width is None


@pytest.mark.parametrize("table", [MIXERS, MECHANISMS, POSITIONS, REFINEMENTS])
def test_parts_refuse_by_themselves(table):
    """Made without a model as well: no option is of another type, or one below the least that it may be."""
    for part in table.values():
        for declared in options_of(part):
            least = declared.option.at_least
            for wrong in ("no", *([] if least is None else [least - 1])):
                with pytest.raises(ValueError, match=f"^{declared.name} is '?{wrong}'?, expected"):
                    part(**{declared.name: wrong})


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_every_model_says_what_it_is_and_survives_json(name):
    import json

    model = MODELS[name]()
    for declared in options_of(model):
        assert len(declared.option.help) > 10
        assert declared.type in (int, float, bool, str)
        assert declared.option.group in ("model", "training")
    again = MODELS[name](**json.loads(json.dumps(model.identity())))
    assert again.identity() == model.identity()


def holder(kind, default=0, **bounds):
    declared = [("x", kind, option(default, "what is held", **bounds))]
    return make_dataclass("Holder", declared, kw_only=True, namespace={"__post_init__": check_options})


@pytest.mark.parametrize(("bounds", "fits", "wrong"), [
    ({}, [0, -5.5, 1e300, 3], {float("inf"): "a finite number", float("nan"): "a finite number"}),
    ({"at_least": 1}, [1, 1.5], {0.99: "at least 1", float("inf"): "a finite number, at least 1"}),
    ({"above": 1}, [1.01], {1: "above 1", 0: "above 1"}),
    ({"above": 0}, [1e-9, 7], {0: "a positive, finite number", -1: "a positive, finite number"}),
    ({"above": 0, "at_most": 1}, [1, 0.5], {0: "above 0 and at most 1", 1.01: "above 0 and at most 1"}),
    ({"above": 0, "below": 1}, [0.5], {0: "above 0 and below 1", 1: "above 0 and below 1"}),
    ({"at_least": 0, "below": 1}, [0, 0.99], {1: "0 <= x < 1", -0.1: "0 <= x < 1"}),
    ({"at_least": 0, "at_most": 1}, [0, 1], {1.01: "0 to 1", -0.01: "0 to 1"}),
    ({"at_most": 3}, [3, -9], {3.5: "at most 3"}),
    ({"below": 3}, [2.9], {3: "below 3"}),
], ids=str)  # fmt: skip
def test_bounds_of_a_number(bounds, fits, wrong):
    default = fits[0]
    for value in fits:
        assert holder(float, default, **bounds)(x=value).x == value
    for value, says in wrong.items():
        with pytest.raises(ValueError, match=re.escape(f"x is {value}, expected {says}") + "$"):
            holder(float, default, **bounds)(x=value)


def test_numbers_become_pythons_and_whole_numbers_have_64_bits():
    whole, real, flag = holder(int), holder(float), holder(bool, False)
    assert type(whole(x=np.int32(3)).x) is int
    assert type(real(x=np.float32(0.5)).x) is float
    assert type(real(x=3).x) is float
    assert type(flag(x=np.True_).x) is bool
    assert whole(x=2**63 - 1).x == 2**63 - 1
    for value in (2**63, -(2**63)):
        with pytest.raises(ValueError, match="expected a number of 64 bits"):
            whole(x=value)
    with pytest.raises(ValueError, match=r"x is 9223372036854775808, expected 0 to 9$"):
        holder(int, 0, at_least=0, at_most=9)(x=2**63)
    with pytest.raises(ValueError, match="x is None, expected a whole number"):
        whole(x=None)
    assert holder(int | None, None)(x=None).x is None
    assert (options_of(whole)[0].optional, options_of(holder(int | None, None)(x=4))[0].optional) == (False, True)


@dataclass(kw_only=True)
class OfOne:
    width: int = option(3, "keys", at_least=1, group="training", identity=False)


def test_parts_that_declare_an_option_differently_are_refused():
    Same, Type, Low, High, Above, Below = (
        make_dataclass("Part", [("width", kind, option(kind(3), "keys", **bounds))], kw_only=True)
        for kind, bounds in ((int, {"at_least": 1}), (float, {"at_least": 1}), (int, {"at_least": 2}),
                             (int, {"at_least": 1, "at_most": 9}), (int, {"at_least": 1, "above": 0}),
                             (int, {"at_least": 1, "below": 9}))
    )  # fmt: skip
    for other in (Type, Low, High, Above, Below):
        with pytest.raises(TypeError, match="two parts declare width with different types or bounds"):
            part_options(kind={"one": OfOne, "other": other})
    (found,) = options_of(part_options(kind={"one": OfOne, "same": Same}))
    assert found.option.help == "keys (kind one or same; default: 3)"
    assert (found.optional, found.default, found.option.at_least) == (True, None, 1)
    (found,) = options_of(part_options(kind={"one": OfOne}))
    assert (found.option.group, found.option.identity) == ("training", False)
    assert (option(1, "x").metadata["option"].group, option(1, "x").metadata["option"].identity) == ("model", True)
    assert found.flag == "--width"

"""Options are declared once; what is wrong is refused by name."""

import math
from dataclasses import dataclass

import pytest

from tinyattn.layers.mechanisms import MECHANISMS
from tinyattn.layers.mixers import MIXERS
from tinyattn.layers.positions import POSITIONS
from tinyattn.layers.refinements import REFINEMENTS
from tinyattn.models import MODELS
from tinyattn.options import check_options, make_parts, option, options_of, part_options, with_default


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
    with pytest.raises(ValueError, match=r"depth is 0\.5, an option of kind wide; kind is narrow"):
        make_parts(Model(kind="narrow", depth=0.5), kind=TABLE)
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

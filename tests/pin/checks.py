"""What the checker asks of each kind, on which cases, and what it observes of each bug of a zoo."""

import math
import warnings
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.pin.data import total
from tests.sharpness import richest
from tinyattn.check.cases import CaseDrawer, copied
from tinyattn.check.common import common_properties
from tinyattn.check.observing import observe_call
from tinyattn.check.property import LEADS, Property
from tinyattn.check.spec import Spec
from tinyattn.check.specs import SPECS
from tinyattn.check.subject import Subject
from tinyattn.check.zoo import ZOO


def asked(properties: list[Property]) -> dict[str, str]:
    """When and how each property is tried, and how grave its failure is."""
    leads = {p.name: "" if p.leads == LEADS else f" {p.leads}" for p in properties}
    return {p.name: f"{p.stage} {p.exactness} {p.gravity} {p.at_most(50)}{leads[p.name]}" for p in properties}


def cases_of(spec: Spec) -> dict[str, str]:
    """Twelve digits for each argument: what drawn cases, the last of them wide, and written ones have for it."""
    sums: dict[str, float] = {}
    drawn = [spec.case(CaseDrawer.seeded(seed, wide=seed > 38)) for seed in range(40)]
    for i, case in enumerate([*drawn, *spec.special_cases()], start=1):
        for argument, x in total(case).items():
            sums[argument] = sums.get(argument, 0.0) + i * x
    return {argument: f"{x:.12g}" for argument, x in sums.items()}


def bugs(kind: str) -> dict[str, float]:
    """A number for each switch of a zoo, and for none: what is observed on drawn and on written cases."""
    spec, zoo = SPECS[kind], ZOO[kind]
    draws = (CaseDrawer.seeded(seed, (lead,)) for seed, lead in enumerate(((2,), (), (2, 3))))
    cases = [richest(spec), *map(spec.case, draws), *spec.special_cases()]
    names = [(), *((name,) for bug in zoo.BUGS if not bug.noisy for name in (bug.name, *bug.also))]

    def observed(case: dict[str, Any], names: tuple[str, ...]) -> float:
        seen = (spec.observe or observe_call)(Subject(zoo.make(frozenset(names)), spec), spec, copied(case))
        texts = {name: float(zlib.crc32(x.encode()) % 97) for name, x in seen.items() if isinstance(x, str)}
        errors = {name: 1.0 for name in ("forward", "gradient's error") if name in texts}  # whatever they say
        return sum(math.cos(i) * max(-1e4, min(x, 1e4)) for i, x in enumerate(total(seen | texts | errors).values()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bugs' own
        return {"".join(one): sum(i * observed(case, one) for i, case in enumerate(cases, start=1)) for one in names}


CASES: dict[str, Callable[[], Any]] = {
    f"{name} properties": partial(asked, spec.properties) for name, spec in SPECS.items()
}
CASES |= {"common properties": partial(asked, common_properties(SPECS["linear"]))}
CASES |= {f"{name} cases": partial(cases_of, spec) for name, spec in SPECS.items()}
CASES |= {f"{kind} bugs": partial(bugs, kind) for kind in ZOO}

"""Few cases in place of all combinations: each pair of choices is among them."""

import itertools


def covering(cases, strength):
    """As few of the cases as have every entry (strength 1), or every pair of entries (2), that any of them has."""
    number = {}  # of each entry or pair: its bit
    has = {case: sum(1 << number.setdefault(part, len(number))
                     for part in itertools.combinations(enumerate(case), strength)) for case in cases}  # fmt: skip
    left, found = (1 << len(number)) - 1, []
    while left:
        found.append(max(cases, key=lambda case: (has[case] & left).bit_count()))
        left &= ~has[found[-1]]
    return found

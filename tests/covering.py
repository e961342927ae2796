"""Few cases in place of all combinations: each pair of choices is among them."""

import itertools


def covering(cases, strength):
    """As few of the cases as have every entry (strength 1), or every pair of entries (2), that any of them has."""
    has = {case: set(itertools.combinations(enumerate(case), strength)) for case in cases}
    left = set().union(*has.values())
    found = []
    while left:
        found.append(max(cases, key=lambda case: len(has[case] & left)))
        left -= has[found[-1]]
    return found

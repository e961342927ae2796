"""`python -m tests.pin`: see the package."""

import sys

from threadpoolctl import threadpool_limits

from tests.pin import GROUPS, differences, pinned, plain, write

unknown = [name for name in sys.argv[1:] if name not in GROUPS]
if unknown:
    sys.exit(f"{unknown[0]} is no group, expected {', '.join(GROUPS)}")
for group in sys.argv[1:] or GROUPS:
    cases, *near = GROUPS[group]
    before, now = pinned(group), {}
    with threadpool_limits(1):
        for name, compute in cases.items():
            now[name] = plain(compute())
            if name in before:
                moved = differences(before[name], now[name], *near)
                now[name] = now[name] if moved else before[name]       # rounding is no change
                for line in moved[:3]:
                    print(f"{group}: {name}: {line}")
    for name in before.keys() - now.keys():
        print(f"{group}: {name} is gone")
    for name in now.keys() - before.keys():
        print(f"{group}: {name} is new")
    write(group, now)

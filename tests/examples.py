"""How many examples a property draws, as a share of what the profile says (tests/plugin.py)."""

from __future__ import annotations

from hypothesis import settings

MIN_EXAMPLES = 2


def examples(percent: int) -> int:
    """Return ``percent`` of the profile's examples, and at least two.

    300 is for a property on which much rests, 20 for a slow one. Call it where the test is defined: the
    profile is chosen before tests are collected.
    """
    return max(MIN_EXAMPLES, settings().max_examples * percent // 100)

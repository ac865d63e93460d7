"""Number of examples of a property, as a percentage of the profile's number (tests/plugin.py)."""

from __future__ import annotations

from hypothesis import settings

MIN_EXAMPLES = 2


def examples(percent: int) -> int:
    """Return ``percent`` of the profile's examples, and at least two.

    Use 300 for a property on which much depends, and 20 for a slow one. Call it where the test is defined,
    because the profile is chosen before pytest collects the tests.
    """
    return max(MIN_EXAMPLES, settings().max_examples * percent // 100)

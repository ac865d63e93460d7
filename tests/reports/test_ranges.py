"""Entries as a person reads them."""

from __future__ import annotations

import pytest

from auditor.model.finding import Group
from auditor.reports.ranges import entries


@pytest.mark.parametrize(
    ("groups", "count", "shown"),
    [
        ([(0, 0, 3, 0)], 3, "0-2 (3 entries)"),
        ([(0, 3, 2, 3)], 4, "0,1,3,4 (4 entries)"),
        ([(0, 15, 1, 5)], 4, "0-15 every 5 (4 entries)"),
        ([(0, 15, 1, 5), (20, 20, 1, 0)], 5, "0-15 every 5; 20 (5 entries)"),
        ([(1, 1, 1, 0), (5, 2000, 3, 5)], 1201, "1; 5-2002 every 5, 3 long (1,201 entries)"),
        ([(2**62, 2**62, 2**31 - 1, 0)], 2**31 - 1, f"{2**62}-{2**62 + 2**31 - 2} (2,147,483,647 entries)"),
    ],
)
def test_groups_are_shown_as_ranges(groups: list[Group], count: int, shown: str) -> None:
    assert entries(groups, count) == shown

"""What lies beside the entry logs of the fullest bookies, and how full their disks are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.model.space import DISK_BYTES, DiskTotal, SpaceTotal
from auditor.reports.html.space import ROWS
from auditor.reports.space import free_words

WORDS = {kind.name: kind.words[0].upper() + kind.words[1:] for kind in DISK_BYTES}
"""How a page names each kind of bytes."""


def disks_shown(space: Sequence[SpaceTotal], disks: Sequence[DiskTotal]) -> dict[str, Any]:
    """The bookies whose bars are drawn, in their order, each with what is free in words.

    >>> disks_shown([], [DiskTotal("bk1:3181", 10, 0, 0, 0, ())])["disks"][0][1]
    'not seen'
    """
    sizes = {each.name: each.bytes for each in space}
    ordered = sorted(disks, key=lambda each: (-sizes.get(each.name, 0), each.name))
    return {"disks": [(each, free_words(each)) for each in ordered[:ROWS]], "disk_words": WORDS}

"""What entry logs are full of, by bookie, ledger, application or age, and what frees space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from auditor.model.disk_total import DiskTotal, FillForecast
from auditor.model.states import SpaceClass

SpaceBy = Literal["bookie", "ledger", "application", "age"]
SPACE_BY: tuple[SpaceBy, ...] = get_args(SpaceBy)

NO_BOOKIE = "(nobody's)"
"""The name of directories that no bookie of the cluster has."""
NO_LEDGER = "(no ledger)"
"""The name of headers, ledgers maps, padding and ends of logs."""
NOT_LISTED = "(not listed)"
"""The name of ledgers that the metadata does not list."""
NO_APPLICATION = "(names none)"
"""The name of ledgers whose custom metadata says no application, or cannot be read."""
OTHER_NAMES = "(further names)"
"""The name of applications beyond the number that is told apart."""


@dataclass(frozen=True, slots=True)
class SpaceTotal:
    """The bytes of one bookie, ledger, application or age; ``classes`` are those above 0, by class.

    >>> SpaceTotal("bk1:3181", {"live": 30, "orphan": 12}).bytes
    42
    """

    name: str
    classes: dict[str, int]

    @property
    def bytes(self) -> int:
        """All of them."""
        return sum(self.classes.values())


@dataclass(frozen=True, slots=True)
class SpaceStep:
    """What frees bytes of one bookie; ``risk`` begins with a word of `auditor.checks.commands.RISKS`.

    ``bytes`` are at most what comes free. ``command`` is to be given as it stands; None: it happens by
    itself, and ``what`` says when. ``doubt`` is why the bytes may be others; None: nothing says so.
    """

    bookie_id: str
    bytes: int
    what: str
    command: str | None
    risk: str
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class SpaceView:
    """The space of a run by bookie, ledger, application or age; ``totals`` are the largest.

    ``others`` is what is left out of them, by class, and ``others_count`` how many. ``file_bytes`` are the
    lengths of all ``files``, which the classes add up to. ``steps`` are those of all bookies, what frees most
    of a bookie first. ``disks`` are what lies beside the logs, by bookie, and ``forecasts`` of which of them
    runs agree when they are full.
    """

    by: SpaceBy
    totals: tuple[SpaceTotal, ...]
    files: int
    file_bytes: int
    others: dict[str, int] = field(default_factory=dict)
    others_count: int = 0
    steps: tuple[SpaceStep, ...] = ()
    disks: tuple[DiskTotal, ...] = ()
    forecasts: tuple[FillForecast, ...] = ()

    @property
    def bytes(self) -> int:
        """The bytes of all classes, those of others too."""
        return sum(total.bytes for total in self.totals) + sum(self.others.values())

    @property
    def classes(self) -> dict[str, int]:
        """The bytes of each class that has any, in the order of `SpaceClass`."""
        sums = {
            str(each): self.others.get(each, 0) + sum(total.classes.get(each, 0) for total in self.totals)
            for each in SpaceClass
        }
        return {name: number for name, number in sums.items() if number}

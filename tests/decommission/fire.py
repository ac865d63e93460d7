"""The loss of a rack in a live cluster: the forecast of ``bkaudit simulate``, and the ledgers afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.test_doors import bkaudit
from tests.decommission.cluster import RackedBookies
from tests.decommission.scenarios import FIRST_BURNT, Case
from tests.servers.bookies.driver import StoredEntries

RACK = "/r9"
LOST, BELOW_ACK, BELOW_WRITE, WHOLE = "lost", "below ack quorum", "below write quorum", "whole"
RECOVERABLE, UNRECOVERABLE = "recoverable", "unrecoverable"

FIRE = (
    Case("both copies there", "pq", 2, 2, 12, LOST),
    Case("striped, a window there", "pqa", 2, 2, 10, LOST),
    Case("Qw 1, striped", "pab", 1, 1, 9, LOST),
    Case("the other copy of an entry is missing", "pa", 2, 2, 8, LOST, lacks=(4,)),
    Case("two of three", "pqa", 3, 2, 10, BELOW_ACK),
    Case("one of two", "bq", 2, 2, 10, BELOW_ACK),
    Case("one of three", "pab", 3, 2, 10, BELOW_WRITE),
    Case("closed and empty", "pqa", 3, 2, 0, WHOLE),
    Case("elsewhere", "abx", 3, 2, 10, WHOLE),
    Case("open, one of three", "pab", 3, 2, 7, RECOVERABLE, open=True),
    Case("open, striped, never two of a window", "paqb", 2, 2, 1, RECOVERABLE, open=True),
    Case("open, two of three, Qa 3", "pqa", 3, 3, 7, RECOVERABLE, open=True),
    Case("open, elsewhere", "abx", 3, 2, 7, RECOVERABLE, open=True),
    Case("open, ack quorum gone", "pqa", 3, 2, 7, UNRECOVERABLE, open=True),
    Case("open, Qa 1", "pab", 3, 1, 7, UNRECOVERABLE, open=True),
    Case("open, striped, two of a window", "pqab", 2, 2, 7, UNRECOVERABLE, open=True),
    Case("open and empty", "pqa", 3, 2, 0, UNRECOVERABLE, open=True),
)
"""Each ledger is a case: p and q stand in the rack that burns; an outcome is that of the worst entry."""

Shape = tuple[int, int, int]
"""Ensemble size, write quorum and ack quorum."""


@dataclass(frozen=True)
class FireResult:
    """The forecast as JSON, and the cluster after the fire.

    ``read``: by ledger number. ``holdings``: by remaining bookie. ``creates``: by shape, if clients can.
    """

    forecast: Mapping[str, Any]
    read: Mapping[int, Mapping[str, Any]]
    holdings: StoredEntries
    creates: Mapping[Shape, bool]

    def outcome(self, number: int, case: Case) -> str:
        """Return the outcome of a ledger."""
        if case.open:
            return UNRECOVERABLE if "failed" in self.read[number] else RECOVERABLE
        fates = self.fates(number, case)
        return next((fate for fate in (LOST, BELOW_ACK, BELOW_WRITE) if fate in fates), WHOLE)

    def fates(self, number: int, case: Case) -> list[str]:
        """Return the outcome of each entry of a closed ledger, by reads and by the remaining copies."""
        outcomes = []
        for entry in range(case.entries):
            copies = sum(entry in ledgers.get(number, ()) for ledgers in self.holdings.values())
            assert (copies > 0) == (entry in self.read[number]["entries"])
            short = LOST if not copies else BELOW_ACK if copies < case.ack_quorum else BELOW_WRITE
            outcomes.append(WHOLE if copies >= case.write_quorum else short)
        return outcomes

    def forecast_of(self, number: int) -> str | None:
        """Return the forecast for a ledger, or None if the forecast does not name it."""
        fates = {row["ledger_id"]: row["fate"] for row in self.forecast["ledgers"]}
        fate: str | None = fates.get(str(number))
        return fate


def burn(bookies: RackedBookies, ids: Mapping[str, str], run: Path) -> FireResult:
    """Simulate the loss of the rack from the run, then stop its bookies and read the ledgers."""
    result = bkaudit("simulate", str(run), "--lose", "rack", RACK.strip("/"), "--format", "json")
    assert result.exit_code == 0, result.output
    forecast = json.loads(result.stdout)
    for letter in "pq":
        bookies.stop(ids[letter])
    ledgers = bookies.stored_entries()
    shapes = [(row["ensemble"], row["write_quorum"], row["ack_quorum"]) for row in forecast["writes"]]
    creates = {shape: bookies.creates(10 * FIRST_BURNT, *shape) for shape in shapes}
    read = {number: bookies.read_all(number) for number, _ in enumerate(FIRE, FIRST_BURNT)}
    return FireResult(forecast, read, ledgers, creates)

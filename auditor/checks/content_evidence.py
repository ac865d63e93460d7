"""When the ledgers in a directory speak for another bookie than the one that it is counted for."""

from __future__ import annotations

from auditor.model.alias_evidence import LEAST_LEDGERS
from auditor.tables.roster import Row

MARGIN = 10
"""So many ledgers speak for the candidate for each that speaks for the owner."""


def points_elsewhere(row: Row) -> bool:
    """Whether a row of the table contents says that its directory is the candidate's, and not its owner's."""
    least = max(LEAST_LEDGERS, MARGIN * row["worse"])
    return bool(row["candidate"] != row["owner"] and row["better"] >= least)

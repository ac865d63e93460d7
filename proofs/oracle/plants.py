"""The planted faults of a cluster, and the score of an audit's findings for each check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from auditor.checks import CHECK_BY_ID

Finding = dict[str, Any]


class FindingKey(NamedTuple):
    """The subject of a finding. ``ledger`` or ``bookie`` is None if the finding names none."""

    check: str
    ledger: int | None
    bookie: str | None


@dataclass
class Plants:
    """The planted faults of a cluster.

    ``deeds`` maps each expected finding to the action that causes it. ``followed`` has findings that are
    true as well, such as a ledger that a bookie's fault makes undecided. Every other finding is false.
    """

    deeds: dict[FindingKey, str] = field(default_factory=dict)
    followed: set[FindingKey] = field(default_factory=set)

    def plant(self, check: str, deed: str, ledger: int | None = None, bookie: str | None = None) -> None:
        """Register a fault.

        Args:
            check: The check id that must report it.
            deed: The action that caused it.
            ledger: The ledger of the finding. None if it names none.
            bookie: The bookie of the finding. None if it names none.
        """
        self.deeds[FindingKey(check, ledger, bookie)] = deed

    def follows(
        self, *checks: str, ledgers: Iterable[int | None] = (None,), bookies: Iterable[str | None] = (None,)
    ) -> None:
        """Register findings that are true as a consequence of the faults, for each ledger and bookie."""
        bookies = tuple(bookies)
        self.followed |= {
            FindingKey(check, ledger, bookie) for check in checks for ledger in ledgers for bookie in bookies
        }


@dataclass
class Score:
    """The results of one check.

    ``true`` counts findings that follow from faults. ``false`` counts confirmed findings without a cause.
    """

    deeds: list[str] = field(default_factory=list)
    planted: int = 0
    found: Counter[str] = field(default_factory=Counter)
    true: int = 0
    false: int = 0
    false_suspects: int = 0

    def row(self, check: str) -> tuple[str, ...]:
        """Return the cells of the table. Precision and recall count findings of every confidence."""
        counts, total = self.found, sum(self.found.values())
        right = total + self.true
        wrong = self.false + self.false_suspects
        return (
            check,
            "; ".join(dict.fromkeys(self.deeds)),
            *map(str, (self.planted, counts["confirmed"], counts["suspect"], counts["unknown"])),
            *map(str, (self.true, self.false, self.false_suspects)),
            f"{right / (right + wrong):.2f}" if right + wrong else "-",
            f"{total / self.planted:.2f}" if self.planted else "-",
        )


HEAD = (
    *("check", "made by", "planted", "confirmed", "suspect", "unknown"),
    *("other true", "false", "false suspects", "precision", "recall"),
)


def score(plants: Plants, findings: Sequence[Finding], scores: dict[str, Score]) -> list[str]:
    """Compare findings with the planted faults, and add them to the scores of their checks.

    Returns a description of each false finding and each overlooked fault.
    """
    wrong = []
    expected = dict(plants.deeds)
    for about, deed in plants.deeds.items():
        scores[about.check].planted += 1
        scores[about.check].deeds.append(deed)
    for finding in findings:
        about = FindingKey(finding["id"], finding["ledger_id"], finding["bookie_id"])
        result = scores[about.check]
        if about in expected:
            del expected[about]
            result.found[finding["confidence"]] += 1
        elif about in plants.followed or about in plants.deeds:
            result.true += 1
        else:
            result.false += finding["confidence"] == "confirmed"
            result.false_suspects += finding["confidence"] != "confirmed"
            wrong.append(f"false ({finding['confidence']}): {tuple(about)}: {finding['message']}")
    return wrong + [f"overlooked: {tuple(about)}: {deed}" for about, deed in expected.items()]


def empty_scores() -> dict[str, Score]:
    return {check: Score() for check in CHECK_BY_ID}

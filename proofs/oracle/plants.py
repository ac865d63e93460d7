"""What is planted in a cluster, and how the findings of an audit are held to it, per check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from auditor.checks import BY_ID

Finding = dict[str, Any]


class About(NamedTuple):
    """What a finding is about. A ledger that is None is a finding on no ledger; so is a bookie."""

    check: str
    ledger: int | None
    bookie: str | None


@dataclass
class Plants:
    """The faults of a cluster, each with the deed that made it.

    ``followed`` is what is true besides and was not the aim, such as a ledger that a bookie's fault makes
    undecided. What is in neither is false.
    """

    deeds: dict[About, str] = field(default_factory=dict)
    followed: set[About] = field(default_factory=set)

    def plant(self, check: str, deed: str, ledger: int | None = None, bookie: str | None = None) -> None:
        """A fault: what was done, by whom, and which finding it must give."""
        self.deeds[About(check, ledger, bookie)] = deed

    def follows(
        self, *checks: str, ledgers: Iterable[int | None] = (None,), bookies: Iterable[str | None] = (None,)
    ) -> None:
        """What follows from the faults, of each of these ledgers and bookies."""
        bookies = tuple(bookies)
        self.followed |= {
            About(check, ledger, bookie) for check in checks for ledger in ledgers for bookie in bookies
        }


@dataclass
class Score:
    """What came of one check. ``true`` counts findings that followed; ``false`` those that are not."""

    deeds: list[str] = field(default_factory=list)
    planted: int = 0
    found: Counter[str] = field(default_factory=Counter)
    true: int = 0
    false: int = 0
    false_suspects: int = 0

    def row(self, check: str) -> tuple[str, ...]:
        """Cells of the table; precision and recall count a finding whatever its confidence."""
        said, found = self.found, sum(self.found.values())
        right = found + self.true
        wrong = self.false + self.false_suspects
        return (
            check,
            "; ".join(dict.fromkeys(self.deeds)),
            *map(str, (self.planted, said["confirmed"], said["suspect"], said["unknown"])),
            *map(str, (self.true, self.false, self.false_suspects)),
            f"{right / (right + wrong):.2f}" if right + wrong else "-",
            f"{found / self.planted:.2f}" if self.planted else "-",
        )


HEAD = (
    *("check", "made by", "planted", "confirmed", "suspect", "unknown"),
    *("other true", "false", "false suspects", "precision", "recall"),
)


def score(plants: Plants, findings: Sequence[Finding], scores: dict[str, Score]) -> list[str]:
    """Hold the findings of a cluster to what was planted in it; what is false or was overlooked, in words."""
    wrong = []
    left = dict(plants.deeds)
    for about, deed in plants.deeds.items():
        scores[about.check].planted += 1
        scores[about.check].deeds.append(deed)
    for finding in findings:
        about = About(finding["id"], finding["ledger_id"], finding["bookie_id"])
        one = scores[about.check]
        if about in left:
            del left[about]
            one.found[finding["confidence"]] += 1
        elif about in plants.followed or about in plants.deeds:
            one.true += 1
        else:
            one.false += finding["confidence"] == "confirmed"
            one.false_suspects += finding["confidence"] != "confirmed"
            wrong.append(f"false ({finding['confidence']}): {tuple(about)}: {finding['message']}")
    return wrong + [f"overlooked: {tuple(about)}: {deed}" for about, deed in left.items()]


def empty_scores() -> dict[str, Score]:
    return {check: Score() for check in BY_ID}

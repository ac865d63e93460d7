"""The confusion matrix of a loop: true, false, open and overlooked findings of each check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from proofs.living.rules import Finding, Verdict

COLUMNS = (
    ("confirmed", Verdict.TRUE),
    ("confirmed", Verdict.FALSE),
    ("confirmed", Verdict.OPEN),
    ("suspect", Verdict.TRUE),
    ("suspect", Verdict.FALSE),
    ("suspect", Verdict.OPEN),
)


@dataclass
class Matrix:
    """The counts of a loop. ``wrong`` has the false confirmed findings, each with the name of its audit."""

    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    overlooked: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, Finding]] = field(default_factory=list)

    def add(self, audit: str, finding: Finding, verdict: Verdict) -> None:
        if finding["confidence"] == "unknown":
            self.unknown[finding["id"]] += 1
            return
        self.cells[finding["id"], finding["confidence"], verdict] += 1
        if (finding["confidence"], verdict) == ("confirmed", Verdict.FALSE):
            self.wrong.append((audit, finding))

    def miss(self, id: str) -> None:
        """Count a true fault that no finding reported."""
        self.overlooked[id] += 1

    def suspects(self) -> int:
        return sum(count for (_, confidence, _), count in self.cells.items() if confidence == "suspect")

    def text(self) -> str:
        ids = sorted({id for id, _, _ in self.cells} | set(self.overlooked) | set(self.unknown))
        head = "".join(f"{confidence[:4]}.{verdict:<6}" for confidence, verdict in COLUMNS)
        lines = [f"{'check':<26}{head}unknown    overlooked"]
        for id in ids:
            cells = "".join(f"{self.cells[id, *column] or '.':<11}" for column in COLUMNS)
            lines.append(f"{id:<26}{cells}{self.unknown[id] or '.':<11}{self.overlooked[id] or '.'}")
        return "\n".join(lines)

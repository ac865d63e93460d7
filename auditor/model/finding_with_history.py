"""A finding together with what time says of it."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.finding import Finding
from auditor.model.standing import Standing


@dataclass(frozen=True, slots=True)
class FindingWithHistory:
    """A finding of one run; ``standing`` is None where the run kept none."""

    finding: Finding
    standing: Standing | None = None

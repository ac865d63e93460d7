"""Diagnoses of audits, with sources given as texts, as on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.doctor import examine, parse_sources
from auditor.model.options import AuditOptions
from auditor.reports.doctor import Diagnosis


def diagnose(
    metadata: str | None = None,
    bookies: Sequence[str] = (),
    out: str | None = None,
    options: AuditOptions | None = None,
    start_spark: bool = False,
) -> Diagnosis:
    sources = parse_sources(metadata, bookies, options or AuditOptions())
    return examine(sources, out, options, start_spark)

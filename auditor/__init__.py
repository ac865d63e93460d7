"""Audit Apache BookKeeper clusters from their metadata and bookie indexes, without changing anything.

The names below are imported lazily, when they are first used. Importing this package neither imports nor
starts Spark.

>>> from auditor import AuditOptions
>>> AuditOptions(samples=5).samples
5
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from auditor.audit.audit import Audit
    from auditor.errors import AuditorError
    from auditor.model.finding import Confidence, Finding, Missing, Severity
    from auditor.model.options import AuditOptions
    from auditor.model.report import Report
    from auditor.notebook.run import Run, open_run
    from auditor.sources import register

__all__ = [
    "Audit",
    "AuditOptions",
    "AuditorError",
    "Confidence",
    "Finding",
    "Missing",
    "Report",
    "Run",
    "Severity",
    "open_run",
    "register",
]

_HOME = {
    "Audit": "auditor.audit.audit",
    "AuditOptions": "auditor.model.options",
    "AuditorError": "auditor.errors",
    "Confidence": "auditor.model.finding",
    "Finding": "auditor.model.finding",
    "Missing": "auditor.model.finding",
    "Report": "auditor.model.report",
    "Run": "auditor.notebook.run",
    "Severity": "auditor.model.finding",
    "open_run": "auditor.notebook.run",
    "register": "auditor.sources",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)

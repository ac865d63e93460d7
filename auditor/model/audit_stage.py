"""Names of the stages of an audit, which ``--stop-after`` takes and progress shows.

`auditor.audit.audit_stages` declares what each stage does. The names are in a module of their own, because
the help of the command line lists them and must not load the modules of the audit.
"""

from enum import StrEnum


class AuditStage(StrEnum):
    """Name of a stage of an audit. The order of the members is the order of the stages."""

    METADATA = "metadata"
    OWNERS = "owners"
    INDEXES = "indexes"
    ENTRY_LOGS = "entry-logs"
    ASK = "ask"
    COMPARE = "compare"
    JUDGE = "judge"
    WITNESS = "witness"
    SECOND_SCAN = "second-scan"
    DERIVE = "derive"
    CHECK = "check"
    CONFIRM = "confirm"
    CHANGES = "changes"
    HOLDS = "holds"
    REPORT = "report"

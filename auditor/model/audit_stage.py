"""Names of the stages of an audit. ``--stop-after`` accepts them, and progress reports show them.

`auditor.audit.audit_stages` declares what each stage does. The names have their own module, because the
command line lists them in its help. The help must not load the modules of the audit.
"""

from enum import StrEnum


class AuditStage(StrEnum):
    """Name of a stage of an audit. The members are in the order in which the stages run."""

    METADATA = "metadata"
    OWNERS = "owners"
    INDEXES = "indexes"
    ENTRY_LOGS = "entry-logs"
    LIST_BOOKIE_ENTRIES = "ask"
    COMPARE_COPIES = "compare"
    JUDGE_LEDGERS = "judge"
    ASK_FOR_MISSING_ENTRIES = "witness"
    SECOND_SCAN = "second-scan"
    BUILD_CHECK_TABLES = "derive"
    RUN_CHECKS = "check"
    CONFIRM_SUSPECTS = "confirm"
    FIND_CHANGES = "changes"
    MAKE_HOLDS = "holds"
    WRITE_REPORT = "report"

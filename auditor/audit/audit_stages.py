"""The stages of one audit, from sources to report.

The order of the stages matters. Writers create the metadata of a ledger before the first entry, and bookies
delete the data after the metadata is deleted. The audit therefore reads a disk first, and the metadata again
afterwards. If a ledger is on the disk but not in this later metadata, the ledger was deleted.

This command writes the table of stages in docs/architecture.md:

    python -m auditor.audit.audit_stages
"""

from pathlib import Path

from auditor.audit.check_stage import confirm_findings
from auditor.audit.comparison import compare_replicas, judge_by_index, judge_with_witness, query_bookies
from auditor.audit.stage_functions import (
    check_tables,
    compare_runs,
    derive_for_checks,
    make_holds,
    read_all_bookies,
    read_owners_and_racks,
    scan_again,
    scan_entry_logs,
    scan_metadata,
    write_report,
)
from auditor.audit.stages import Stage, with_stages
from auditor.model.audit_stage import AuditStage

INITIAL_VALUES = ("cache", "source", "options", "configuration", "bookie_sources", "started")
"""Names of the values that no stage makes. ``started`` is the start of the audit in ms."""

STAGES = (
    Stage(
        AuditStage.METADATA,
        "read all metadata, with the version of each ledger (first scan, M0)",
        ("cache", "source", "options"),
        ("earlier", "first"),
        scan_metadata,
    ),
    Stage(
        AuditStage.OWNERS,
        "read the references of applications to ledgers, and the racks of bookies",
        ("source", "options"),
        ("owner_lists", "placement"),
        read_owners_and_racks,
    ),
    Stage(
        AuditStage.INDEXES,
        "read the last mark, the index and the journals of every bookie",
        ("cache", "first", "bookie_sources", "earlier", "owner_lists", "options"),
        ("indexes", "resolved_owners"),
        read_all_bookies,
    ),
    Stage(
        AuditStage.ENTRY_LOGS,
        "read the entry logs (`--entry-logs`)",
        ("cache", "first", "indexes", "options"),
        ("entry_logs", "has_gone"),
        scan_entry_logs,
    ),
    Stage(
        AuditStage.LIST_BOOKIE_ENTRIES,
        "ask the bookies to list their entries (`--bookies rpc:`)",
        ("cache", "first", "indexes", "options"),
        ("answers",),
        query_bookies,
    ),
    Stage(
        AuditStage.COMPARE_COPIES,
        "compare the expected and the present entries of each replica, and keep the replicas that differ",
        ("cache", "first", "indexes", "answers", "has_gone"),
        ("pairs",),
        compare_replicas,
    ),
    Stage(
        AuditStage.JUDGE_LEDGERS,
        "determine the class of each ledger from the replicas that differ",
        ("cache", "first", "pairs", "options"),
        ("judged_by_index",),
        judge_by_index,
    ),
    Stage(
        AuditStage.ASK_FOR_MISSING_ENTRIES,
        "ask the bookies for entries that seem to be missing (only for a running store)",
        ("cache", "first", "pairs", "judged_by_index", "options"),
        ("comparison",),
        judge_with_witness,
    ),
    Stage(
        AuditStage.SECOND_SCAN,
        "read the metadata again, or only its changes if the store can list them (second scan, M1)",
        ("first",),
        ("metadata", "difference"),
        scan_again,
    ),
    Stage(
        AuditStage.BUILD_CHECK_TABLES,
        "choose the earlier runs to compare with, and build the tables that the checks read",
        (
            *("cache", "source", "metadata", "difference", "indexes", "answers", "comparison"),
            *("resolved_owners", "placement", "entry_logs", "configuration", "options"),
        ),
        ("before", "owners", "tables", "sources"),
        derive_for_checks,
    ),
    Stage(
        AuditStage.RUN_CHECKS,
        "run every check",
        ("cache", "metadata", "difference", "tables", "configuration"),
        ("unconfirmed", "claims", "holes"),
        check_tables,
    ),
    Stage(
        AuditStage.CONFIRM_SUSPECTS,
        "confirm suspect findings that an earlier run also had, and write all findings",
        ("cache", "unconfirmed", "claims", "tables", "before", "options"),
        ("findings",),
        confirm_findings,
    ),
    Stage(
        AuditStage.FIND_CHANGES,
        "find new, worse, fixed and unseen findings, and apply suppressions",
        (
            *("cache", "source", "metadata", "indexes", "tables", "owners", "before", "findings", "holes"),
            *("has_gone", "configuration", "options"),
        ),
        ("changes",),
        compare_runs,
    ),
    Stage(
        AuditStage.MAKE_HOLDS,
        "derive holds and actions",
        (
            *("cache", "source", "metadata", "indexes", "answers", "owners", "tables", "sources", "before"),
            *("findings", "claims", "changes", "holes", "configuration", "options"),
        ),
        ("holds", "actions", "numbers"),
        make_holds,
    ),
    Stage(
        AuditStage.WRITE_REPORT,
        "write counts, samples, coverage and verdict",
        (
            *("cache", "started", "configuration", "options", "metadata", "earlier", "indexes", "answers"),
            *("comparison", "owners", "placement", "entry_logs", "tables", "holes", "changes", "holds"),
            *("actions", "numbers"),
        ),
        ("report",),
        write_report,
    ),
)
"""The stages of an audit, in order."""


if __name__ == "__main__":
    architecture_page = Path("docs", "architecture.md")
    architecture_page.write_text(with_stages(architecture_page.read_text("utf-8"), STAGES), "utf-8")

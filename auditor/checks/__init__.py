"""All checks, in the order in which reports list them."""

from importlib import import_module

from auditor.checks.check import FINDING_COLUMNS, Basis, Check, Need, RosterCheck, TableCheck
from auditor.checks.manual import SECTIONS
from auditor.model.finding import Severity, Urgency

_MODULES_BY_GROUP = {
    "replication": (
        "entry_lost",
        "below_ack_quorum",
        "below_write_quorum",
        "ledger_unavailable",
        "replication_undecided",
        "bookie_unread",
        "on_unregistered_bookie",
        "copy_lagging",
        "mark_stale",
        "mark_stuck",
        "mark_missing",
        "mark_of_deleted_ledger",
        "mark_of_empty_ledger",
        "mark_directory_empty",
        "lock_without_mark",
        "mark_unknown_replica",
        "mark_unreadable",
        "all_bookies_read_only",
        "too_few_writable_bookies",
        "no_auditor",
        "no_replication_workers",
        "replication_disabled",
        "lost_bookie_delay_long",
        "server_check_overdue",
    ),
    "placement": (
        "placement_violated",
        "placement_at_risk",
        "bookie_without_location",
        "location_depths_mixed",
        "location_slashes",
        "bookie_in_two_groups",
        "placement_settings_differ",
    ),
    "storage": (
        "orphan_ledger",
        "orphan_ledger_deleting",
        "orphan_stuck",
        "over_replicated_ledger",
        "copy_in_flight",
        "stale_segment",
        "entries_past_end",
        "surplus_entries",
        "index_unreadable",
        "index_incomplete",
        "ledger_not_indexed",
        "ledgers_in_limbo",
        "ledgers_in_wrong_directory",
        "metadata_suspect",
        "source_suspect",
        "gc_would_delete_live",
        "stray_file",
        "entry_log_header_wrong",
        "entry_log_missing",
        "entry_digest_wrong",
        "replica_mismatch",
        "master_key_mismatch",
        "entry_log_reclaimable",
        "entry_log_pinned",
        "compaction_stopped",
    ),
    "identity": (
        "ghost_bookie",
        "bookie_down",
        "cookie_missing",
        "cookie_unused",
        "cookie_key_mismatch",
        "cookie_unreadable",
        "disk_id_mismatch",
        "disk_content_mismatch",
        "bookie_alias",
        "alias_gc_danger",
        "instance_mismatch",
        "disk_version_missing",
        "disk_dirs_disagree",
        "dirset_mismatch",
        "disk_shared",
        "start_refused",
        "bookie_id_invalid",
        "bookie_id_reserved",
        "registered_twice",
        "registration_not_ephemeral",
        "instance_id_missing",
        "endpoint_missing",
        "endpoint_duplicate",
        "endpoint_drift",
    ),
    "metadata": (
        "metadata_unreadable",
        "metadata_misplaced",
        "segment_gap",
        "segment_order",
        "ensemble_size",
        "ensemble_duplicate",
        "quorum_invalid",
        "recovery_stuck",
        "ledger_open_long",
        "id_generator_behind",
    ),
    "owner": (
        "owner_dangling",
        "owner_unreadable",
        "owner_length_mismatch",
        "ledger_misattributed",
        "ledger_unowned",
        "owners_suspect",
        "offload_incomplete",
        "offload_not_trimmed",
        "offload_object_missing",
        "object_orphan",
    ),
}
"""Modules with a check, by the group of the check. A module and the function in it have the same name."""

GROUPS = tuple(_MODULES_BY_GROUP)
GROUP_BY_ID = {name.replace("_", "-"): group for group, names in _MODULES_BY_GROUP.items() for name in names}
"""Group of a check, by its id."""

ALL_CHECKS: tuple[Check, ...] = tuple(
    getattr(import_module(f"auditor.checks.{name}"), name)
    for names in _MODULES_BY_GROUP.values()
    for name in names
)
# Former ids too, because scripts may use them.
CHECK_BY_ID: dict[str, Check] = {name: check for check in ALL_CHECKS for name in (check.id, *check.aliases)}

_POSITION_BY_ID = {check.id: position for position, check in enumerate(ALL_CHECKS)}


def check_order(urgency: str, severity: str, id: str) -> tuple[int, int, int, str]:
    """Return the sort key of a check's findings in reports: urgency, severity, position in `ALL_CHECKS`, id.

    >>> check_order("lost", "critical", "entry-lost") < check_order("rest", "critical", "start-refused")
    True
    """
    return Urgency(urgency).rank, Severity(severity).rank, _POSITION_BY_ID.get(id, len(ALL_CHECKS)), id


TABLE_CHECKS: tuple[TableCheck, ...] = tuple(check for check in ALL_CHECKS if isinstance(check, TableCheck))
ROSTER_CHECKS: tuple[RosterCheck, ...] = tuple(
    check for check in ALL_CHECKS if isinstance(check, RosterCheck)
)

__all__ = [
    "ALL_CHECKS",
    "CHECK_BY_ID",
    "FINDING_COLUMNS",
    "GROUPS",
    "GROUP_BY_ID",
    "ROSTER_CHECKS",
    "TABLE_CHECKS",
    "SECTIONS",
    "Basis",
    "Check",
    "Need",
    "RosterCheck",
    "Severity",
    "TableCheck",
    "check_order",
]

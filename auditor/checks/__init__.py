"""Every check, in the order reports show them."""

from __future__ import annotations

from auditor.checks.alias_gc_danger import alias_gc_danger
from auditor.checks.below_ack_quorum import below_ack_quorum
from auditor.checks.below_write_quorum import below_write_quorum
from auditor.checks.bookie_alias import bookie_alias
from auditor.checks.bookie_down import bookie_down
from auditor.checks.bookie_id_invalid import bookie_id_invalid
from auditor.checks.bookie_id_reserved import bookie_id_reserved
from auditor.checks.bookie_unread import bookie_unread
from auditor.checks.check import FINDING_COLUMNS, GROUPS, Basis, Check, Need, RosterCheck, TableCheck
from auditor.checks.compaction_stopped import compaction_stopped
from auditor.checks.cookie_key_mismatch import cookie_key_mismatch
from auditor.checks.cookie_missing import cookie_missing
from auditor.checks.cookie_unreadable import cookie_unreadable
from auditor.checks.cookie_unused import cookie_unused
from auditor.checks.copy_in_flight import copy_in_flight
from auditor.checks.copy_lagging import copy_lagging
from auditor.checks.dirset_mismatch import dirset_mismatch
from auditor.checks.disk_content_mismatch import disk_content_mismatch
from auditor.checks.disk_dirs_disagree import disk_dirs_disagree
from auditor.checks.disk_id_mismatch import disk_id_mismatch
from auditor.checks.disk_shared import disk_shared
from auditor.checks.disk_version_missing import disk_version_missing
from auditor.checks.endpoint_drift import endpoint_drift
from auditor.checks.endpoint_duplicate import endpoint_duplicate
from auditor.checks.endpoint_missing import endpoint_missing
from auditor.checks.ensemble_duplicate import ensemble_duplicate
from auditor.checks.ensemble_size import ensemble_size
from auditor.checks.entries_past_end import entries_past_end
from auditor.checks.entry_digest_wrong import entry_digest_wrong
from auditor.checks.entry_log_header_wrong import entry_log_header_wrong
from auditor.checks.entry_log_missing import entry_log_missing
from auditor.checks.entry_log_pinned import entry_log_pinned
from auditor.checks.entry_log_reclaimable import entry_log_reclaimable
from auditor.checks.entry_lost import entry_lost
from auditor.checks.gc_would_delete_live import gc_would_delete_live
from auditor.checks.ghost_bookie import ghost_bookie
from auditor.checks.index_incomplete import index_incomplete
from auditor.checks.index_unreadable import index_unreadable
from auditor.checks.instance_id_missing import instance_id_missing
from auditor.checks.instance_mismatch import instance_mismatch
from auditor.checks.ledger_misattributed import ledger_misattributed
from auditor.checks.ledger_not_indexed import ledger_not_indexed
from auditor.checks.ledger_unowned import ledger_unowned
from auditor.checks.ledgers_in_limbo import ledgers_in_limbo
from auditor.checks.ledgers_in_wrong_directory import ledgers_in_wrong_directory
from auditor.checks.lock_without_mark import lock_without_mark
from auditor.checks.manual import SECTIONS
from auditor.checks.mark_directory_empty import mark_directory_empty
from auditor.checks.mark_missing import mark_missing
from auditor.checks.mark_of_deleted_ledger import mark_of_deleted_ledger
from auditor.checks.mark_of_empty_ledger import mark_of_empty_ledger
from auditor.checks.mark_stale import mark_stale
from auditor.checks.mark_stuck import mark_stuck
from auditor.checks.mark_unknown_replica import mark_unknown_replica
from auditor.checks.mark_unreadable import mark_unreadable
from auditor.checks.master_key_mismatch import master_key_mismatch
from auditor.checks.metadata_misplaced import metadata_misplaced
from auditor.checks.metadata_suspect import metadata_suspect
from auditor.checks.metadata_unreadable import metadata_unreadable
from auditor.checks.object_orphan import object_orphan
from auditor.checks.offload_incomplete import offload_incomplete
from auditor.checks.offload_not_trimmed import offload_not_trimmed
from auditor.checks.offload_object_missing import offload_object_missing
from auditor.checks.on_unregistered_bookie import on_unregistered_bookie
from auditor.checks.orphan_ledger import orphan_ledger
from auditor.checks.orphan_ledger_deleting import orphan_ledger_deleting
from auditor.checks.orphan_stuck import orphan_stuck
from auditor.checks.over_replicated_ledger import over_replicated_ledger
from auditor.checks.owner_dangling import owner_dangling
from auditor.checks.owner_length_mismatch import owner_length_mismatch
from auditor.checks.owner_unreadable import owner_unreadable
from auditor.checks.quorum_invalid import quorum_invalid
from auditor.checks.recovery_stuck import recovery_stuck
from auditor.checks.registered_twice import registered_twice
from auditor.checks.registration_not_ephemeral import registration_not_ephemeral
from auditor.checks.replica_mismatch import replica_mismatch
from auditor.checks.replication_undecided import replication_undecided
from auditor.checks.segment_gap import segment_gap
from auditor.checks.segment_order import segment_order
from auditor.checks.stale_segment import stale_segment
from auditor.checks.start_refused import start_refused
from auditor.checks.stray_file import stray_file
from auditor.checks.surplus_entries import surplus_entries
from auditor.model.finding import Severity

ALL: tuple[Check, ...] = (
    # replication
    entry_lost,
    below_ack_quorum,
    below_write_quorum,
    replication_undecided,
    bookie_unread,
    on_unregistered_bookie,
    copy_lagging,
    mark_stale,
    mark_stuck,
    mark_missing,
    mark_of_deleted_ledger,
    mark_of_empty_ledger,
    mark_directory_empty,
    lock_without_mark,
    mark_unknown_replica,
    mark_unreadable,
    # storage
    orphan_ledger,
    orphan_ledger_deleting,
    orphan_stuck,
    over_replicated_ledger,
    copy_in_flight,
    stale_segment,
    entries_past_end,
    surplus_entries,
    index_unreadable,
    index_incomplete,
    ledger_not_indexed,
    ledgers_in_limbo,
    ledgers_in_wrong_directory,
    metadata_suspect,
    gc_would_delete_live,
    stray_file,
    entry_log_header_wrong,
    entry_log_missing,
    entry_digest_wrong,
    replica_mismatch,
    master_key_mismatch,
    entry_log_reclaimable,
    entry_log_pinned,
    compaction_stopped,
    # identity
    ghost_bookie,
    bookie_down,
    cookie_missing,
    cookie_unused,
    cookie_key_mismatch,
    cookie_unreadable,
    disk_id_mismatch,
    disk_content_mismatch,
    bookie_alias,
    alias_gc_danger,
    instance_mismatch,
    disk_version_missing,
    disk_dirs_disagree,
    dirset_mismatch,
    disk_shared,
    start_refused,
    bookie_id_invalid,
    bookie_id_reserved,
    registered_twice,
    registration_not_ephemeral,
    instance_id_missing,
    endpoint_missing,
    endpoint_duplicate,
    endpoint_drift,
    # metadata
    metadata_unreadable,
    metadata_misplaced,
    segment_gap,
    segment_order,
    ensemble_size,
    ensemble_duplicate,
    quorum_invalid,
    recovery_stuck,
    # owners
    owner_dangling,
    owner_unreadable,
    owner_length_mismatch,
    ledger_misattributed,
    ledger_unowned,
    offload_incomplete,
    offload_not_trimmed,
    offload_object_missing,
    object_orphan,
)
# Aliases too: an id that a check once had leads to it for ever.
BY_ID: dict[str, Check] = {name: check for check in ALL for name in (check.id, *check.aliases)}

OF_TABLES: tuple[TableCheck, ...] = tuple(each for each in ALL if isinstance(each, TableCheck))
OF_BOOKIES: tuple[RosterCheck, ...] = tuple(each for each in ALL if isinstance(each, RosterCheck))

__all__ = [
    "ALL",
    "BY_ID",
    "FINDING_COLUMNS",
    "GROUPS",
    "OF_BOOKIES",
    "OF_TABLES",
    "SECTIONS",
    "Basis",
    "Check",
    "Need",
    "RosterCheck",
    "Severity",
    "TableCheck",
]

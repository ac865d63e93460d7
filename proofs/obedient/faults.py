"""Faults of a running cluster, such as hosts, disks and operators cause. A round has one to three.

Each function makes one fault and returns its description.
"""

from __future__ import annotations

from collections.abc import Callable

from proofs.obedient import disk_faults, store_faults
from proofs.obedient.cluster import TOPICS, TrialCluster, TrialLedger
from proofs.obedient.targets import (
    choose_ledgers_on,
    choose_running,
    choose_several_running,
    has_index_files,
    running_bookies,
)
from tests.plan.cluster import claim

Fault = Callable[[TrialCluster], str]


def stop_bookie(cluster: TrialCluster) -> str:
    bookie = choose_running(cluster)
    cluster.bookies.stop(bookie)
    return f"{bookie} is down"


def stop_two_bookies(cluster: TrialCluster) -> str:
    return f"{stop_bookie(cluster)}, {stop_bookie(cluster)}"


def keep_last_copy_outside(cluster: TrialCluster) -> str:
    """Write a ledger only to a bookie that its metadata do not name. The named bookies have no entries."""
    [outside, *members] = choose_several_running(cluster, 3)
    ledger = _recorded(cluster, members, 10)
    cluster.bookies.add(ledger.id, outside, range(10))
    _settle(cluster, outside)
    return f"{outside} has the last copy of ledger {ledger.id} outside its ensemble"


def lack_copies(cluster: TrialCluster) -> str:
    """Write a ledger, but omit some of its entries on members of its ensemble."""
    members = choose_several_running(cluster, 2)
    ledger = _recorded(cluster, members, 10)
    lacking = {members[0]: set(cluster.random.sample(range(10), 3))}
    if cluster.random.random() < 0.5:
        lacking[members[1]] = {number for number in range(10) if number not in lacking[members[0]]} - {0, 9}
    for name in members:
        cluster.bookies.add(ledger.id, name, [n for n in range(10) if n not in lacking.get(name, set())])
    _settle(cluster, *members)
    return f"the members of ledger {ledger.id} lack entries"


def differ_in_payload(cluster: TrialCluster) -> str:
    """Write a ledger whose copies have different payloads, each with a correct digest."""
    members = choose_several_running(cluster, 3)
    ledger = _recorded(cluster, members, 10)
    cluster.bookies.add(ledger.id, members[0], range(10))
    cluster.bookies.add(ledger.id, members[1], range(10), payload="other")
    if cluster.random.random() < 0.5:
        cluster.bookies.add(ledger.id, members[2], range(10))
    _settle(cluster, *members)
    return f"the copies of ledger {ledger.id} differ"


def continue_past_end(cluster: TrialCluster) -> str:
    """Write entries after the end of a closed ledger. All ensemble members acknowledge them."""
    members = choose_several_running(cluster, 2)
    ledger = _recorded(cluster, members, 10)
    ledger.entries = 13
    for name in members:
        cluster.bookies.add(ledger.id, name, range(13))
    _settle(cluster, *members)
    return f"ledger {ledger.id} continues past its end"


def set_read_only(cluster: TrialCluster) -> str:
    bookie = choose_running(cluster)
    cluster.bookies.set_read_only(bookie)
    return f"{bookie} is read-only"


def set_limbo(cluster: TrialCluster) -> str:
    """Put a ledger into limbo on a bookie with DbLedgerStorage: the bookie has it but does not serve it."""
    running = [name for name in running_bookies(cluster) if not has_index_files(cluster, name)]
    for bookie in cluster.random.sample(running, len(running)):
        for ledger in choose_ledgers_on(cluster, bookie)[:1]:
            cluster.bookies.set_limbo(bookie, ledger.id)
            return f"ledger {ledger.id} is in limbo on {bookie}"
    return "no ledger is in limbo"


FAULTS: dict[str, Fault] = {
    "bookie-down": stop_bookie,
    "two-bookies-down": stop_two_bookies,
    "disks-empty": disk_faults.empty_disks,
    "disks-empty-but-version": disk_faults.empty_disks_but_version,
    "disks-exchanged": disk_faults.exchange_disks,
    "directory-copied": disk_faults.copy_directory,
    "index-entries-lost": disk_faults.lose_index_entries,
    "index-files-damaged": disk_faults.damage_index_files,
    "entry-log-damaged": disk_faults.damage_entry_log,
    "cookie-deleted": store_faults.delete_cookie,
    "cookie-left": store_faults.leave_cookie,
    "id-renamed": store_faults.rename_in_metadata,
    "metadata-lost": store_faults.lose_metadata,
    "most-metadata-lost": store_faults.lose_most_metadata,
    "owners-lost": store_faults.lose_owners,
    "last-copy-outside": keep_last_copy_outside,
    "copies-lacking": lack_copies,
    "payloads-differ": differ_in_payload,
    "entries-past-end": continue_past_end,
    "replication-off": store_faults.switch_replication_off,
    "instance-changed": store_faults.change_instance,
    "bookie-read-only": set_read_only,
    "ledger-in-limbo": set_limbo,
    "mark-needless": store_faults.mark_without_need,
}

FIRST = (
    "owners-lost", "last-copy-outside", "copies-lacking", "payloads-differ", "entries-past-end",
    "index-entries-lost", "id-renamed",
)  # fmt: skip
"""Faults to make before others, because they need several running bookies, undamaged logs or all metadata."""


def order_of(name: str) -> tuple[bool, str]:
    """Return the sort key that orders the faults of a round."""
    return name not in FIRST, name


def _recorded(cluster: TrialCluster, members: list[str], entries: int) -> TrialLedger:
    """Write the metadata of a closed ledger of a topic. The caller adds its entries bookie by bookie."""
    ledger = TrialLedger(cluster.next_id(), members, entries, TOPICS[2])
    cluster.ledgers[ledger.id] = ledger
    quorum = len(members)
    cluster.bookies.record(ledger.id, members, quorum, max(1, quorum - 1), entries - 1)
    claim(cluster.store, ledger.id, ledger.topic)
    data, _ = cluster.store.client.get(cluster.store.path(ledger.id))
    (cluster.root / f"{ledger.id}.metadata").write_bytes(data)
    return ledger


def _settle(cluster: TrialCluster, *bookies: str) -> None:
    """Write the ledger lists again, flush, and restart bookies so that their logs can be collected."""
    cluster.write_owners()
    cluster.bookies.flush()
    for bookie in bookies:
        cluster.restart(bookie)

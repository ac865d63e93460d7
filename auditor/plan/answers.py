"""Facts about the present state of a cluster, read from a newer run or a store, to check a plan.

A fact that is None is unknown.
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from auditor.actions.action_list import HolderFinder
from auditor.actions.gate import GateRun
from auditor.actions.stop_set import DANGEROUS_CHECKS
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.errors import DecodeError, RunUsageError
from auditor.keys import ledger_path
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.arrow import ds
from auditor.model.ledger_id import LedgerId
from auditor.model.states import BookieRead
from auditor.plan.parts import LedgerRow, read_ledgers
from auditor.plan.plan_facts import EXCHANGE_CHECKS, INDEX_FAULTS, MarkTimes, cookie_digest
from auditor.runs.owners import has_every_owner, has_owners
from auditor.runs.reader import RunReader
from auditor.simulate.exposure import find_joint_holders
from auditor.sources.metadata.ledgers import path_of, read_paths
from auditor.sources.metadata.store import MetadataStore, StoreOptions, Tree
from auditor.sources.metadata.stores import check_reachable, choose_layout, open_store
from auditor.tables.cluster_state import make_cluster_rows
from auditor.tables.registry import find_registered_modes, instance_id, registrations, store_cookies


@dataclass(frozen=True)
class PlanLedgerState:
    """Facts about the ledgers of a plan. ``rows`` has the ledgers that exist, by id.

    Ledgers in ``unread_ids`` may exist too, because the part of the store with their records was not read.
    ``marked_ids`` has the ledgers marked underreplicated. ``locked_ids`` has the ledgers that a worker has
    locked. ``unowned_ids`` has the ledgers that no owner (such as a Pulsar topic) uses. Each of these three
    sets is None if it is unknown.
    """

    rows: Mapping[int, LedgerRow] = field(default_factory=dict)
    unread_ids: frozenset[int] = frozenset()
    marked_ids: Collection[int] | None = None
    locked_ids: Collection[int] | None = None
    unowned_ids: Collection[int] | None = None


@dataclass(frozen=True)
class ClusterState:
    """The state of a cluster at ``time`` (ms), as a newer run or a store shows it.

    Args:
        source_text: The path of the run, or the URI of the store.
        time: The time of the state, ms.
        instance_id: The instance id of the cluster. None if it has none.
        mode_by_bookie: The registered bookies, each with its mode of registration (`registered_modes`).
        cookie_digests: The bookies with a cookie, each with the digest of its cookie.
        are_bookies_listed: Whether all registrations and cookies were listed. If so, a bookie that is not in
            ``mode_by_bookie`` is not registered. A bookie that is not in ``cookie_digests`` has no cookie.
        unread_bookies: Bookies that may have a registration or a cookie, because it was not read.
        replication_state: "on" or "off". None if unknown.
        auditor_state: "elected" or "none". None if unknown.
        ledgers: Facts about the ledgers of the plan.
        ensemble_bookies: Bookies in an ensemble of any ledger. None for a store.
        finding_fingerprints: Fingerprints of the run's findings. None for a store.
        read_bookies: Bookies that the run read. An earlier finding about such a bookie that the run lacks is
            gone, unless its check is in ``checks_without_input``.
        checks_without_input: Checks that had no input in the run.
        run: The newer run, by which `auditor.actions.gate` permits or refuses steps. None for a store.
        list_joint_holders: A function that takes the bookies that would stop. It returns each set of these
            bookies
            that together are the only servers of some entry. None for a store.
    """

    source_text: str
    time: int
    instance_id: str | None
    mode_by_bookie: Mapping[str, str]
    cookie_digests: Mapping[str, str]
    are_bookies_listed: bool
    unread_bookies: frozenset[str]
    replication_state: str | None
    auditor_state: str | None
    ledgers: PlanLedgerState
    ensemble_bookies: frozenset[str] | None = None
    finding_fingerprints: frozenset[str] | None = None
    read_bookies: frozenset[str] = frozenset()
    checks_without_input: frozenset[str] = frozenset()
    run: GateRun | None = None
    list_joint_holders: HolderFinder | None = None


def read_run_state(path: str, ledgers: Collection[int], plan_time: int) -> ClusterState:
    """Read the state from a run that must be newer than ``plan_time``, in ms.

    Raises:
        RunUsageError: the run is older.
        RunError: a table of the run is missing or broken.
    """
    run = RunReader(path)
    facts = run.report.run
    if facts.scan_time < plan_time:
        raise RunUsageError(f"{path}: this run is older than the run that the plan is based on")
    bookies = run.table("bookies", ["bookie_id", "named", "registered", "read"]).to_pylist()
    bookie_listing = facts.bookies_listed
    are_bookies_listed = bookie_listing is not None and bookie_listing["hidden"] is None
    replication_state, auditor_state = _autorecovery_states(
        run.table("cluster", ["fact", "value", "damage"]).to_pylist(), facts.keeps_marks
    )
    return ClusterState(
        source_text=path,
        time=facts.scan_time,
        instance_id=run.report.cluster.instance_id,
        mode_by_bookie={row["bookie_id"]: row["registered"] for row in bookies if row["registered"]},
        cookie_digests={row["bookie_id"]: cookie_digest(row) for row in run.table("cookies").to_pylist()},
        are_bookies_listed=are_bookies_listed,
        unread_bookies=frozenset(bookie_listing["unclear"]) if bookie_listing else frozenset(),
        replication_state=replication_state,
        auditor_state=auditor_state,
        ledgers=_read_run_ledgers(run, ledgers),
        ensemble_bookies=frozenset(row["bookie_id"] for row in bookies if row["named"])
        if not facts.gaps
        else None,
        finding_fingerprints=_condition_fingerprints(run),
        read_bookies=frozenset(row["bookie_id"] for row in bookies if row["read"] == BookieRead.READ),
        checks_without_input=frozenset(facts.blind or ()),
        run=run,
        list_joint_holders=lambda stopping_bookies: find_joint_holders(
            run.directory, are_bookies_listed, stopping_bookies
        ),
    )


def _condition_fingerprints(run: RunReader) -> frozenset[str]:
    """Return the fingerprints of those findings of the run that a condition of a step may name."""
    is_finding_of_condition = ds.field("id").isin([*DANGEROUS_CHECKS, *INDEX_FAULTS, *EXCHANGE_CHECKS])
    batches = run.batches("findings", ["fingerprint"], is_finding_of_condition)
    return frozenset(fingerprint for batch in batches for fingerprint in batch["fingerprint"].to_pylist())


def _read_run_ledgers(run: RunReader, ledger_ids: Collection[int]) -> PlanLedgerState:
    facts, rows = run.report.run, read_ledgers(run, ledger_ids)
    may_have_unread_ledgers = facts.gaps or facts.in_doubt is not None
    mark_times = MarkTimes(run) if facts.keeps_marks and facts.marks_listed else None
    unowned_ids = None
    if has_owners(run) and has_every_owner(run):
        batches = run.batches(
            "tables/ownership",
            ["ledger_id"],
            ds.field("ledger_id").isin(list(ledger_ids))
            & (ds.field("scope_id") == 0)
            & (ds.field("standing") == "unowned"),
        )
        unowned_ids = frozenset(
            ledger_id for batch in batches for ledger_id in batch["ledger_id"].to_pylist()
        )
    return PlanLedgerState(
        rows,
        frozenset(ledger_ids) - rows.keys() if may_have_unread_ledgers else frozenset(),
        None
        if mark_times is None
        else {ledger_id for ledger_id in ledger_ids if mark_times.mark_time(ledger_id) is not None},
        None
        if mark_times is None
        else {ledger_id for ledger_id in ledger_ids if mark_times.is_locked(ledger_id)},
        unowned_ids,
    )


def _autorecovery_states(
    cluster_facts: Collection[Mapping[str, str | None]], are_marks_readable: bool | None
) -> tuple[str | None, str | None]:
    """Return the states of replication ("on", "off") and auditor ("elected", "none"); None if unknown."""
    if not are_marks_readable:
        return None, None
    fact_names = {row["fact"] for row in cluster_facts}
    return (
        "off" if "replication-disabled" in fact_names else "on",
        "elected" if "auditor" in fact_names else "none",
    )


def read_store_state(uri: str, ledgers: Collection[int], options: StoreOptions | None = None) -> ClusterState:
    """Read the state from a live or saved metadata store: the records of ``ledgers`` and of bookies.

    Other records are not read.

    Raises:
        UsageError: the URI is invalid.
        StoreError: the store cannot be read.
    """
    check_reachable(uri, options)
    with closing(open_store(uri, options)) as store:
        cluster_znodes = store.cluster()
        layout, _ = choose_layout(store, cluster_znodes)
        # Paths that were not read. If the listing was cut, the root is one: anything may be missing.
        unread_paths = [
            *(path for path, _ in cluster_znodes.gaps),
            *([store.root] if cluster_znodes.damage is not None else []),
        ]
        unread_names = [path.removeprefix(f"{store.root}/") for path in unread_paths]
        is_replication_state_read = not any(path.startswith("underreplication") for path in unread_names)
        replication_state, auditor_state = _autorecovery_states(
            make_cluster_rows(cluster_znodes), store.keeps_marks and is_replication_state_read
        )
        bookie_prefixes = ("cookies/", "available/")
        return ClusterState(
            source_text=store.uri.text,
            time=cluster_znodes.scan_time,
            instance_id=instance_id(cluster_znodes),
            mode_by_bookie=find_registered_modes(registrations(cluster_znodes)),
            cookie_digests={
                cookie.bookie_id: cookie_digest(cookie.make_row()) for cookie in store_cookies(cluster_znodes)
            },
            are_bookies_listed=all(
                path.startswith((*bookie_prefixes, "underreplication")) for path in unread_names
            ),
            unread_bookies=frozenset(
                path.rpartition("/")[2] for path in unread_names if path.startswith(bookie_prefixes)
            ),
            replication_state=replication_state,
            auditor_state=auditor_state,
            ledgers=_read_store_ledgers(store, layout, ledgers, bool(cluster_znodes.damage)),
        )


def _read_store_ledgers(
    store: MetadataStore, layout: LayoutKind, ledger_ids: Collection[int], is_listing_cut: bool
) -> PlanLedgerState:
    paths = {f"{store.root}/{path_of(layout, LedgerId(ledger_id))}": ledger_id for ledger_id in ledger_ids}
    records, unread_path_errors = read_paths(store, layout, Tree.LEDGERS, paths)
    rows = {paths[path]: _parse_row(paths[path], *record) for path, record in records.items()}
    absent_paths = {ledger_id: path for path, ledger_id in paths.items() if ledger_id not in rows}
    unseen_ids = frozenset(
        ledger_id
        for ledger_id, path in absent_paths.items()
        if is_listing_cut or _is_below_unread_path(path, unread_path_errors)
    )
    marked_ids = locked_ids = None
    if store.keeps_marks:
        mark_paths = {
            f"{store.root}/{ledger_path.mark_to_path(ledger_id)}": ledger_id for ledger_id in ledger_ids
        }
        lock_paths = {
            f"{store.root}/{ledger_path.lock_to_path(ledger_id)}": ledger_id for ledger_id in ledger_ids
        }
        existing_mark_paths, unread_paths = read_paths(store, layout, Tree.MARKS, [*mark_paths, *lock_paths])
        if not (unread_paths or is_listing_cut):
            marked_ids = {ledger_id for path, ledger_id in mark_paths.items() if path in existing_mark_paths}
            locked_ids = {ledger_id for path, ledger_id in lock_paths.items() if path in existing_mark_paths}
    return PlanLedgerState(rows, unseen_ids, marked_ids, locked_ids)


def _is_below_unread_path(path: str, unread_path_errors: Collection[tuple[str, str]]) -> bool:
    return any(
        path == unread_path or path.startswith(f"{unread_path.rstrip('/')}/")
        for unread_path, _ in unread_path_errors
    )


def _parse_row(ledger_id: int, record: bytes, version: int) -> LedgerRow:
    try:
        metadata = ledger_metadata.parse(record, None)
    except DecodeError:
        return LedgerRow(ledger_id, version, None, 0, ())
    ensembles = tuple(segment.ensemble for segment in metadata.segments)
    return LedgerRow(ledger_id, version, metadata.state, metadata.length * metadata.write_quorum, ensembles)

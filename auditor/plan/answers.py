"""Check of a plan against a newer run or a store: each step is still true, done, changed or unknown.

The module first reads the facts that conditions need (None: unknown). It changes nothing in the cluster.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from auditor.actions.action_list import JointHolders
from auditor.actions.gate import HeldRun
from auditor.actions.stop_set import DANGEROUS_CHECKS
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.errors import DecodeError, RunUsageError, UsageError
from auditor.keys import ledger_path
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.amounts import first_names
from auditor.model.arrow import ds
from auditor.model.holds import ActionKind
from auditor.model.ledger_id import LedgerId
from auditor.model.plan import (
    LEDGER_FACTS,
    Condition,
    Fact,
    PlanCheck,
    PlannedLedger,
    PlanStep,
    RepairPlan,
    StepCheck,
    StepState,
)
from auditor.model.source_scope import MAX_CLOCK_AHEAD_MS
from auditor.model.states import BookieRead
from auditor.plan.parts import LedgerRow, ledgers_of
from auditor.plan.permissions import FUTURE_REASON, StepPermission, ask_gate, forbid_last_stops, without_run
from auditor.plan.situation import EXCHANGE_CHECKS, INDEX_FAULTS, MarkTimes, cookie_digest
from auditor.reports.plan import condition_text
from auditor.runs.owners import has_every_owner, has_owners
from auditor.runs.reader import RunReader
from auditor.simulate.exposure import find_joint_holders
from auditor.sources.metadata.ledgers import path_of, read_paths
from auditor.sources.metadata.store import MetadataStore, StoreOptions, Tree
from auditor.sources.metadata.stores import check_reachable, choose_layout, open_store
from auditor.tables.cluster_state import cluster_state
from auditor.tables.registry import instance_id, registered_modes, registrations, store_cookies


@dataclass(frozen=True)
class LedgerAnswers:
    """Facts about a plan's ledgers: ``rows`` of existing ledgers, and ``unsure`` ids, which may exist unseen.

    ``marked``, ``locked`` and ``unowned`` are None if they are unknown.
    """

    rows: Mapping[int, LedgerRow] = field(default_factory=dict)
    unsure: frozenset[int] = frozenset()
    marked: Collection[int] | None = None
    locked: Collection[int] | None = None
    unowned: Collection[int] | None = None


@dataclass(frozen=True)
class Answers:
    """The state of a cluster now; ``asked`` is the newer run or the store that shows it, ``time`` is in ms.

    If ``bookies_listed``, a bookie missing from ``registered`` or ``cookies`` has no registration or no
    cookie, unless it is among the ``unclear`` ones. ``named`` and ``findings`` are None for a store, which
    lacks them. If a finding about one of the ``read`` bookies is missing, it is gone, unless its check is
    ``blind``. ``run`` is the newer run, whose gate permits steps; None for a store. ``joint_holders`` returns
    the sets of stopping bookies that alone serve an entry together; None for a store.
    """

    asked: str
    time: int
    instance_id: str | None
    registered: Mapping[str, str]
    cookies: Mapping[str, str]
    bookies_listed: bool
    unclear: frozenset[str]
    replication: str | None
    auditor: str | None
    ledgers: LedgerAnswers
    named: frozenset[str] | None = None
    findings: frozenset[str] | None = None
    read: frozenset[str] = frozenset()
    blind: frozenset[str] = frozenset()
    run: HeldRun | None = None
    joint_holders: JointHolders | None = None


def ask_run(path: str, ledgers: Collection[int], plan_time: int) -> Answers:
    """Read the state from a run that must be newer than ``plan_time``, in ms.

    Raises:
        RunUsageError: the run is older.
        RunError: a table of it is missing or broken.
    """
    run = RunReader(path)
    facts = run.report.run
    if facts.scan_time < plan_time:
        raise RunUsageError(f"{path}: this run is older than the run of the plan")
    bookies = run.table("bookies", ["bookie_id", "named", "registered", "read"]).to_pylist()
    listing = facts.bookies_listed
    is_listed = listing is not None and listing["hidden"] is None
    replication, auditor = _recovery_states(
        run.table("cluster", ["fact", "value", "damage"]).to_pylist(), facts.keeps_marks
    )
    return Answers(
        asked=path,
        time=facts.scan_time,
        instance_id=run.report.cluster.instance_id,
        registered={row["bookie_id"]: row["registered"] for row in bookies if row["registered"]},
        cookies={row["bookie_id"]: cookie_digest(row) for row in run.table("cookies").to_pylist()},
        bookies_listed=is_listed,
        unclear=frozenset(listing["unclear"]) if listing else frozenset(),
        replication=replication,
        auditor=auditor,
        ledgers=_read_run_ledgers(run, ledgers),
        named=frozenset(row["bookie_id"] for row in bookies if row["named"]) if not facts.gaps else None,
        findings=_condition_fingerprints(run),
        read=frozenset(row["bookie_id"] for row in bookies if row["read"] == BookieRead.READ),
        blind=frozenset(facts.blind or ()),
        run=run,
        joint_holders=lambda stopping: find_joint_holders(run.directory, is_listed, stopping),
    )


def _condition_fingerprints(run: RunReader) -> frozenset[str]:
    """Return the fingerprints of the run's findings to which conditions of steps may refer."""
    is_condition_finding = ds.field("id").isin([*DANGEROUS_CHECKS, *INDEX_FAULTS, *EXCHANGE_CHECKS])
    batches = run.batches("findings", ["fingerprint"], is_condition_finding)
    return frozenset(fingerprint for batch in batches for fingerprint in batch["fingerprint"].to_pylist())


def _read_run_ledgers(run: RunReader, ids: Collection[int]) -> LedgerAnswers:
    facts, rows = run.report.run, ledgers_of(run, ids)
    has_hidden = facts.gaps or facts.in_doubt is not None
    marks = MarkTimes(run) if facts.keeps_marks and facts.marks_listed else None
    unowned = None
    if has_owners(run) and has_every_owner(run):
        batches = run.batches(
            "tables/ownership",
            ["ledger_id"],
            ds.field("ledger_id").isin(list(ids))
            & (ds.field("scope_id") == 0)
            & (ds.field("standing") == "unowned"),
        )
        unowned = frozenset(ledger_id for batch in batches for ledger_id in batch["ledger_id"].to_pylist())
    return LedgerAnswers(
        rows,
        frozenset(ids) - rows.keys() if has_hidden else frozenset(),
        None if marks is None else {ledger_id for ledger_id in ids if marks.mark_time(ledger_id) is not None},
        None if marks is None else {ledger_id for ledger_id in ids if marks.locked(ledger_id)},
        unowned,
    )


def _recovery_states(
    facts: Collection[Mapping[str, str | None]], is_known: bool | None
) -> tuple[str | None, str | None]:
    """Return "on" or "off" for replication, and "elected" or "none" for the auditor; None if not known."""
    if not is_known:
        return None, None
    names = {row["fact"] for row in facts}
    return "off" if "replication-disabled" in names else "on", "elected" if "auditor" in names else "none"


def ask_store(uri: str, ledgers: Collection[int], options: StoreOptions | None = None) -> Answers:
    """Read the state from a live or saved metadata store: only ``ledgers`` and the records of bookies.

    Raises:
        UsageError: the URI is invalid.
        StoreError: the store cannot be read.
    """
    check_reachable(uri, options)
    with closing(open_store(uri, options)) as store:
        nodes = store.cluster()
        layout, _ = choose_layout(store, nodes)
        # Places that were not read, or the root where anything may be missing.
        unread_paths = [*(path for path, _ in nodes.gaps), *([store.root] if nodes.cut is not None else [])]
        names = [path.removeprefix(f"{store.root}/") for path in unread_paths]
        shows_recovery = not any(path.startswith("underreplication") for path in names)
        replication, auditor = _recovery_states(cluster_state(nodes), store.keeps_marks and shows_recovery)
        prefixes = ("cookies/", "available/")
        return Answers(
            asked=store.uri.text,
            time=nodes.scan_time,
            instance_id=instance_id(nodes),
            registered=registered_modes(registrations(nodes)),
            cookies={cookie.bookie_id: cookie_digest(cookie.row()) for cookie in store_cookies(nodes)},
            bookies_listed=all(path.startswith((*prefixes, "underreplication")) for path in names),
            unclear=frozenset(path.rpartition("/")[2] for path in names if path.startswith(prefixes)),
            replication=replication,
            auditor=auditor,
            ledgers=_read_store_ledgers(store, layout, ledgers, bool(nodes.cut)),
        )


def _read_store_ledgers(
    store: MetadataStore, layout: LayoutKind, ids: Collection[int], is_cut: bool
) -> LedgerAnswers:
    paths = {f"{store.root}/{path_of(layout, LedgerId(ledger_id))}": ledger_id for ledger_id in ids}
    records, gaps = read_paths(store, layout, Tree.LEDGERS, paths)
    rows = {paths[path]: _parse_row(paths[path], *record) for path, record in records.items()}
    absent = {ledger_id: path for path, ledger_id in paths.items() if ledger_id not in rows}
    unsure = frozenset(ledger_id for ledger_id, path in absent.items() if is_cut or _is_in_gap(path, gaps))
    marked_ids = locked_ids = None
    if store.keeps_marks:
        mark_paths = {f"{store.root}/{ledger_path.mark_to_path(ledger_id)}": ledger_id for ledger_id in ids}
        lock_paths = {f"{store.root}/{ledger_path.lock_to_path(ledger_id)}": ledger_id for ledger_id in ids}
        found_paths, unread_paths = read_paths(store, layout, Tree.MARKS, [*mark_paths, *lock_paths])
        if not (unread_paths or is_cut):
            marked_ids = {ledger_id for path, ledger_id in mark_paths.items() if path in found_paths}
            locked_ids = {ledger_id for path, ledger_id in lock_paths.items() if path in found_paths}
    return LedgerAnswers(rows, unsure, marked_ids, locked_ids)


def _is_in_gap(path: str, gaps: Collection[tuple[str, str]]) -> bool:
    return any(path == gap or path.startswith(f"{gap.rstrip('/')}/") for gap, _ in gaps)


def _parse_row(id: int, record: bytes, version: int) -> LedgerRow:
    try:
        metadata = ledger_metadata.parse(record, None)
    except DecodeError:
        return LedgerRow(id, version, None, 0, ())
    ensembles = tuple(segment.ensemble for segment in metadata.segments)
    return LedgerRow(id, version, metadata.state, metadata.length * metadata.write_quorum, ensembles)


_SAMPLE_COUNT = 5
_NEEDED_AUDITS = {
    Fact.NAMED: "an audit of the metadata",
    Fact.FINDING: "an audit with the bookie's directories",
    Fact.UNOWNED: "an audit whose stores of owners are proved complete",
}
"""Facts that a store lacks, each with the kind of audit that has it."""


def ledgers_in(plan: RepairPlan) -> frozenset[int]:
    """Return all ledgers in the plan's conditions."""
    return frozenset(int(ledger.ledger_id) for step in plan.steps for ledger in step.ledgers)


def check_plan(plan: RepairPlan, cluster: Answers, time_ms: int | None = None) -> PlanCheck:
    """Check every condition of a plan against the present state of the cluster.

    Args:
        plan: The plan.
        cluster: The state of the cluster.
        time_ms: The current time, ms. None means the time of ``cluster``.

    Raises:
        UsageError: ``cluster`` is the state of another cluster.
    """
    if None not in (plan.instance_id, cluster.instance_id) and plan.instance_id != cluster.instance_id:
        raise UsageError(
            f"{cluster.asked}: cluster instance {cluster.instance_id}; the plan is for {plan.instance_id}"
        )
    time = cluster.time if time_ms is None else max(time_ms, cluster.time)
    if cluster.run is not None:
        cluster.run.holds.now = cluster.time if time_ms is None else time_ms
    is_of_future = time_ms is not None and max(plan.scan_time, cluster.time) - time_ms > MAX_CLOCK_AHEAD_MS
    steps = tuple(_check_step(step, cluster, time, is_of_future) for step in plan.steps)
    if cluster.joint_holders is not None:
        pairs = zip(plan.steps, steps, strict=True)
        steps = forbid_last_stops(pairs, cluster.registered, cluster.joint_holders)
    return PlanCheck(cluster.asked, cluster.time, plan.expires, time > plan.expires, steps)


def _check_step(step: PlanStep, cluster: Answers, time: int, is_of_future: bool) -> StepCheck:
    permission = without_run(step) if cluster.run is None else ask_gate(step, cluster.run)
    if is_of_future:
        permission = replace(permission, unknown=(*permission.unknown, FUTURE_REASON))
    states = {ledger.ledger_id: _ledger_state(step, ledger, cluster, permission) for ledger in step.ledgers}
    counts = Counter(states.values())
    premises = [condition for condition in step.requires if condition.fact not in LEDGER_FACTS]
    goals = [condition for condition in step.done_when if condition.fact not in LEDGER_FACTS]
    has_ledger_goals = len(goals) < len(step.done_when)
    is_done = _all_true(holds(condition, cluster, step.bookie_id) for condition in goals)
    if has_ledger_goals:
        is_done = is_done and (counts[StepState.DONE] == len(states))
    why: list[str] = []
    if is_done and len(states) < step.ledger_count and has_ledger_goals:
        state = StepState.UNKNOWN
        why.append(f"the {len(states):,} listed ledgers of {step.ledger_count:,} are done: plan again")
    elif is_done:
        state = StepState.DONE
    else:
        state, why = _open_state(step, premises, states, cluster, permission, time)
    return StepCheck(
        step.number, step.kind, step.about, state, tuple(why),
        *(counts[kind] for kind in (StepState.DONE, StepState.TRUE, StepState.CHANGED, StepState.UNKNOWN)),
    )  # fmt: skip


def _open_state(
    step: PlanStep,
    premises: Iterable[Condition],
    states: dict[str, StepState],
    cluster: Answers,
    permission: StepPermission,
    time: int,
) -> tuple[StepState, list[str]]:
    """Return the state of a step that is not done. If the step is no longer true, return the reasons too."""
    answers = {condition: holds(condition, cluster, step.bookie_id) for condition in premises}
    faults = [f"not true: {condition_text(key)}" for key, answer in answers.items() if answer is False]
    doubts = [f"not known: {condition_text(key)}" for key, answer in answers.items() if answer is None]
    faults += [f"not allowed because of a hold: {sentence}" for sentence in permission.forbidden]
    doubts += [f"not permitted: {sentence}" for sentence in permission.unknown]
    for state, reasons, label in (
        (StepState.CHANGED, faults, "changed"), (StepState.UNKNOWN, doubts, "not known"),
    ):  # fmt: skip
        if ids := [id for id, ledger_state in states.items() if ledger_state is state]:
            reasons.append(f"{label}: ledgers {first_names(ids, _SAMPLE_COUNT)}")
    if doubts and cluster.findings is None:
        facts = {condition.fact for condition in step.requires}
        for fact, audit in _NEEDED_AUDITS.items():
            if fact in facts:
                doubts.append(f"a store cannot show this, but {audit} can: use plan check --run")
    if step.kind is ActionKind.WAIT and cluster.time > step.expires:
        faults.append("AutoRecovery should have copied the ledgers by now")
    elif time > step.expires:
        doubts.append("the step has expired: plan again")
    if faults:
        return StepState.CHANGED, faults
    return (StepState.UNKNOWN, doubts) if doubts else (StepState.TRUE, [])


def _ledger_state(
    step: PlanStep, ledger: PlannedLedger, cluster: Answers, permission: StepPermission
) -> StepState:
    goals = [condition for condition in step.done_when if condition.fact in LEDGER_FACTS]
    if goals and _all_true(holds_of(condition, ledger, cluster) for condition in goals):
        return StepState.DONE
    if ledger.ledger_id in permission.held_ledgers:
        return StepState.CHANGED
    premises = [condition for condition in step.requires if condition.fact in LEDGER_FACTS]
    answer = _all_true(holds_of(condition, ledger, cluster) for condition in premises)
    return {True: StepState.TRUE, False: StepState.CHANGED, None: StepState.UNKNOWN}[answer]


def holds(condition: Condition, cluster: Answers, bookie: str | None = None) -> bool | None:
    """Return whether a condition on the step's ``bookie`` or the cluster is met; None if unknown."""
    condition_subject, value = condition.of, condition.value
    if condition.fact in (Fact.REGISTERED, Fact.COOKIE):
        values = cluster.registered if condition.fact is Fact.REGISTERED else cluster.cookies
        if condition_subject in values:
            return value == "yes" or values[condition_subject] == value
        is_known = cluster.bookies_listed and condition_subject not in cluster.unclear
        return value in ("no", "none") if is_known else None
    if condition.fact is Fact.NAMED:
        return None if cluster.named is None else (condition_subject in cluster.named) == (value == "yes")
    if condition.fact is Fact.FINDING:
        return _holds_finding(condition_subject, value, cluster, bookie)
    answer = cluster.replication if condition.fact is Fact.REPLICATION else cluster.auditor
    return None if answer is None else answer == value


def _holds_finding(condition_subject: str, value: str, cluster: Answers, bookie: str | None) -> bool | None:
    """Return whether a finding is there or gone, as ``value`` says; None if nothing looked for it."""
    id, fingerprint, *named_bookies = condition_subject.split(" ", 2)
    bookie = named_bookies[0] if named_bookies else bookie
    if cluster.findings is None:
        return None
    if fingerprint in cluster.findings:
        return value == "there"
    return value == "gone" if id not in cluster.blind and bookie in cluster.read else None


def holds_of(condition: Condition, ledger: PlannedLedger, cluster: Answers) -> bool | None:
    """Return whether a condition is met for a ledger; None if unknown. A deleted ledger has no bookies."""
    id, answers, expected = int(ledger.ledger_id), cluster.ledgers, condition.value == "yes"
    row = answers.rows.get(id)
    if row is None and id in answers.unsure:
        return None
    match condition.fact:
        case Fact.LISTED:
            return (row is not None) == expected
        case Fact.VERSION:
            return row is not None and (row.version, row.state) == (ledger.version, ledger.state)
        case Fact.NAMES:
            if row is not None and row.state is None:
                return None
            return (row is not None and condition.of in row.members) == expected
        case Fact.QUEUED:
            is_member = row is not None and condition.of in row.members
            marked = None if answers.marked is None else id in answers.marked
            return expected if not is_member else (None if marked is None else marked == expected)
    ids_by_fact = {Fact.MARKED: answers.marked, Fact.LOCKED: answers.locked, Fact.UNOWNED: answers.unowned}
    ids = ids_by_fact[condition.fact]
    return None if ids is None else (id in ids) == expected


def _all_true(answers: Iterable[bool | None]) -> bool | None:
    distinct_answers = set(answers)
    if False in distinct_answers:
        return False
    return None if None in distinct_answers else True

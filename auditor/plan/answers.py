"""Check of a plan against a newer run or a store: each step is still true, done, changed or unknown.

The facts that conditions ask for are read first; None stands for an unknown fact. Nothing is changed.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace

from auditor.actions.action_list import JointHolders
from auditor.actions.gate import HeldRun
from auditor.actions.stop_set import DANGERS
from auditor.codecs.ledger_metadata import one as ledger_metadata
from auditor.errors import DecodeError, RunUsageError, UsageError
from auditor.keys import ledger_path
from auditor.keys.ledger_tree import LayoutKind
from auditor.model.amounts import first_names
from auditor.model.arrow import ds
from auditor.model.holds import ActionKind
from auditor.model.ledger_id import LedgerId
from auditor.model.plan import (
    OF_EACH_LEDGER,
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
from auditor.plan.permissions import OF_FUTURE, StepPermission, ask_gate, forbid_last_stops, without_run
from auditor.plan.situation import EXCHANGED, INDEX_FAULTS, MarkTimes, cookie_digest
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
    """Facts about a plan's ledgers: ``rows`` of existing ledgers, and ``unsure`` ids that may exist unseen.

    ``marked``, ``locked`` and ``unowned`` are None if they are unknown.
    """

    rows: Mapping[int, LedgerRow] = field(default_factory=dict)
    unsure: frozenset[int] = frozenset()
    marked: Collection[int] | None = None
    locked: Collection[int] | None = None
    unowned: Collection[int] | None = None


@dataclass(frozen=True)
class Answers:
    """The state of a cluster now, from a newer run or a store: ``asked`` is its name, ``time`` is in ms.

    If ``bookies_listed``, a bookie missing from ``registered`` or ``cookies`` has no registration or no
    cookie, unless it is among the ``unclear`` ones. ``named`` and ``findings`` are None for a store, which
    lacks them. A missing finding about one of the ``read`` bookies is gone, unless its check is ``blind``.
    ``run`` is the newer run, whose gate permits steps; None for a store. ``joint_holders`` returns the sets
    of stopping bookies that alone serve an entry together; None for a store.
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


def ask_run(path: str, ledgers: Collection[int], since: int) -> Answers:
    """Read the state from a run that must be newer than ``since``, in ms.

    Raises:
        RunUsageError: the run is older.
        RunError: a table of it is missing or broken.
    """
    run = RunReader(path)
    facts = run.report.run
    if facts.scan_time < since:
        raise RunUsageError(f"{path}: this run is older than the run of the plan")
    bookies = run.table("bookies", ["bookie_id", "named", "registered", "read"]).to_pylist()
    listed = facts.bookies_listed
    is_listed = listed is not None and listed["hidden"] is None
    replication, auditor = _recovery(
        run.table("cluster", ["fact", "value", "damage"]).to_pylist(), facts.keeps_marks
    )
    return Answers(
        asked=path,
        time=facts.scan_time,
        instance_id=run.report.cluster.instance_id,
        registered={row["bookie_id"]: row["registered"] for row in bookies if row["registered"]},
        cookies={row["bookie_id"]: cookie_digest(row) for row in run.table("cookies").to_pylist()},
        bookies_listed=is_listed,
        unclear=frozenset(listed["unclear"]) if listed else frozenset(),
        replication=replication,
        auditor=auditor,
        ledgers=_ledgers_of_run(run, ledgers),
        named=frozenset(row["bookie_id"] for row in bookies if row["named"]) if not facts.gaps else None,
        findings=_fingerprints(run),
        read=frozenset(row["bookie_id"] for row in bookies if row["read"] == BookieRead.READ),
        blind=frozenset(facts.blind or ()),
        run=run,
        joint_holders=lambda stopping: find_joint_holders(run.directory, is_listed, stopping),
    )


def _fingerprints(run: RunReader) -> frozenset[str]:
    """Return the fingerprints of the run's findings to which conditions of steps may refer."""
    names = ds.field("id").isin([*DANGERS, *INDEX_FAULTS, *EXCHANGED])
    batches = run.batches("findings", ["fingerprint"], names)
    return frozenset(fingerprint for batch in batches for fingerprint in batch["fingerprint"].to_pylist())


def _ledgers_of_run(run: RunReader, ids: Collection[int]) -> LedgerAnswers:
    facts, rows = run.report.run, ledgers_of(run, ids)
    hidden = facts.gaps or facts.in_doubt is not None
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
        frozenset(ids) - rows.keys() if hidden else frozenset(),
        None if marks is None else {ledger_id for ledger_id in ids if marks.since(ledger_id) is not None},
        None if marks is None else {ledger_id for ledger_id in ids if marks.locked(ledger_id)},
        unowned,
    )


def _recovery(
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
        unread = [*(path for path, _ in nodes.gaps), *([store.root] if nodes.cut is not None else [])]
        below = [path.removeprefix(f"{store.root}/") for path in unread]
        shows_recovery = not any(path.startswith("underreplication") for path in below)
        replication, auditor = _recovery(cluster_state(nodes), store.keeps_marks and shows_recovery)
        of_one = ("cookies/", "available/")
        return Answers(
            asked=store.uri.text,
            time=nodes.scan_time,
            instance_id=instance_id(nodes),
            registered=registered_modes(registrations(nodes)),
            cookies={cookie.bookie_id: cookie_digest(cookie.row()) for cookie in store_cookies(nodes)},
            bookies_listed=all(path.startswith((*of_one, "underreplication")) for path in below),
            unclear=frozenset(path.rpartition("/")[2] for path in below if path.startswith(of_one)),
            replication=replication,
            auditor=auditor,
            ledgers=_ledgers_of_store(store, layout, ledgers, bool(nodes.cut)),
        )


def _ledgers_of_store(
    store: MetadataStore, layout: LayoutKind, ids: Collection[int], cut: bool
) -> LedgerAnswers:
    paths = {f"{store.root}/{path_of(layout, LedgerId(ledger_id))}": ledger_id for ledger_id in ids}
    records, gaps = read_paths(store, layout, Tree.LEDGERS, paths)
    rows = {paths[path]: _row(paths[path], *value) for path, value in records.items()}
    absent = {ledger_id: path for path, ledger_id in paths.items() if ledger_id not in rows}
    unsure = frozenset(ledger_id for ledger_id, path in absent.items() if cut or _is_below(path, gaps))
    marked = locked = None
    if store.keeps_marks:
        places = {f"{store.root}/{ledger_path.mark_to_path(ledger_id)}": ledger_id for ledger_id in ids}
        locks = {f"{store.root}/{ledger_path.lock_to_path(ledger_id)}": ledger_id for ledger_id in ids}
        present, missed = read_paths(store, layout, Tree.MARKS, [*places, *locks])
        if not (missed or cut):
            marked = {ledger_id for path, ledger_id in places.items() if path in present}
            locked = {ledger_id for path, ledger_id in locks.items() if path in present}
    return LedgerAnswers(rows, unsure, marked, locked)


def _is_below(path: str, gaps: Collection[tuple[str, str]]) -> bool:
    return any(path == gap or path.startswith(f"{gap.rstrip('/')}/") for gap, _ in gaps)


def _row(id: int, data: bytes, version: int) -> LedgerRow:
    try:
        metadata = ledger_metadata.parse(data, None)
    except DecodeError:
        return LedgerRow(id, version, None, 0, ())
    ensembles = tuple(segment.ensemble for segment in metadata.segments)
    return LedgerRow(id, version, metadata.state, metadata.length * metadata.write_quorum, ensembles)


_SAMPLES = 5
_SAY_IT = {
    Fact.NAMED: "an audit of the metadata",
    Fact.FINDING: "an audit with the bookie's directories",
    Fact.UNOWNED: "an audit whose stores of owners are proved complete",
}
"""Facts that a store lacks, each with the kind of audit that has it."""


def ledgers_in(plan: RepairPlan) -> frozenset[int]:
    """Return all ledgers in the plan's conditions."""
    return frozenset(int(ledger.ledger_id) for step in plan.steps for ledger in step.ledgers)


def check_plan(plan: RepairPlan, now: Answers, clock: int | None = None) -> PlanCheck:
    """Check every condition of a plan against the present state of the cluster.

    Args:
        plan: The plan.
        now: The state of the cluster.
        clock: The current time, ms. None means the time of ``now``.

    Raises:
        UsageError: ``now`` is the state of another cluster.
    """
    if None not in (plan.instance_id, now.instance_id) and plan.instance_id != now.instance_id:
        raise UsageError(
            f"{now.asked}: cluster instance {now.instance_id}; the plan is for {plan.instance_id}"
        )
    time = now.time if clock is None else max(clock, now.time)
    if now.run is not None:
        now.run.holds.now = now.time if clock is None else clock
    of_future = clock is not None and max(plan.scan_time, now.time) - clock > MAX_CLOCK_AHEAD_MS
    steps = tuple(_check_step(step, now, time, of_future) for step in plan.steps)
    if now.joint_holders is not None:
        steps = forbid_last_stops(zip(plan.steps, steps, strict=True), now.registered, now.joint_holders)
    return PlanCheck(now.asked, now.time, plan.expires, time > plan.expires, steps)


def _check_step(step: PlanStep, cluster: Answers, time: int, of_future: bool) -> StepCheck:
    permission = without_run(step) if cluster.run is None else ask_gate(step, cluster.run)
    if of_future:
        permission = replace(permission, unknown=(*permission.unknown, OF_FUTURE))
    states = {ledger.ledger_id: _ledger_state(step, ledger, cluster, permission) for ledger in step.ledgers}
    counts = Counter(states.values())
    whole = [condition for condition in step.requires if condition.fact not in OF_EACH_LEDGER]
    ends = [condition for condition in step.done_when if condition.fact not in OF_EACH_LEDGER]
    each_ends = len(ends) < len(step.done_when)
    done = _all(holds(condition, cluster, step.bookie_id) for condition in ends)
    if each_ends:
        done = done and (counts[StepState.DONE] == len(states))
    why: list[str] = []
    if done and len(states) < step.ledger_count and each_ends:
        state = StepState.UNKNOWN
        why.append(f"the {len(states):,} listed ledgers of {step.ledger_count:,} are done: plan again")
    elif done:
        state = StepState.DONE
    else:
        state, why = _open_state(step, whole, states, cluster, permission, time)
    return StepCheck(
        step.number, step.kind, step.about, state, tuple(why),
        *(counts[kind] for kind in (StepState.DONE, StepState.TRUE, StepState.CHANGED, StepState.UNKNOWN)),
    )  # fmt: skip


def _open_state(
    step: PlanStep,
    whole: Iterable[Condition],
    states: dict[str, StepState],
    cluster: Answers,
    permission: StepPermission,
    time: int,
) -> tuple[StepState, list[str]]:
    """Return the state of a step that is not done, and the reasons if it is not still true."""
    answers = {condition: holds(condition, cluster, step.bookie_id) for condition in whole}
    broken = [f"not true: {condition_text(key)}" for key, answer in answers.items() if answer is False]
    unknown = [f"not known: {condition_text(key)}" for key, answer in answers.items() if answer is None]
    broken += [f"not allowed because of a hold: {sentence}" for sentence in permission.forbidden]
    unknown += [f"not permitted: {sentence}" for sentence in permission.unknown]
    for state, reasons, word in (
        (StepState.CHANGED, broken, "changed"), (StepState.UNKNOWN, unknown, "not known"),
    ):  # fmt: skip
        if ids := [id for id, ledger_state in states.items() if ledger_state is state]:
            reasons.append(f"{word}: ledgers {first_names(ids, _SAMPLES)}")
    if unknown and cluster.findings is None:
        facts = {condition.fact for condition in step.requires}
        for fact, audit in _SAY_IT.items():
            if fact in facts:
                unknown.append(f"a store does not show it, {audit} does: plan check --run")
    if step.kind is ActionKind.WAIT and cluster.time > step.expires:
        broken.append("AutoRecovery should have done it by now")
    elif time > step.expires:
        unknown.append("it has expired: plan again")
    if broken:
        return StepState.CHANGED, broken
    return (StepState.UNKNOWN, unknown) if unknown else (StepState.TRUE, [])


def _ledger_state(
    step: PlanStep, ledger: PlannedLedger, cluster: Answers, permission: StepPermission
) -> StepState:
    ends = [condition for condition in step.done_when if condition.fact in OF_EACH_LEDGER]
    if ends and _all(holds_of(condition, ledger, cluster) for condition in ends):
        return StepState.DONE
    if ledger.ledger_id in permission.held_ledgers:
        return StepState.CHANGED
    of_each = [condition for condition in step.requires if condition.fact in OF_EACH_LEDGER]
    answer = _all(holds_of(condition, ledger, cluster) for condition in of_each)
    return {True: StepState.TRUE, False: StepState.CHANGED, None: StepState.UNKNOWN}[answer]


def holds(condition: Condition, cluster: Answers, bookie: str | None = None) -> bool | None:
    """Return whether a condition on a bookie or the cluster holds, or None. ``bookie`` is the step's."""
    subject, value = condition.of, condition.value
    if condition.fact in (Fact.REGISTERED, Fact.COOKIE):
        values = cluster.registered if condition.fact is Fact.REGISTERED else cluster.cookies
        if subject in values:
            return value == "yes" or values[subject] == value
        is_known = cluster.bookies_listed and subject not in cluster.unclear
        return value in ("no", "none") if is_known else None
    if condition.fact is Fact.NAMED:
        return None if cluster.named is None else (subject in cluster.named) == (value == "yes")
    if condition.fact is Fact.FINDING:
        return _holds_finding(subject, value, cluster, bookie)
    answer = cluster.replication if condition.fact is Fact.REPLICATION else cluster.auditor
    return None if answer is None else answer == value


def _holds_finding(subject: str, value: str, cluster: Answers, bookie: str | None) -> bool | None:
    """Return whether a finding is there or gone, as ``value`` says; None if nothing looked for it."""
    id, fingerprint, *about = subject.split(" ", 2)
    bookie = about[0] if about else bookie
    if cluster.findings is None:
        return None
    if fingerprint in cluster.findings:
        return value == "there"
    return value == "gone" if id not in cluster.blind and bookie in cluster.read else None


def holds_of(condition: Condition, ledger: PlannedLedger, cluster: Answers) -> bool | None:
    """Return whether a condition holds for a ledger; None if unknown. A deleted ledger names no bookie."""
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
    of_fact = {Fact.MARKED: answers.marked, Fact.LOCKED: answers.locked, Fact.UNOWNED: answers.unowned}
    ids = of_fact[condition.fact]
    return None if ids is None else (id in ids) == expected


def _all(answers: Iterable[bool | None]) -> bool | None:
    distinct = set(answers)
    if False in distinct:
        return False
    return None if None in distinct else True

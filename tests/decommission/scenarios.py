"""Clusters whose ledgers are each a case of their own, and what ``decommissionbookie`` makes of them.

A letter stands for a bookie: x goes, y is down already, z goes with x; others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer, Cause, Rehearsal
from auditor.runs.reader import RunReader
from tests.corpora.plain_readers import PlainLedger
from tests.decommission.cluster import RackedBookies, racked_cluster
from tests.living.store import Store

Audit = Callable[[Store, RackedBookies, Path, str], Path]
"""Audits a cluster into a new directory, by a placement policy."""

DISABLED = "/ledgers/underreplication/disable"
MOVED, RENAMED, STAYED = "moved", "renamed", "stayed"
DONE, NOT_DONE, WAITING = "done", "not done", "waiting"
ENFORCED = "enforceMinNumRacksPerWriteQuorum"


@dataclass(frozen=True)
class Case:
    """A ledger: its ensemble in letters, its quorums, its entries; ``lacks`` go from its second member.

    ``outcome`` is `MOVED`, `RENAMED` (it has no entry there), or the cause that keeps it.
    """

    name: str
    ensemble: str
    write_quorum: int
    ack_quorum: int
    entries: int
    outcome: str
    open: bool = False
    lacks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A cluster: its racks by letter, its ledgers, who goes and who is down."""

    racks: Mapping[str, str]
    cases: tuple[Case, ...]
    going: str = "x"
    down: str = ""
    ends: tuple[str, ...] = (DONE,)
    answer: Answer = Answer.NOW
    settings: Mapping[str, str | int] = field(default_factory=dict)
    placement: str = "rack"
    deleted: tuple[str, ...] = ()
    """Cases whose ledger is deleted once the bookies are down."""
    one_by_one: bool = False
    disabled: bool = False
    """AutoRecovery is switched off for the whole cluster."""


@dataclass(frozen=True)
class Lived:
    """What was forecast, and what then was: by case the metadata and how many new entries each bookie has.

    ``cookies`` are the letters of bookies with a cookie; ``ends`` how the command ended for each that went.
    """

    scenario: Scenario
    run: Path
    bookies: Mapping[str, str]
    forecast: Rehearsal
    ends: tuple[str, ...]
    ledgers: Mapping[str, PlainLedger]
    new: Mapping[str, Mapping[str, int]]
    cookies: frozenset[str]

    def names(self, case: Case) -> set[str]:
        """The letters of the bookies that its ensembles name afterwards."""
        letter = {id: letter for letter, id in self.bookies.items()}
        return {letter[id] for _, ensemble in self.ledgers[case.name].segments for id in ensemble}

    def forecast_of(self, case: Case) -> str:
        """What was said of it: the cause that keeps it, or that nothing does."""
        number = self.scenario.cases.index(case) + 1
        for blocker in self.forecast.together.blockers:
            if any(each.ledger_id == str(number) for each in blocker.samples):
                return str(blocker.cause)
        return MOVED


SCENARIOS = {
    "mixed": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1", "y": "/r3"},
        (
            Case("plain, E = Qw", "xbc", 3, 2, 10, MOVED),
            Case("striped, E > Qw", "xbc", 2, 2, 30, MOVED),
            Case("Qw 1 (bookkeeper 4872)", "x", 1, 1, 5, Cause.ONLY_COPY),
            Case("Qw 1, striped", "xbc", 1, 1, 9, Cause.ONLY_COPY),
            Case("an unreadable entry (3887)", "xb", 2, 2, 10, Cause.UNREADABLE, lacks=(4,)),
            Case("open, covered", "xbc", 3, 2, 7, MOVED, open=True),
            Case("open, not covered", "xb", 2, 1, 7, Cause.NO_COVERAGE, open=True),
            Case("all bookies in its ensemble (3905, 4012)", "xabcd", 3, 2, 20, Cause.NO_SPARE),
            Case("closed and empty (3220)", "xbc", 3, 2, 0, RENAMED),
            Case("short, nothing there", "abcx", 2, 2, 1, RENAMED),
            Case("the absent bookie's alone", "yab", 3, 2, 10, MOVED),
            Case("both copies on those", "xy", 2, 2, 6, Cause.ABSENT),
            Case("striped over both", "xya", 2, 2, 9, Cause.ABSENT),
            Case("both, and two copies left", "xycd", 3, 2, 20, MOVED),
            Case("open and empty", "xbc", 3, 2, 0, MOVED, open=True),
            Case("a copy short of it elsewhere, striped", "xbc", 2, 2, 12, MOVED, lacks=(4,)),
        ),
        down="y",
        ends=(WAITING,),
        answer=Answer.NEVER,
    ),
    "clean": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1"},
        (
            Case("plain, E = Qw", "xbc", 3, 2, 10, MOVED),
            Case("striped, E > Qw", "xbc", 2, 2, 47, MOVED),
            Case("open, covered", "xbc", 3, 2, 7, MOVED, open=True),
            Case("closed and empty (3220)", "xbc", 3, 2, 0, RENAMED),
            Case("short, nothing there", "abcx", 2, 2, 1, RENAMED),
            Case("deleted meanwhile (3316)", "xbc", 3, 2, 10, MOVED),
            Case("one copy short of it elsewhere", "xbc", 3, 2, 10, MOVED, lacks=(3,)),
        ),
        deleted=("deleted meanwhile (3316)",),
    ),
    "together": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1", "z": "/r3"},
        (
            Case("both, two copies", "xz", 2, 2, 12, Cause.ONLY_COPY),
            Case("both, three copies", "xza", 3, 2, 12, MOVED),
            Case("both of an ack quorum, open", "xzb", 3, 2, 5, Cause.NO_COVERAGE, open=True),
            Case("one of them", "xbc", 2, 2, 25, MOVED),
            Case("two spares too few", "xzabc", 3, 2, 10, Cause.NO_SPARE),
        ),
        going="xz",
        ends=(WAITING, WAITING),
        answer=Answer.NEVER,
    ),
    "one by one": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "x": "/r1", "z": "/r3"},
        (
            Case("both, two copies", "xz", 2, 2, 12, Cause.ONLY_COPY),
            Case("striped over both", "zxb", 2, 2, 25, Cause.ONLY_COPY),
            Case("one of them", "xbc", 2, 2, 25, MOVED),
        ),
        going="xz",
        ends=(DONE, DONE),
        answer=Answer.AFTER,
        one_by_one=True,
    ),
    "racks enforced": Scenario(
        {"b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1"},
        (
            Case("spare in a rack of the rest", "xbc", 3, 2, 10, Cause.NO_ADMISSIBLE),
            Case("spare in a third rack", "xb", 2, 2, 30, MOVED),
            Case("spare in another rack", "xc", 2, 2, 30, MOVED),
        ),
        ends=(WAITING,),
        answer=Answer.NEVER,
        settings={ENFORCED: "true"},
        placement=f"rack,{ENFORCED}=true",
    ),
    "switched off": Scenario(
        {"a": "/r1", "b": "/r2", "x": "/r1"},
        (Case("plain", "xb", 2, 2, 10, STAYED), Case("Qw 1", "xb", 1, 1, 10, Cause.ONLY_COPY)),
        ends=(NOT_DONE,),
        answer=Answer.NEVER,
        disabled=True,
    ),
}

WAIT_S, DONE_S = 75, 150
"""So long is waited for a command that should never end, and for one that should."""


def live(root: Path, audit: Audit, chosen: Mapping[str, Scenario]) -> dict[str, Lived]:
    """Let every scenario happen, side by side: the command sleeps longer than all else takes."""
    with ExitStack() as stack, ThreadPoolExecutor(len(chosen)) as pool:
        clusters = {}
        for name, scenario in chosen.items():
            racks = list(scenario.racks.values())
            clusters[name] = stack.enter_context(racked_cluster(root / name, racks, scenario.settings))
        waiting: dict[str, Future[Lived]] = {}
        for name, scenario in chosen.items():
            run = _prepare(scenario, *clusters[name], root / name / "runs" / "run", audit)
            waiting[name] = pool.submit(_take_out, scenario, *clusters[name], run)
        return {name: each.result() for name, each in waiting.items()}


def _prepare(scenario: Scenario, bookies: RackedBookies, store: Store, out: Path, audit: Audit) -> Path:
    ids = dict(zip(scenario.racks, bookies.ids, strict=True))
    for number, case in enumerate(scenario.cases, 1):
        ensemble = [ids[letter] for letter in case.ensemble]
        if case.lacks:
            bookies.record(number, ensemble, case.write_quorum, case.ack_quorum, case.entries - 1)
            for place, bookie in enumerate(ensemble):
                size, quorum = len(ensemble), case.write_quorum
                its = [e for e in range(case.entries) if (place - e) % size < quorum]
                bookies.add(number, bookie, [e for e in its if place != 1 or e not in case.lacks])
        else:
            bookies.create(number, ensemble, case.write_quorum, case.ack_quorum)
            bookies.append(number, case.entries)
            if not case.open:
                bookies.close(number)
    bookies.flush()
    for letter in scenario.down:
        bookies.stop(ids[letter])
    if scenario.disabled:
        store.client.create(DISABLED)
    return audit(store, bookies, out, scenario.placement)


def _take_out(scenario: Scenario, bookies: RackedBookies, store: Store, run: Path) -> Lived:
    ids = dict(zip(scenario.racks, bookies.ids, strict=True))
    number = {case.name: at for at, case in enumerate(scenario.cases, 1)}
    forecast = rehearse(RunReader(run), [ids[letter] for letter in scenario.going])
    before = bookies.held()
    ends = []
    if scenario.one_by_one:
        for bookie in forecast.order:
            bookies.stop(bookie)
            ends.append(bookies.decommission(bookie, DONE_S))
    else:
        for letter in scenario.going:
            bookies.stop(ids[letter])
        for name in scenario.deleted:
            bookies.delete(number[name])
        # The audit that the first one asks for marks the ledgers of all that are not registered.
        limits = [WAIT_S if WAITING in scenario.ends else DONE_S, *[5] * len(scenario.going)]
        ends = [
            bookies.decommission(ids[each], limit)
            for each, limit in zip(scenario.going, limits, strict=False)
        ]
    if scenario.disabled:
        _copy_off(bookies, ids["x"], number["Qw 1"])
    after, found = bookies.held(), store.snapshot().ledgers
    letters = {id: letter for letter, id in ids.items()}
    new = {
        name: {
            letters[bookie]: len(more)
            for bookie, held in after.items()
            if (more := held.get(at, frozenset()) - before.get(bookie, {}).get(at, frozenset()))
        }
        for name, at in number.items()
    }
    cookies = frozenset(letters[each] for each in store.client.get_children("/ledgers/cookies"))
    ledgers = {name: found[at] for name, at in number.items() if at in found}
    return Lived(scenario, run, ids, forecast, tuple(ends), ledgers, new, cookies)


def _copy_off(bookies: RackedBookies, bookie: str, ledger: int) -> None:
    """What a forecast says is the way out of a ledger with one copy: copy it while the bookie runs."""
    bookies.start(bookie)
    bookies.recover(bookie, ledger)
    bookies.stop(bookie)

"""One cluster with every kind of step: requested, planned, typed as printed, and audited again.

A letter stands for a bookie. All use DbLedgerStorage, except s, which uses SortedLedgerStorage.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auditor.keys import ledger_path
from auditor.model.holds import ActionKind
from auditor.model.plan import CommandRole, PlanCheck, PlanStep, RepairPlan
from auditor.plan.answers import read_run_state, read_store_state
from auditor.plan.plan_file import make_plan, read_plan, write_plan
from auditor.plan.step_checks import check_plan, planned_ledger_ids
from auditor.runs.reader import RunReader
from tests.clusters.store import Store
from tests.corpora.plain_readers import PlainLedger
from tests.plan.cluster import OperatedBookies, add_owner, claim, operated_cluster
from tests.servers.bookies.driver import StoredEntries

Audit = Callable[[Store, OperatedBookies, Path], Path]
"""Audits a cluster, owners and all, into a new directory."""

LOOK, SAVE, HAND, DO, UNDO = CommandRole
LETTERS = "abcdefsx"
RETIRED = "127.0.0.1:3181"
SOON_S = 60
COPIED, HELD_BACK, LOST_3, LOST_4, RESTORED, UNOWNED, FORGOTTEN, GC, SORTED = range(1, 10)
OFF_D, OPEN_D, LOCATIONS = 10, 11, 12


@dataclass
class ExecutedPlan:
    """A plan and its results. ``asked`` is the check before it, ``after`` that of the next audit."""

    bookies: Mapping[str, str]
    plan: RepairPlan
    alone: RepairPlan
    asked: PlanCheck
    after: PlanCheck
    retiring: RepairPlan
    """Made before anything was damaged: where entries are lost, no cookie of an unread bookie may go."""
    after_retiring: PlanCheck
    before: Path
    first: Path
    second: Path
    printed: dict[ActionKind, list[str]] = field(default_factory=dict)
    held: StoredEntries = field(default_factory=dict)
    """What bookies hold once the plan is typed."""
    restarted: bool = False
    """Whether d came up with the cookie that was made for it."""
    undone: bool = False
    """Whether the cookie that was deleted is as it was, by the step's undo."""
    ledgers: Mapping[int, PlainLedger] = field(default_factory=dict)
    """What the store has in the end."""


def execute_plan(root: Path, audit: Audit) -> ExecutedPlan:
    """Run the scenario: damage a cluster, plan, type the plans, and audit; return the results."""
    with operated_cluster(root, len(LETTERS)) as (bookies, store):
        ids = dict(zip(LETTERS, bookies.ids, strict=True))
        printed: dict[ActionKind, list[str]] = {}
        cookie = _leave_cookie(store, ids["a"])
        _sort_storage(bookies, ids["s"])
        _lose_bookie(bookies, ids)
        # What deletes for good needs a run before.
        audit(store, bookies, root / "runs" / "00")
        before = audit(store, bookies, root / "runs" / "before")
        retiring = _written(make_plan(RunReader(str(before))), root / "retiring.toml")
        [retired] = _steps_of(retiring, ActionKind.DELETE_COOKIE)
        printed[ActionKind.DELETE_COOKIE] = bookies.do(retired, LOOK, SAVE, HAND, DO)
        [marking] = _steps_of(retiring, ActionKind.RECOVER)
        printed[ActionKind.RECOVER] = bookies.do(marking, LOOK, DO)
        _wait_for(store, lambda: not any(ids["x"] in _members(store, ledger) for ledger in (LOST_3, LOST_4)))
        bookies.start(ids["x"])
        _damage(bookies, store, ids)
        lock = f"/ledgers/{ledger_path.lock_to_path(HELD_BACK)}"
        audit(store, bookies, root / "runs" / "0")
        first = audit(store, bookies, root / "runs" / "1")
        plan = _written(make_plan(RunReader(str(first))), root / "plan.toml")
        first_check = check_plan(plan, read_store_state(store.uri, planned_ledger_ids(plan)))
        for step in plan.steps:
            if step.kind is ActionKind.WAIT:
                store.client.delete(lock)  # the worker that held it has ended; another takes the mark
            printed.setdefault(step.kind, []).extend(bookies.do(step, LOOK, SAVE, HAND, DO))
        _wait_for(store, lambda: not store.snapshot().marks)
        bookies.flush()
        second = audit(store, bookies, root / "runs" / "2")
        # With the new configuration that audit finds nothing that forbids the start.
        for step in _steps_of(plan, ActionKind.STOP):
            bookies.start(str(step.bookie_id))
            bookies.collect(str(step.bookie_id))
        holdings = bookies.stored_entries()
        after = check_plan(plan, read_run_state(str(second), planned_ledger_ids(plan), plan.scan_time))
        newer = read_run_state(str(second), planned_ledger_ids(retiring), retiring.scan_time)
        after_retiring = check_plan(retiring, newer)

        restarted = _without_autorecovery(bookies, store, ids)
        third = audit(store, bookies, root / "runs" / "3")
        manual_plan = make_plan(RunReader(str(third)))
        for step in _steps_of(manual_plan, ActionKind.RECOVER):
            printed.setdefault(ActionKind.RECOVER, []).extend(bookies.do(step, LOOK, DO))
        cookie_file = root / retired.commands[-1].text.split()[4]
        cookie_file.write_text(_cookie_of(printed[ActionKind.DELETE_COOKIE][0]))
        bookies.do(retired, UNDO)
        # cookie_get ends what it prints with an empty line.
        undone = store.client.get(f"/ledgers/cookies/{retired.bookie_id}")[0].rstrip() == cookie.rstrip()
        return ExecutedPlan(
            ids, plan, manual_plan, first_check, after, retiring, after_retiring, before, first,
            second, printed, holdings, restarted, undone, store.snapshot().ledgers,
        )  # fmt: skip


def is_marking(step: PlanStep) -> bool:
    """Return whether a step asks the auditor to mark ledgers."""
    return any(command.text.endswith(" triggeraudit") for command in step.commands)


def _sort_storage(bookies: OperatedBookies, s: str) -> None:
    """Switch a bookie that has no ledger yet to SortedLedgerStorage."""
    bookies.stop(s)
    bookies.configure(s, "ledgerStorageClass", "org.apache.bookkeeper.bookie.SortedLedgerStorage")
    for name in ("ledgers", "locations"):
        shutil.rmtree(bookies.place(s) / "ledgers0" / "current" / name)
    bookies.start(s)
    (bookies.place(s) / "sorted").touch()


def _lose_bookie(bookies: OperatedBookies, ids: Mapping[str, str]) -> None:
    """Stop x, which has copies of two ledgers, while the auditor waits for lost bookies to come back.

    Nothing is damaged yet: `triggeraudit` names no ledger, and no hold may forbid any of them.
    """
    for ledger, peer in ((LOST_3, "b"), (LOST_4, "a")):
        bookies.write(ledger, [ids["x"], ids[peer]], 2, 2, 10)
    bookies.flush()
    bookies.stop(ids["x"])


def _members(store: Store, ledger: int) -> set[str]:
    return {bookie for _, ensemble in store.snapshot().ledgers[ledger].segments for bookie in ensemble}


def _leave_cookie(store: Store, bookie_id: str) -> bytes:
    """Create the cookie of a bookie that is long gone, and that none of the auditors ever knew."""
    data, _ = store.client.get(f"/ledgers/cookies/{bookie_id}")
    cookie: bytes = data.replace(bookie_id.encode(), RETIRED.encode())
    store.client.create(f"/ledgers/cookies/{RETIRED}", cookie)
    return cookie


def _cookie_of(printed: str) -> str:
    """Return the part of cookie_get's output between its two lines ---."""
    return printed.split("---\n")[1]


def _written(plan: RepairPlan, path: Path) -> RepairPlan:
    """Write the plan to its file, and return it as read from there; people type from the file."""
    write_plan(plan, str(path))
    return read_plan(str(path))


def _steps_of(plan: RepairPlan, kind: ActionKind) -> list[PlanStep]:
    return [step for step in plan.steps if step.kind is kind]


def _damage(bookies: OperatedBookies, store: Store, ids: Mapping[str, str]) -> None:
    a, b, c, d, e, f, s, _ = (ids[letter] for letter in LETTERS)
    for ledger, lacking in ((COPIED, {a: 4}), (HELD_BACK, {a: 3}), (GC, {a: 3, b: 3})):
        bookies.record(ledger, [a, b], 2, 2, 9)
        for bookie in (a, b):
            bookies.add(ledger, bookie, [n for n in range(10) if n != lacking.get(bookie)])
    bookies.add(GC, e, range(10))
    for ledger, ensemble in (
        (LOCATIONS, [f, b]), (RESTORED, [a, b]), (UNOWNED, [a, b]),
        (FORGOTTEN, [c, b]), (SORTED, [s, b]), (OFF_D, [d, b]),
    ):  # fmt: skip
        bookies.write(ledger, ensemble, 2, 2, 10)
    bookies.create(OPEN_D, [d, b], 2, 2)
    bookies.append(OPEN_D, 5)
    bookies.flush()
    add_owner(store, "public/default/persistent/kept", RESTORED)
    claim(store, RESTORED, "public/default/persistent/kept")
    claim(store, UNOWNED, "public/default/persistent/gone")
    bookies.shell(["ledgermetadata", "-l", str(RESTORED), "-dumptofile", f"{RESTORED}.metadata"])
    bookies.delete(RESTORED)
    # A database that is opened has a table of what its log had.
    bookies.stop(f)
    bookies.start(f)
    tables = [*(bookies.place(f) / "ledgers0" / "current" / "locations").glob("*.sst")]
    assert tables
    for table in tables:
        os.truncate(table, table.stat().st_size // 2)
    store.client.delete(f"/ledgers/cookies/{d}")
    # One after the other: an auditor does not wait where two bookies are lost.
    bookies.stop(c)
    bookies.forget_ledger(c, FORGOTTEN)
    bookies.start(c)
    bookies.stop(s)
    index = next(bookies.place(s).rglob(f"{SORTED:x}.idx"))
    index.write_bytes(index.read_bytes()[:600])
    bookies.start(s)
    lock = f"/ledgers/{ledger_path.lock_to_path(HELD_BACK)}"
    store.client.create(lock, b'bookieId: "elsewhere"\n', ephemeral=True, makepath=True)
    mark = f'replica: "{a}"\nctime: {int(time.time() * 1000)}\n'.encode()
    store.client.create(f"/ledgers/{ledger_path.mark_to_path(HELD_BACK)}", mark, makepath=True)


def _without_autorecovery(bookies: OperatedBookies, store: Store, ids: Mapping[str, str]) -> bool:
    """Restart all without AutoRecovery, d with its new cookie; stop d; return whether d had registered."""
    # Those that still have AutoRecovery would copy the ledgers of the one that is stopped, d's too.
    bookies.shell(["autorecovery", "-disable"])
    for letter in LETTERS:
        bookies.stop(ids[letter])
        bookies.configure(ids[letter], "autoRecoveryDaemonEnabled", "false")
        bookies.start(ids[letter])
    bookies.shell(["autorecovery", "-enable"])
    is_registered = ids["d"] in store.registered()
    bookies.stop(ids["d"])
    return is_registered


def _wait_for(store: Store, done: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_S
    while not done():
        assert time.monotonic() < end, f"marks stay: {store.snapshot().marks}"
        time.sleep(0.5)

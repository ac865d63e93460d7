"""AutoRecovery as the metadata store shows it: who audits, who works, and what waits."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from auditor.model.amounts import age, plural
from auditor.model.arrow import pc
from auditor.model.decommission import Blocker, Cause, DoubtCount
from auditor.model.states import MarkRow
from auditor.runs.reader import RunReader

IDLE_MS = 24 * 60 * 60 * 1000
"""A mark that waits so long, while no worker holds any, waits for a worker (as `mark-stuck` has it)."""

_AUDITORS = ("auditor", "auditor-candidate")


@dataclass(frozen=True, slots=True)
class Queue:
    """What keeps any ledger from moving; ``workers`` are AutoRecovery processes that stay."""

    workers: int
    blockers: tuple[Blocker, ...]
    doubts: tuple[DoubtCount, ...]


def read_queue(run: RunReader, leaving: Collection[str]) -> Queue:
    """AutoRecovery once the bookies ``leaving`` have stopped, and it with them."""
    facts = run.table("cluster", ["fact", "value", "damage"]).to_pylist()
    staying = [row["value"] for row in facts if row["fact"] in _AUDITORS and row["value"] not in leaving]
    blockers, doubts = [], []
    keeps, listed = run.report.run.keeps_marks, run.report.run.marks_listed
    if keeps is False:
        blockers.append(Blocker(Cause.NO_MARKS))
    else:
        if any(row["fact"] == "replication-disabled" for row in facts):
            blockers.append(Blocker(Cause.REPLICATION_OFF))
        if not staying:
            going = sorted(str(row["value"]) for row in facts if row["fact"] in _AUDITORS)
            blockers.append(Blocker(Cause.NO_AUDITOR, detail=", ".join(going)))
        blockers += _idle(run)
        if not (keeps and listed):
            doubts.append(DoubtCount("marks of under-replication that were not read", 0))
    return Queue(len(staying), tuple(blockers), tuple(doubts))


def _idle(run: RunReader) -> Iterator[Blocker]:
    """Marks that nobody works on: there are old ones, and no lock at all."""
    now, oldest, old, locks = run.report.run.scan_time, None, 0, 0
    for batch in run.batches("tables/marks", ["kind", "ctime", "mtime"]):
        locks += int(pc.sum(pc.equal(batch["kind"], MarkRow.LOCK.value)).as_py() or 0)
        marked = batch.filter(pc.equal(batch["kind"], MarkRow.MARK.value))
        since = pc.coalesce(marked["ctime"], marked["mtime"]).drop_null()
        late = since.filter(pc.less(since, now - IDLE_MS))
        old += len(late)
        if len(late):
            first = pc.min(late).as_py()
            oldest = first if oldest is None else min(first, oldest)
    if oldest is not None and not locks:
        yield Blocker(Cause.IDLE_WORKERS, detail=f"{plural(old, 'mark')}, the oldest of {age(oldest, now)}")

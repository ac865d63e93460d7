"""What steps are put together from: commands of the manual pages, refusals, and ledgers of the run.

Of a ledger a step needs its version, state and bytes, and which bookies its segments name.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.checks import ALL
from auditor.checks.manual import Command
from auditor.model.plan import (
    CommandRole,
    Condition,
    PlanCommand,
    PlanFinding,
    PlannedLedger,
    PlanStep,
    RefusalReason,
    RefusedStep,
    StepKind,
)
from auditor.model.states import LISTED
from auditor.reports.advice import HOST_PORT, fill_command
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

HOUR_MS = 3_600_000
EXPIRY_MS = 24 * HOUR_MS
"""So old is a scan at most by which something is still done."""

LOOK, SAVE, HAND, DO, UNDO = CommandRole
REFUSED_NAMED = 5
"""So many ledgers of a refusal are named."""


@cache
def _manual() -> dict[str, Command]:
    """Every command of a check's page, by its text."""
    return {command.text: command for check in ALL for command in check.commands}


def typed(role: CommandRole, text: str, blanks: Mapping[str, str], more: str = "") -> PlanCommand:
    """A command of the shell that a check's page has, and ``more`` options, with what is known put in.

    >>> typed(LOOK, "cookie_get BOOKIE", {"BOOKIE": "bk-1:3181"}).text
    'bookkeeper shell cookie_get bk-1:3181'
    """
    command = _manual()[f"bookkeeper shell {text}"]
    return PlanCommand(role, fill_command(command.text + more, blanks), command.does, command.level)


def by_hand(words: str, does: str, risk: str) -> PlanCommand:
    """What no command of the shell does, in words."""
    return PlanCommand(HAND, words, does, risk)


def takes_bookie(bookie: str) -> bool:
    """Whether the shell's commands for cookies take an id: a host:port that can be shown.

    >>> takes_bookie("bk-1:3181"), takes_bookie("bookie-a")
    (True, False)
    """
    return bookie.isprintable() and HOST_PORT.fullmatch(bookie) is not None


def file_name(bookie: str, ending: str) -> str:
    """A file for something of a bookie, quoted for a shell.

    >>> file_name("bk-1:3181", "cookie")
    'bk-1_3181.cookie'
    """
    return shlex.quote(bookie.replace(":", "_").replace("/", "_") + f".{ending}")


def make_step(
    kind: StepKind,
    about: str,
    findings: Sequence[PlanFinding],
    commands: Sequence[PlanCommand],
    *,
    effect: str,
    risk: str,
    undo: str,
    expires: int,
    requires: Sequence[Condition] = (),
    done_when: Sequence[Condition] = (),
    bookie_id: str | None = None,
    ledgers: Sequence[PlannedLedger] = (),
    ledger_count: int | None = None,
    bytes: int | None = None,
    needs: Sequence[str] = (),
) -> PlanStep:
    """A step that has no number yet."""
    return PlanStep(
        0, kind, about, tuple(findings), bookie_id, len(ledgers) if ledger_count is None else ledger_count,
        tuple(ledgers), tuple(commands), tuple(needs), effect, bytes, risk, undo, expires, tuple(requires),
        tuple(done_when),
    )  # fmt: skip


def refuse(
    kind: StepKind,
    reason: RefusalReason,
    about: str,
    why: str,
    way_out: str,
    findings: Sequence[PlanFinding],
    ledgers: Sequence[int] = (),
    ledger_count: int | None = None,
) -> RefusedStep:
    """A refusal that names the first of its ledgers."""
    count = len(ledgers) if ledger_count is None else ledger_count
    shown = tuple(str(each) for each in ledgers[:REFUSED_NAMED])
    return RefusedStep(kind, reason, about, why, way_out, tuple(findings), count, shown)


_COLUMNS = ("scope_id", "ledger_id", "status", "version", "state", "write_quorum", "length", "segments")


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A ledger that the store lists; ``state`` is None where its record cannot be read."""

    ledger_id: int
    version: int
    state: str | None
    bytes: int
    ensembles: tuple[tuple[str, ...], ...]

    @property
    def members(self) -> frozenset[str]:
        """Every bookie that a segment names."""
        return frozenset(name for ensemble in self.ensembles for name in ensemble)

    def planned(self) -> PlannedLedger:
        """As a plan lists it."""
        return PlannedLedger(str(self.ledger_id), self.version, self.state)


def ledgers_of(run: RunReader, ids: Collection[int]) -> dict[int, LedgerRow]:
    """Those of these ledgers of scope 0 that the run's first scan lists; one pass over the table."""
    if not ids:
        return {}
    wanted = pa.array(sorted(ids), pa.int64())
    found: dict[int, LedgerRow] = {}
    for batch in _listed(run):
        for row in batch.filter(pc.is_in(batch["ledger_id"], wanted)).to_pylist():
            found[row["ledger_id"]] = _row(row)
    return found


def ledgers_naming(
    run: RunReader,
    bookies: Collection[str],
    most: int,
    closed: bool = True,
    without: Sequence[int] | Longs = (),
) -> Iterator[LedgerRow]:
    """The first ledgers of scope 0 with a segment that names one of these bookies.

    Only ``closed`` ones, unless that is False, and none of ``without``.
    """
    import numpy as np

    wanted, left_out, left = pa.array(sorted(bookies), pa.string()), pa.array(without, pa.int64()), most
    for batch in _listed(run):
        some = batch.filter(pc.invert(pc.is_in(batch["ledger_id"], left_out)))
        some = some.filter(pc.fill_null(pc.equal(some["state"], "CLOSED"), False)) if closed else some
        ensembles = some["segments"].flatten().field("ensemble")
        parents = pc.list_parent_indices(some["segments"]).take(pc.list_parent_indices(ensembles))
        rows = np.unique(parents.filter(pc.is_in(ensembles.flatten(), wanted)).to_numpy())
        for row in some.take(pa.array(rows[:left], pa.int64())).to_pylist():
            yield _row(row)
        left -= min(left, len(rows))
        if not left:
            return


def _listed(run: RunReader) -> Iterator[pa.RecordBatch]:
    chosen = ds.field("status").isin([str(each) for each in LISTED]) & (ds.field("scope_id") == 0)
    return run.batches("tables/ledgers", _COLUMNS, chosen)


def _row(row: dict[str, Any]) -> LedgerRow:
    ensembles = tuple(tuple(each["ensemble"]) for each in row["segments"] or ())
    size = max(row["length"] or 0, 0) * (row["write_quorum"] or 0)
    return LedgerRow(row["ledger_id"], row["version"], row["state"], size, ensembles)


def listed_of(run: RunReader, ids: Sequence[int]) -> tuple[PlannedLedger, ...]:
    """Ledgers as a plan lists them; what the store does not list has neither version nor state."""
    rows = ledgers_of(run, ids)
    return tuple(rows[id].planned() if id in rows else PlannedLedger(str(id), None, None) for id in ids)

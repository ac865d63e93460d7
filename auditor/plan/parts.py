"""What steps are put together from: commands of the manual pages, filled in, and refusals."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import cache

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
from auditor.reports.advice import HOST_PORT, fill_command

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

"""Procedures of plan steps: the commands for each kind of action, in order.

The names of objects are filled in only if the gate permits this kind of action on the objects. The manual
pages of checks describe the effect and the risk of each command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from auditor.actions.commands import fill_words
from auditor.actions.objects import bookie, ledger
from auditor.checks import ALL
from auditor.checks.manual import Command
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Allowed
from auditor.model.plan import CommandRole, PlanCommand

LOOK_ROLE, SAVE_ROLE, MANUAL_ROLE, DO_ROLE, UNDO_ROLE = CommandRole
_SHELL_PREFIX = "bookkeeper shell "
MAX_PATHS_SHOWN = 20
"""Largest number of damaged index files that one step names."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """One command of the shell, as on a manual page; ``options`` are added to it."""

    role: CommandRole
    text: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Procedure:
    """Commands that a person types for one kind of action, in order; words in capitals are blanks."""

    kind: ActionKind
    lines: tuple[CommandLine, ...]

    def filled(self, allowed: Allowed, blanks: Mapping[str, str]) -> tuple[PlanCommand, ...]:
        """Return the commands with the names of objects filled in.

        Args:
            allowed: the gate's permission for this kind of action, and for each object in ``blanks``.
            blanks: values of words in capitals, such as ID and BOOKIE; several bookies have commas between
                them.

        Raises:
            ValueError: the permission is for another kind, or not for all of these objects.
        """
        require_permission(allowed, self.kind, *_blank_objects(blanks))
        return tuple(_fill_line(line, blanks) for line in self.lines)


def _procedure(kind: ActionKind, *lines: tuple[CommandRole, str]) -> Procedure:
    return Procedure(kind, tuple(CommandLine(*line) for line in lines))


RESTORE_METADATA = _procedure(
    ActionKind.RESTORE_METADATA,
    (LOOK_ROLE, "ledgermetadata -l ID"),
    (DO_ROLE, "ledgermetadata -l ID -restorefromfile FILE"),
)
MAKE_COOKIE = _procedure(
    ActionKind.MAKE_COOKIE,
    (LOOK_ROLE, "cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE"),
    (DO_ROLE, "cookie_create -cf FILE BOOKIE"),
)
MAKE_COOKIE_WITH_INDEXES = Procedure(
    ActionKind.MAKE_COOKIE,
    (
        CommandLine(LOOK_ROLE, MAKE_COOKIE.lines[0].text, " -ix INDEXES"),
        *MAKE_COOKIE.lines[1:],
    ),
)
"""Procedure that makes the cookie of a bookie with indexDirectories. Other bookies need `MAKE_COOKIE`."""
DELETE_COOKIE = _procedure(
    ActionKind.DELETE_COOKIE,
    (SAVE_ROLE, "cookie_get BOOKIE"),
    (DO_ROLE, "cookie_delete BOOKIE"),
    (UNDO_ROLE, "cookie_create -cf FILE BOOKIE"),
)
DELETE_LEDGER = _procedure(
    ActionKind.DELETE_LEDGER,
    (LOOK_ROLE, "ledgermetadata -l ID"),
    (SAVE_ROLE, "ledgermetadata -l ID -dumptofile FILE"),
    (DO_ROLE, "deleteledger -l ID"),
    (UNDO_ROLE, "ledgermetadata -l ID -restorefromfile FILE"),
)
COPY_LEDGER = _procedure(
    ActionKind.RECOVER, (LOOK_ROLE, "recover -dr -l ID BOOKIE"), (DO_ROLE, "recover -l ID BOOKIE")
)
COPY_ALL_LEDGERS = _procedure(
    ActionKind.RECOVER, (LOOK_ROLE, "recover -dr -sk -sku BOOKIE"), (DO_ROLE, "recover -sk -sku BOOKIE")
)
MARK_LEDGERS = _procedure(
    ActionKind.RECOVER, (LOOK_ROLE, "lostbookierecoverydelay -g"), (DO_ROLE, "triggeraudit")
)
LIST_MARKED = _procedure(ActionKind.WAIT, (LOOK_ROLE, "listunderreplicated -pmr -prw"))
REGENERATE_INDEX_FILE = _procedure(
    ActionKind.REBUILD_INDEX,
    (LOOK_ROLE, "regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun"),
    (DO_ROLE, "regenerate-interleaved-storage-index-file -l ID -password PASSWORD"),
)
REBUILD_LEDGERS_INDEX = _procedure(
    ActionKind.REBUILD_INDEX, (LOOK_ROLE, "check-db-ledgers-index"), (DO_ROLE, "rebuild-db-ledgers-index")
)
REBUILD_LOCATIONS_INDEX = _procedure(ActionKind.REBUILD_INDEX, (DO_ROLE, "rebuild-db-ledger-locations-index"))

REPLICATION_STOPS = "switch replication off to stop the workers (bkaudit explain check mark-unreadable)"
"""Advice on stopping copies that were already requested."""


_PREFIX_BY_MANUAL_ACTION = {ActionKind.STOP: "stop the bookie ", ActionKind.START: "start "}
"""Beginnings of instructions that are not commands; the bookie's id follows."""


def parse_manual_action(text: str) -> tuple[ActionKind, str] | None:
    """Return kind and bookie of an instruction to stop or start a bookie by hand; None for any other text.

    >>> parse_manual_action("start bk1:3181")
    (<ActionKind.START: 'start'>, 'bk1:3181')
    """
    manual_actions = (
        (kind, text.removeprefix(prefix))
        for kind, prefix in _PREFIX_BY_MANUAL_ACTION.items()
        if text.startswith(prefix)
    )
    return next(manual_actions, None)


def stop_bookie(allowed: Allowed, bookie_id: str, why: str) -> PlanCommand:
    """Return the instruction to stop a bookie."""
    require_permission(allowed, ActionKind.STOP, bookie(bookie_id))
    return PlanCommand(MANUAL_ROLE, f"{_PREFIX_BY_MANUAL_ACTION[ActionKind.STOP]}{bookie_id}", why, "load")


def start_bookie(allowed: Allowed, bookie_id: str) -> PlanCommand:
    """Return the instruction to start a bookie."""
    require_permission(allowed, ActionKind.START, bookie(bookie_id))
    return PlanCommand(
        MANUAL_ROLE,
        f"{_PREFIX_BY_MANUAL_ACTION[ActionKind.START]}{bookie_id}",
        "serves its copies again",
        "none",
    )


def set_settings(allowed: Allowed, bookie_id: str, settings: Sequence[str]) -> PlanCommand:
    """Return the instruction to set lines in a bookie's configuration while it is stopped."""
    require_permission(allowed, ActionKind.STOP, bookie(bookie_id))
    prefix = f"set {' and '.join(settings)} in its configuration"
    return PlanCommand(MANUAL_ROLE, prefix, "garbage collection then deletes none of its data", "writes")


def exchange_disks(allowed: Allowed, bookies: Sequence[str], paths: Sequence[str]) -> PlanCommand:
    """Return the instruction to put exchanged directories back while the bookies are stopped."""
    require_permission(allowed, ActionKind.STOP, *map(bookie, bookies))
    prefix = f"put back, each in its own place: {', '.join(shlex.quote(path) for path in paths)}"
    return PlanCommand(MANUAL_ROLE, prefix, "each bookie has its own data again", "writes")


def move_index_files_away(allowed: Allowed, bookie_id: str, paths: Sequence[str]) -> PlanCommand:
    """Return the instruction to move damaged index files away.

    The shell fails while an index file with a damaged header is in place.
    """
    require_permission(allowed, ActionKind.REBUILD_INDEX, bookie(bookie_id))
    names = ", ".join(shlex.quote(path) for path in paths[:MAX_PATHS_SHOWN])
    hidden_count = len(paths) - MAX_PATHS_SHOWN
    suffix = f" and {hidden_count:,} more in the findings of index-unreadable" if hidden_count > 0 else ""
    prefix = f"move to a directory that no bookie uses: {names}{suffix}"
    return PlanCommand(
        MANUAL_ROLE, prefix, "the shell refuses an index file whose header is damaged", "writes"
    )


def require_permission(allowed: Allowed, kind: ActionKind, *objects: ActionObject) -> None:
    """Raise ValueError unless the permission is for this kind and all of these objects."""
    if allowed.kind is not kind:
        raise ValueError(f"{allowed.kind} was permitted, not {kind}")
    if missing_objects := {*objects} - {*allowed.objects}:
        names = ", ".join(sorted(f"{object.kind} {object.key}" for object in missing_objects))
        raise ValueError(f"{kind} was not permitted for {names}")


def _blank_objects(blanks: Mapping[str, str]) -> Iterator[ActionObject]:
    for name in filter(None, blanks.get("BOOKIE", "").split(",")):
        yield bookie(name)
    if "ID" in blanks:
        yield ledger(int(blanks["ID"]))


def _fill_line(line: CommandLine, blanks: Mapping[str, str]) -> PlanCommand:
    command = _manual_commands()[_SHELL_PREFIX + line.text]
    return PlanCommand(
        line.role, fill_words(command.text + line.options, blanks), command.effect, command.level
    )


@cache
def _manual_commands() -> dict[str, Command]:
    """Return every command of the checks' manual pages, by its text."""
    return {command.text: command for check in ALL for command in check.commands}

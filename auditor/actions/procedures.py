"""Procedures of plan steps: the commands for each kind of action, in order.

Names of objects replace the placeholders in a command only if the gate (`auditor.actions.gate`) permits the
action on these objects. The manual pages of checks describe the effect and the risk of each command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from auditor.actions.commands import fill_placeholders
from auditor.actions.objects import bookie, ledger
from auditor.checks import ALL_CHECKS
from auditor.checks.manual import Command
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Allowed
from auditor.model.plan import CommandRole, PlanCommand

INSPECT_ROLE, BACKUP_ROLE, MANUAL_ROLE, CHANGE_ROLE, UNDO_ROLE = CommandRole
_SHELL_PREFIX = "bookkeeper shell "
MAX_PATHS_SHOWN = 20
"""Largest number of damaged index files that one step names."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command of the shell, as a manual page shows it. ``options`` are appended to the command."""

    role: CommandRole
    text: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Procedure:
    """Commands that a person types for one kind of action, in order. Placeholders are words in capitals."""

    kind: ActionKind
    lines: tuple[CommandLine, ...]

    def fill(self, permission: Allowed, placeholder_values: Mapping[str, str]) -> tuple[PlanCommand, ...]:
        """Return the commands with placeholders replaced by names of objects.

        Args:
            permission: permission of the gate (`auditor.actions.gate`) for this kind of action and for each
                of the named objects.
            placeholder_values: values by placeholder, such as ID and BOOKIE. Commas separate several
                bookies.

        Raises:
            ValueError: the permission is for a different kind of action, or does not cover all of these
                objects.
        """
        require_permission(permission, self.kind, *_placeholder_objects(placeholder_values))
        return tuple(_fill_line(command_line, placeholder_values) for command_line in self.lines)


def _make_procedure(action_kind: ActionKind, *command_lines: tuple[CommandRole, str]) -> Procedure:
    return Procedure(action_kind, tuple(CommandLine(*command_line) for command_line in command_lines))


RESTORE_METADATA = _make_procedure(
    ActionKind.RESTORE_METADATA,
    (INSPECT_ROLE, "ledgermetadata -l ID"),
    (CHANGE_ROLE, "ledgermetadata -l ID -restorefromfile FILE"),
)
MAKE_COOKIE = _make_procedure(
    ActionKind.MAKE_COOKIE,
    (INSPECT_ROLE, "cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE"),
    (CHANGE_ROLE, "cookie_create -cf FILE BOOKIE"),
)
MAKE_COOKIE_WITH_INDEXES = Procedure(
    ActionKind.MAKE_COOKIE,
    (CommandLine(INSPECT_ROLE, MAKE_COOKIE.lines[0].text, " -ix INDEXES"), *MAKE_COOKIE.lines[1:]),
)
"""Procedure for a bookie whose configuration has indexDirectories. `MAKE_COOKIE` is for other bookies."""
DELETE_COOKIE = _make_procedure(
    ActionKind.DELETE_COOKIE,
    (BACKUP_ROLE, "cookie_get BOOKIE"),
    (CHANGE_ROLE, "cookie_delete BOOKIE"),
    (UNDO_ROLE, "cookie_create -cf FILE BOOKIE"),
)
DELETE_LEDGER = _make_procedure(
    ActionKind.DELETE_LEDGER,
    (INSPECT_ROLE, "ledgermetadata -l ID"),
    (BACKUP_ROLE, "ledgermetadata -l ID -dumptofile FILE"),
    (CHANGE_ROLE, "deleteledger -l ID"),
    (UNDO_ROLE, "ledgermetadata -l ID -restorefromfile FILE"),
)
COPY_LEDGER = _make_procedure(
    ActionKind.RECOVER, (INSPECT_ROLE, "recover -dr -l ID BOOKIE"), (CHANGE_ROLE, "recover -l ID BOOKIE")
)
COPY_ALL_LEDGERS = _make_procedure(
    ActionKind.RECOVER,
    (INSPECT_ROLE, "recover -dr -sk -sku BOOKIE"),
    (CHANGE_ROLE, "recover -sk -sku BOOKIE"),
)
MARK_LEDGERS = _make_procedure(
    ActionKind.RECOVER, (INSPECT_ROLE, "lostbookierecoverydelay -g"), (CHANGE_ROLE, "triggeraudit")
)
LIST_MARKED = _make_procedure(ActionKind.WAIT, (INSPECT_ROLE, "listunderreplicated -pmr -prw"))
REGENERATE_INDEX_FILE = _make_procedure(
    ActionKind.REBUILD_INDEX,
    (INSPECT_ROLE, "regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun"),
    (CHANGE_ROLE, "regenerate-interleaved-storage-index-file -l ID -password PASSWORD"),
)
REBUILD_LEDGERS_INDEX = _make_procedure(
    ActionKind.REBUILD_INDEX,
    (INSPECT_ROLE, "check-db-ledgers-index"),
    (CHANGE_ROLE, "rebuild-db-ledgers-index"),
)
REBUILD_LOCATIONS_INDEX = _make_procedure(
    ActionKind.REBUILD_INDEX, (CHANGE_ROLE, "rebuild-db-ledger-locations-index")
)

REPLICATION_STOPS = "switch replication off to stop the workers (bkaudit explain check mark-unreadable)"
"""Undo text of steps that make AutoRecovery copy ledgers."""


_PREFIX_BY_MANUAL_ACTION = {ActionKind.STOP: "stop the bookie ", ActionKind.START: "start "}
"""Beginning of the instruction for an action by hand. The bookie's id follows it."""


def parse_manual_action(instruction: str) -> tuple[ActionKind, str] | None:
    """Return (kind, bookie id) of an instruction to stop or start a bookie by hand; None for other texts.

    >>> parse_manual_action("start bk1:3181")
    (<ActionKind.START: 'start'>, 'bk1:3181')
    """
    kinds_and_bookies = (
        (action_kind, instruction.removeprefix(instruction_text))
        for action_kind, instruction_text in _PREFIX_BY_MANUAL_ACTION.items()
        if instruction.startswith(instruction_text)
    )
    return next(kinds_and_bookies, None)


def stop_bookie(permission: Allowed, bookie_id: str, effect_text: str) -> PlanCommand:
    """Return the instruction to stop a bookie."""
    require_permission(permission, ActionKind.STOP, bookie(bookie_id))
    return PlanCommand(
        MANUAL_ROLE, f"{_PREFIX_BY_MANUAL_ACTION[ActionKind.STOP]}{bookie_id}", effect_text, "load"
    )


def start_bookie(permission: Allowed, bookie_id: str) -> PlanCommand:
    """Return the instruction to start a bookie."""
    require_permission(permission, ActionKind.START, bookie(bookie_id))
    return PlanCommand(
        MANUAL_ROLE,
        f"{_PREFIX_BY_MANUAL_ACTION[ActionKind.START]}{bookie_id}",
        "the bookie serves its copies again",
        "none",
    )


def set_settings(permission: Allowed, bookie_id: str, settings: Sequence[str]) -> PlanCommand:
    """Return the instruction to set the lines ``settings`` in the configuration of a stopped bookie."""
    require_permission(permission, ActionKind.STOP, bookie(bookie_id))
    instruction_text = f"set {' and '.join(settings)} in its configuration"
    return PlanCommand(
        MANUAL_ROLE, instruction_text, "garbage collection then deletes none of its data", "writes"
    )


def swap_disks_back(permission: Allowed, bookies: Sequence[str], paths: Sequence[str]) -> PlanCommand:
    """Return the instruction to move swapped directories back to their bookies while these are stopped."""
    require_permission(permission, ActionKind.STOP, *map(bookie, bookies))
    quoted_paths = ", ".join(shlex.quote(path) for path in paths)
    instruction_text = f"move each of these directories back to its own place: {quoted_paths}"
    return PlanCommand(MANUAL_ROLE, instruction_text, "each bookie has its own data again", "writes")


def move_index_files_away(permission: Allowed, bookie_id: str, paths: Sequence[str]) -> PlanCommand:
    """Return the instruction to move damaged index files away.

    The shell fails while an index file with a damaged header is in place.
    """
    require_permission(permission, ActionKind.REBUILD_INDEX, bookie(bookie_id))
    object_names = ", ".join(shlex.quote(path) for path in paths[:MAX_PATHS_SHOWN])
    unnamed_count = len(paths) - MAX_PATHS_SHOWN
    unnamed_files_text = (
        f" and {unnamed_count:,} more (see the findings of index-unreadable)" if unnamed_count > 0 else ""
    )
    instruction_text = f"move to a directory that no bookie uses: {object_names}{unnamed_files_text}"
    return PlanCommand(
        MANUAL_ROLE, instruction_text, "the shell refuses an index file whose header is damaged", "writes"
    )


def require_permission(permission: Allowed, action_kind: ActionKind, *action_objects: ActionObject) -> None:
    """Raise ValueError if the permission is for a different kind of action or does not cover an object."""
    if permission.kind is not action_kind:
        raise ValueError(f"{permission.kind} was permitted, not {action_kind}")
    if missing_objects := {*action_objects} - {*permission.objects}:
        object_names = ", ".join(
            sorted(f"{action_object.kind} {action_object.key}" for action_object in missing_objects)
        )
        raise ValueError(f"{action_kind} was not permitted for {object_names}")


def _placeholder_objects(placeholder_values: Mapping[str, str]) -> Iterator[ActionObject]:
    for bookie_name in filter(None, placeholder_values.get("BOOKIE", "").split(",")):
        yield bookie(bookie_name)
    if "ID" in placeholder_values:
        yield ledger(int(placeholder_values["ID"]))


def _fill_line(command_line: CommandLine, placeholder_values: Mapping[str, str]) -> PlanCommand:
    command = _commands_by_text()[_SHELL_PREFIX + command_line.text]
    return PlanCommand(
        command_line.role,
        fill_placeholders(command.text + command_line.options, placeholder_values),
        command.effect,
        command.risk_level,
    )


@cache
def _commands_by_text() -> dict[str, Command]:
    """Return every command on the manual pages of checks, by the text of the command."""
    return {command.text: command for check in ALL_CHECKS for command in check.commands}

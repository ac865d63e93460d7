"""Commands that change a cluster: their kinds of action, and the values of their placeholders.

A command is a template. Its placeholders are words in capitals, such as BOOKIE. Most templates are on the
manual pages of checks. The templates for a bookie's HTTP server are in this module. The name of an object
replaces a placeholder only if the gate (`auditor.actions.gate`) permits the action on this object. The
template itself may be shown anywhere, because nobody can run it unchanged.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditor.actions.gate import GateRun, permit, permit_everywhere
from auditor.actions.objects import bookie, ledger
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Allowed, Permission, Refused

PlaceholderValues = Mapping[str, str]
"""Values of the placeholders (words in capitals) of a command, by placeholder."""

_SHELL_PREFIX = "bookkeeper shell "
_BOOKIE_PLACEHOLDER, _LEDGER_PLACEHOLDER = "BOOKIE", "ID"


@dataclass(frozen=True, slots=True)
class _WritingCommand:
    """Commands of BookKeeper's shell that begin with ``command_prefix``, and their kind of action.

    Args:
        changes_bookie: Whether the commands change the bookie of the finding although their text does not
            name this bookie.
        is_cluster_wide: Whether the commands switch AutoRecovery on or off for the whole cluster.
        closes_ledger: Whether the commands fence the writer of an open ledger and close the ledger.
    """

    command_prefix: str
    kind: ActionKind
    changes_bookie: bool = False
    is_cluster_wide: bool = False
    closes_ledger: bool = False


_WRITING_COMMANDS = (
    _WritingCommand("autorecovery -d", ActionKind.STOP, is_cluster_wide=True),
    _WritingCommand("autorecovery -e", ActionKind.RECOVER, is_cluster_wide=True),
    _WritingCommand("triggeraudit", ActionKind.RECOVER, is_cluster_wide=True),
    # A shorter delay, or none, has the auditor mark the ledgers of every lost bookie at once.
    _WritingCommand("lostbookierecoverydelay -s", ActionKind.RECOVER, is_cluster_wide=True),
    _WritingCommand("bookieformat -deleteCookie", ActionKind.DELETE_COOKIE, changes_bookie=True),
    _WritingCommand("cookie_create", ActionKind.MAKE_COOKIE),
    # It only writes a file, but the next command on every page stores that file as the cookie.
    _WritingCommand("cookie_generate", ActionKind.MAKE_COOKIE),
    _WritingCommand("cookie_update", ActionKind.MAKE_COOKIE),
    _WritingCommand("updatecookie", ActionKind.MAKE_COOKIE, changes_bookie=True),
    _WritingCommand("cookie_delete", ActionKind.DELETE_COOKIE),
    _WritingCommand("decommissionbookie", ActionKind.DECOMMISSION),
    _WritingCommand("deleteledger", ActionKind.DELETE_LEDGER),
    _WritingCommand("ledgermetadata -l ID -restorefromfile", ActionKind.RESTORE_METADATA),
    # Both write another id of a bookie into the metadata of all its ledgers.
    _WritingCommand("updateBookieInLedger", ActionKind.RESTORE_METADATA, changes_bookie=True),
    _WritingCommand("updateledgers", ActionKind.RESTORE_METADATA, changes_bookie=True),
    # -r opens the ledger with recovery, which fences its writer and closes it.
    _WritingCommand("readledger -l ID -r", ActionKind.RECOVER, closes_ledger=True),
    # BookKeeperAdmin.recoverLedger closes an open ledger whose last ensemble names the bookie.
    _WritingCommand("recover -l ID", ActionKind.RECOVER, closes_ledger=True),
    _WritingCommand("recover -sk", ActionKind.RECOVER),
    _WritingCommand("rebuild-db-", ActionKind.REBUILD_INDEX, changes_bookie=True),
    _WritingCommand(
        "regenerate-interleaved-storage-index-file", ActionKind.REBUILD_INDEX, changes_bookie=True
    ),
)
_FENCE_REASON_TEXT = (
    "the ledger is open: the command fences the writer and closes the ledger; let the application "
    "close it first"
)
_READ_ONLY_FLAG = re.compile(r"(?i) -dryRun\b")
_LEDGER_PLACEHOLDER_PATTERN = re.compile(r"\bID\b")


def _find_writing_command(command: str) -> _WritingCommand | None:
    command_text = command.removeprefix(_SHELL_PREFIX)
    if command_text == command or _READ_ONLY_FLAG.search(command_text):
        return None
    return next(
        (
            writing_command
            for writing_command in _WRITING_COMMANDS
            if command_text.startswith(writing_command.command_prefix)
        ),
        None,
    )


def action_kind_of_command(command: str) -> ActionKind | None:
    """Return the kind of action of a command from a manual page, or None if the command changes nothing.

    >>> action_kind_of_command("bookkeeper shell deleteledger -l ID")
    <ActionKind.DELETE_LEDGER: 'delete-ledger'>
    >>> action_kind_of_command("bookkeeper shell recover -dr -l ID BOOKIE") is None
    True
    """
    writing_command = _find_writing_command(command)
    return None if writing_command is None else writing_command.kind


def is_cluster_wide(command: str) -> bool:
    """Return whether a command makes AutoRecovery copy ledgers in the whole cluster.

    >>> is_cluster_wide("bookkeeper shell triggeraudit"), is_cluster_wide("bookkeeper shell recover -l 7 a:1")
    (True, False)
    """
    writing_command = _find_writing_command(command)
    return (
        writing_command is not None
        and writing_command.is_cluster_wide
        and writing_command.kind is ActionKind.RECOVER
    )


def permit_command(
    run: GateRun, command: str, values: PlaceholderValues, scope_id: int = 0
) -> Permission | None:
    """Ask the gate (`auditor.actions.gate`) whether a command may change the objects in ``values``.

    Args:
        run: the finished run that the command is based on.
        command: a command from a manual page.
        values: the known values of the command's placeholders.
        scope_id: the upper 64 bits of the 128-bit id of the ledger in ``values``.

    Returns:
        The gate's answer. None if the command changes nothing. Also None if ``values`` contains no object
            that the command changes, because the command is then shown as a template.

    Raises:
        RunError: the run's table ``holds`` is broken.
    """
    writing_command = _find_writing_command(command)
    if writing_command is None:
        return None
    if writing_command.is_cluster_wide:
        # Switching replication off stops no bookie, and holds on stops are on bookies.
        is_stop_command = writing_command.kind is ActionKind.STOP
        return (
            permit(run, writing_command.kind, ())
            if is_stop_command
            else permit_everywhere(run, writing_command.kind)
        )
    action_objects = [*_changed_objects(writing_command, command, values, scope_id)]
    if not action_objects:
        return None
    gate_answer = permit(run, writing_command.kind, action_objects)
    if (
        isinstance(gate_answer, Allowed)
        and writing_command.closes_ledger
        and run.holds.has_open_ledger(action_objects)
    ):
        return Refused(writing_command.kind, tuple(action_objects), reason=_FENCE_REASON_TEXT)
    copies_any_ledger = writing_command.kind is ActionKind.RECOVER and not _LEDGER_PLACEHOLDER_PATTERN.search(
        command
    )
    # The command copies ledgers that it does not name, and so held ledgers too.
    if (
        isinstance(gate_answer, Allowed)
        and copies_any_ledger
        and (first_ledger_holds := run.holds.first_ledger_hold(writing_command.kind))
    ):
        return Refused(writing_command.kind, tuple(action_objects), first_ledger_holds)
    return gate_answer


def _changed_objects(
    writing_command: _WritingCommand, command: str, values: PlaceholderValues, scope_id: int
) -> Iterator[ActionObject]:
    concerns_bookie = writing_command.changes_bookie or _BOOKIE_PLACEHOLDER in command.split()
    if concerns_bookie and (bookie_id := values.get(_BOOKIE_PLACEHOLDER)) is not None:
        yield bookie(bookie_id)
    ledger_id_text = values.get(_LEDGER_PLACEHOLDER)
    if ledger_id_text is not None and _LEDGER_PLACEHOLDER_PATTERN.search(command):
        yield ledger(int(ledger_id_text), scope_id)


def fill_command(command: str, values: PlaceholderValues, permission: Allowed | None = None) -> str:
    """Replace placeholders in a command with known values, quoted for a shell.

    A value that contains unprintable characters is not filled in, because a substitute for these characters
    would make the command wrong.

    Args:
        command: the template.
        values: the known values of its placeholders.
        permission: the permission of the gate (`auditor.actions.gate`). None for a command that changes
            nothing, or if ``values`` is empty.

    Raises:
        TypeError: the command changes something and ``permission`` does not permit it. The permission is
            missing, is for a different kind of action, or does not cover an object in the command.

    >>> fill_command("bookkeeper shell recover -q BOOKIE", {"BOOKIE": "bk 1;reboot"})
    "bookkeeper shell recover -q 'bk 1;reboot'"
    """
    if (kind := action_kind_of_command(command)) is not None:
        if permission is None and not values:
            return command  # the template as it stands on its page
        if not isinstance(permission, Allowed) or permission.kind is not kind:
            raise TypeError(f"{command}: the gate did not permit {kind} (auditor.actions.gate)")
        permitted_names = {action_object.key.rpartition("/")[2] for action_object in permission.objects}
        placeholders = {*command.split()} & {_BOOKIE_PLACEHOLDER, _LEDGER_PLACEHOLDER}
        # The shell takes several bookies with commas between them.
        names_in_command = {
            object_name
            for placeholder in placeholders
            if placeholder in values
            for object_name in values[placeholder].split(",")
        }
        if names_in_command - permitted_names:
            refused_text = ", ".join(sorted(names_in_command - permitted_names))
            raise TypeError(
                f"{command}: the gate did not permit {kind} on {refused_text} (auditor.actions.gate)"
            )
    return fill_placeholders(command, values)


def fill_placeholders(command: str, values: PlaceholderValues) -> str:
    """Replace placeholders like `fill_command`, but without checking a permission."""
    filled_words = []
    for placeholder in command.split():
        placeholder_value = values.get(placeholder)
        filled_words.append(
            placeholder
            if placeholder_value is None or not placeholder_value.isprintable()
            else shlex.quote(placeholder_value)
        )
    return " ".join(filled_words)


def decommission_command(permission: Allowed, bookie_id: str) -> str:
    """Return the command that decommissions a bookie.

    The id must follow the option ``-bookieid``. Without this option, the command ignores the id and removes
    the local bookie (pulsar #21607).
    """
    return fill_command(
        f"{_SHELL_PREFIX}decommissionbookie -bookieid BOOKIE", {_BOOKIE_PLACEHOLDER: bookie_id}, permission
    )


def collect_garbage_command(permission: Allowed, server_url: str) -> str:
    """Return the command that requests a garbage collection at ``server_url`` on a bookie's HTTP server."""
    _require_kind(permission, ActionKind.COLLECT)
    return f"curl -X PUT {shlex.quote(server_url)}"


def compaction_command(permission: Allowed, server_url: str, *, is_major: bool) -> str:
    """Return the command that requests a compaction at ``server_url`` on a bookie's HTTP server.

    The bookie collects garbage before the compaction.
    """
    _require_kind(permission, ActionKind.COMPACT)
    # Servers before 4.17 fail if the body lacks one of the two keys.
    request_body = json.dumps({"forceMajor": is_major, "forceMinor": True})
    return f"curl -X PUT -d {shlex.quote(request_body)} {shlex.quote(server_url)}"


def _require_kind(permission: Allowed, kind: ActionKind) -> None:
    if not isinstance(permission, Allowed) or permission.kind is not kind:
        raise TypeError(f"the gate did not permit {kind} (auditor.actions.gate)")

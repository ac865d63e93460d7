"""Commands that change a cluster: their kinds of action, and values for the blanks in them.

A command is a template with blanks: words in capitals, such as BOOKIE. Templates are on the manual pages of
checks, and here for a bookie's HTTP server. A blank is only filled in with an `Allowed` of the gate for the
object that it names. The template itself may be shown anywhere, because nobody can run it unchanged.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditor.actions.gate import HeldRun, permit, permit_everywhere
from auditor.actions.objects import bookie, ledger
from auditor.model.holds import ActionKind
from auditor.model.permission import ActionObject, Allowed, Permission, Refused

Blanks = Mapping[str, str]
"""Values for the blanks of a command (words in capitals), by word."""

_SHELL_PREFIX = "bookkeeper shell "
_BOOKIE_PLACEHOLDER, _LEDGER_PLACEHOLDER = "BOOKIE", "ID"


@dataclass(frozen=True, slots=True)
class _WritingCommand:
    """Commands of BookKeeper's shell with the same beginning: their kind, and the objects that they change.

    ``changes_bookie`` commands change the bookie of the finding although their text does not name it.
    ``is_cluster_wide`` commands make AutoRecovery work on every ledger and bookie, or on none.
    ``closes_ledger`` commands fence the writer of a ledger before they close the ledger.
    """

    beginning: str
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
_FENCE_REASON = (
    "the ledger is open: the command fences the writer and closes the ledger; let the application "
    "close it first"
)
_READ_ONLY_FLAG = re.compile(r"(?i) -dryRun\b")
_LEDGER_PLACEHOLDER_PATTERN = re.compile(r"\bID\b")


def _find_rule(command: str) -> _WritingCommand | None:
    text = command.removeprefix(_SHELL_PREFIX)
    if text == command or _READ_ONLY_FLAG.search(text):
        return None
    return next((rule for rule in _WRITING_COMMANDS if text.startswith(rule.beginning)), None)


def kind_of_command(command: str) -> ActionKind | None:
    """Return the kind of action of a command from a manual page; None if it changes nothing.

    >>> kind_of_command("bookkeeper shell deleteledger -l ID")
    <ActionKind.DELETE_LEDGER: 'delete-ledger'>
    >>> kind_of_command("bookkeeper shell recover -dr -l ID BOOKIE") is None
    True
    """
    rule = _find_rule(command)
    return None if rule is None else rule.kind


def is_cluster_wide(command: str) -> bool:
    """Return whether a command makes AutoRecovery work on every ledger and bookie.

    >>> is_cluster_wide("bookkeeper shell triggeraudit"), is_cluster_wide("bookkeeper shell recover -l 7 a:1")
    (True, False)
    """
    rule = _find_rule(command)
    return rule is not None and rule.is_cluster_wide and rule.kind is ActionKind.RECOVER


def permit_command(run: HeldRun, command: str, blanks: Blanks, scope_id: int = 0) -> Permission | None:
    """Ask the gate whether a writing command is permitted on its objects.

    Args:
        run: the finished run that the command rests on.
        command: a command of a manual page.
        blanks: known values of its words in capitals.
        scope_id: the scope of the ledger in ``blanks``.

    Returns:
        The gate's answer. None if the command changes nothing. Also None if none of its objects is
            known, because its blanks then stay empty.

    Raises:
        RunError: the table holds is broken.
    """
    rule = _find_rule(command)
    if rule is None:
        return None
    if rule.is_cluster_wide:
        # Switching replication off stops no bookie, and holds on stops are on bookies.
        is_stop = rule.kind is ActionKind.STOP
        return permit(run, rule.kind, ()) if is_stop else permit_everywhere(run, rule.kind)
    objects = [*_changed_objects(rule, command, blanks, scope_id)]
    if not objects:
        return None
    answer = permit(run, rule.kind, objects)
    if isinstance(answer, Allowed) and rule.closes_ledger and run.holds.has_open_ledger(objects):
        return Refused(rule.kind, tuple(objects), why=_FENCE_REASON)
    copies_any_ledger = rule.kind is ActionKind.RECOVER and not _LEDGER_PLACEHOLDER_PATTERN.search(command)
    # The command copies ledgers that it does not name, and so held ledgers too.
    if (
        isinstance(answer, Allowed)
        and copies_any_ledger
        and (ledger_holds := run.holds.first_of_ledgers(rule.kind))
    ):
        return Refused(rule.kind, tuple(objects), ledger_holds)
    return answer


def _changed_objects(
    rule: _WritingCommand, command: str, blanks: Blanks, scope_id: int
) -> Iterator[ActionObject]:
    names_bookie = rule.changes_bookie or _BOOKIE_PLACEHOLDER in command.split()
    if names_bookie and (name := blanks.get(_BOOKIE_PLACEHOLDER)) is not None:
        yield bookie(name)
    ledger_text = blanks.get(_LEDGER_PLACEHOLDER)
    if ledger_text is not None and _LEDGER_PLACEHOLDER_PATTERN.search(command):
        yield ledger(int(ledger_text), scope_id)


def fill_command(command: str, blanks: Blanks, permission: Allowed | None = None) -> str:
    """Fill known values into a command, quoted for a shell.

    A value with characters that cannot be shown stays a blank, because any replacement would be wrong.

    Args:
        command: the template.
        blanks: known values of its words in capitals.
        permission: the gate's answer; None for a command that changes nothing.

    Raises:
        TypeError: the command writes, and the permission is missing, of another kind or on other objects.

    >>> fill_command("bookkeeper shell recover -q BOOKIE", {"BOOKIE": "bk 1;reboot"})
    "bookkeeper shell recover -q 'bk 1;reboot'"
    """
    if (kind := kind_of_command(command)) is not None:
        if permission is None and not blanks:
            return command  # the template as it stands on its page
        if not isinstance(permission, Allowed) or permission.kind is not kind:
            raise TypeError(f"{command}: the gate did not permit to {kind}")
        permitted_keys = {object.key.rpartition("/")[2] for object in permission.objects}
        placeholders = {*command.split()} & {_BOOKIE_PLACEHOLDER, _LEDGER_PLACEHOLDER}
        # The shell takes several bookies with commas between them.
        named_objects = {
            name
            for placeholder in placeholders
            if placeholder in blanks
            for name in blanks[placeholder].split(",")
        }
        if named_objects - permitted_keys:
            refused = ", ".join(sorted(named_objects - permitted_keys))
            raise TypeError(f"{command}: the gate did not permit to {kind} {refused}")
    return fill_words(command, blanks)


def fill_words(command: str, blanks: Blanks) -> str:
    """Fill known values into a command, as `fill_command` does, but without the check of a permission."""
    filled_words = []
    for placeholder in command.split():
        blank_value = blanks.get(placeholder)
        filled_words.append(
            placeholder if blank_value is None or not blank_value.isprintable() else shlex.quote(blank_value)
        )
    return " ".join(filled_words)


def decommission_command(permission: Allowed, bookie_id: str) -> str:
    """Return the command that decommissions a bookie.

    Without ``-bookieid`` the command takes the local bookie, and ignores an id in its place (pulsar #21607).
    """
    return fill_command(
        f"{_SHELL_PREFIX}decommissionbookie -bookieid BOOKIE", {_BOOKIE_PLACEHOLDER: bookie_id}, permission
    )


def collect_command(permission: Allowed, url: str) -> str:
    """Return the request for a garbage collection; ``url`` is its address on the bookie's HTTP server."""
    _require_kind(permission, ActionKind.COLLECT)
    return f"curl -X PUT {shlex.quote(url)}"


def compact_command(permission: Allowed, url: str, *, is_major: bool) -> str:
    """Return the request for a compaction to ``url`` on a bookie's HTTP server; it collects garbage first."""
    _require_kind(permission, ActionKind.COMPACT)
    # Servers before 4.17 fail if the body lacks one of the two keys.
    request_body = json.dumps({"forceMajor": is_major, "forceMinor": True})
    return f"curl -X PUT -d {shlex.quote(request_body)} {shlex.quote(url)}"


def _require_kind(permission: Allowed, kind: ActionKind) -> None:
    if not isinstance(permission, Allowed) or permission.kind is not kind:
        raise TypeError(f"the gate did not permit to {kind}")

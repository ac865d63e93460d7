"""An inventory file: where each bookie's directories lie, for those that do not lie together.

[bookies."bk-a:3181"]
journal = ["/mnt/a/journal"]
ledgers = ["/mnt/a/ledgers0", "/mnt/a/ledgers1"]     # in configured order
index = ["/mnt/a/index0", "/mnt/a/index1"]           # only where indexDirectories is configured
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditor.errors import UsageError
from auditor.model.bookie_id import is_accepted
from auditor.sources.regular_file import read_toml

ROLES = {"journal": "journal", "ledgers": "ledger", "index": "index"}
"""The lists of an inventory entry, and the role of the directories in each."""


@dataclass(frozen=True, slots=True)
class DeclaredRole:
    """What an inventory says of a directory: its role, and its position among the ``of`` of that role."""

    path: str
    role: str
    position: int
    of: int


def read_inventory(file: Path) -> dict[str, list[DeclaredRole]]:
    """Read which directories each bookie has; relative paths count from the file's own directory.

    Raises `UsageError` for a file that is not an inventory, naming the entry at fault.
    """
    try:
        content = read_toml(file)
    except UsageError as error:
        reason = str(error).removeprefix(f"{file}: ")
        raise UsageError(f"--bookies {file}: not a readable inventory: {reason}") from error
    bookies = content.get("bookies")
    if not isinstance(bookies, dict) or not bookies:
        raise UsageError(f'--bookies {file}: no [bookies."ID"] table in this inventory')
    return {bookie_id: _directories(file, bookie_id, lists) for bookie_id, lists in bookies.items()}


def _directories(file: Path, bookie_id: str, lists: Any) -> list[DeclaredRole]:
    where = f'--bookies {file}: [bookies."{bookie_id}"]'
    if not is_accepted(bookie_id):
        raise UsageError(
            f"{where}: BookKeeper takes no such bookie id: it has letters, digits and : - . only, "
            "and is not the word readonly"
        )
    if not isinstance(lists, dict):
        raise UsageError(f"{where} is not a table")
    unknown = sorted(set(lists) - set(ROLES))
    if unknown:
        raise UsageError(f"{where} has {', '.join(unknown)}; known are {', '.join(ROLES)}")
    declared = []
    for key, role in ROLES.items():
        paths = lists.get(key, [])
        if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
            raise UsageError(f"{where} {key} must be a list of paths")
        whole = [str(file.parent.absolute() / path) for path in paths]
        declared += [DeclaredRole(path, role, position, len(paths)) for position, path in enumerate(whole)]
    return declared

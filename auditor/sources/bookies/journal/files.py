"""A bookie's journal files: which there are, and the entries in one from an offset on."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from auditor.codecs.availability.ledger_sets import distinct
from auditor.codecs.bookie.journal import MASTER_KEY, Journal
from auditor.codecs.bookie.length_prefixed import Longs
from auditor.errors import DecodeError
from auditor.sources.regular_file import open_regular

SUFFIX = ".txn"
MOST_ENTRIES = 64 << 20
"""Entries of one journal after its mark, 1 GiB of numbers: so many are not kept."""

ENTRIES, MASTER_KEYS = "entries", "master keys"

_COMPACTED = 4 << 20  # entries after which those that came twice are dropped


class JournalFile(NamedTuple):
    """A journal file: its id is the millisecond at which the bookie made it, in hex its name."""

    id: int
    path: str


class JournalEntries(NamedTuple):
    """The entries of a journal file, in no order, and how it ended.

    ``master_keys`` counts the records that say a ledger's key. ``cut``: it ends inside a record. ``damage``
    is what no server can have written, after everything that is here; None in a sound file.
    """

    scope_ids: Longs
    ledger_ids: Longs
    entry_ids: Longs
    master_keys: int
    cut: bool
    damage: DecodeError | None


def list_journals(directory: str) -> list[JournalFile]:
    """The files of a journal directory, oldest first.

    Raises:
        OSError: it cannot be listed.
        ValueError: a name that the server does not understand either: it would not start.

    >>> list_journals("/no/such/directory")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: '/no/such/directory/current'
    """
    found = []
    with os.scandir(f"{directory}/current") as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                found.append(JournalFile(_file_id(entry.name), entry.path))
    return sorted(found)


def _file_id(name: str) -> int:
    digits = name.partition(".")[0]
    try:
        return int(digits, 16)
    except ValueError as error:
        raise ValueError(f"{name}: {digits!r} is not a hexadecimal id") from error


def read_entries(path: str, start: int) -> JournalEntries:
    """Read the records of a journal file from byte ``start`` on, 0 being its first record.

    Memory follows the entries, 16 bytes each. Raises OSError; `DecodeError` where the file is shorter than
    ``start`` or has more than `MOST_ENTRIES` entries.
    """
    scopes: list[Longs] = []
    ledgers: list[Longs] = []
    entries: list[Longs] = []
    count = keys = 0
    damage: DecodeError | None = None
    with open_regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        if start > size:
            raise DecodeError("journal", size, f"it ends before byte {start}, from which it should be read")
        try:
            journal = Journal.open(lambda offset, length: os.pread(descriptor, length, offset), size)
            for records in journal.records(start):
                keys += int((records.entry_ids == MASTER_KEY).sum())
                _, ledger_ids, entry_ids, scope_ids = records.entries()
                scopes.append(scope_ids)
                ledgers.append(ledger_ids)
                entries.append(entry_ids)
                count += len(entry_ids)
                full = count > _COMPACTED and len(ledgers) > 1 and count > 2 * len(ledgers[0])
                if full and not any(each.any() for each in scopes):  # no server writes other scopes
                    pair = distinct(np.concatenate(ledgers), np.concatenate(entries))
                    ledgers, entries, count = [pair[0]], [pair[1]], len(pair[0])
                    scopes = [np.zeros(count, np.int64)]
                if count > MOST_ENTRIES:
                    raise DecodeError(
                        "journal", int(records.offsets[-1]), f"more than {MOST_ENTRIES} entries"
                    )
            cut = journal.cut
        except DecodeError as error:
            damage, cut = error, False
    nothing = np.empty(0, np.int64)
    scope_ids, ledger_ids, entry_ids = (
        np.concatenate([nothing, *each]) for each in (scopes, ledgers, entries)
    )
    return JournalEntries(scope_ids, ledger_ids, entry_ids, keys, cut, damage)


def first_records(path: str) -> str | None:
    """What a journal has: `ENTRIES` as soon as there is one, else `MASTER_KEYS`, None where it has neither.

    Raises OSError; `DecodeError` for a damaged file in which there is no entry.
    """
    found = None
    with open_regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        for records in Journal.open(
            lambda offset, length: os.pread(descriptor, length, offset), size
        ).records():
            if len(records.entries().entry_ids):
                return ENTRIES
            if (records.entry_ids == MASTER_KEY).any():
                found = MASTER_KEYS
    return found

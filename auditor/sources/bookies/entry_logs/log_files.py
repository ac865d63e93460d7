"""The entry logs of some ledger directories, by id, with their sizes."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.length_prefixed import RECORD_IDS, Longs
from auditor.model.states import LogFileKind
from auditor.sources.bookies.entry_logs.rows import list_logs
from auditor.sources.regular_file import open_regular

_RECORD_FORMAT = struct.Struct(">iqq")


class LogPaths:
    """The paths of the logs in some directories, by log id. Raises OSError."""

    def __init__(self, directories: Sequence[str]) -> None:
        self.has_directories = bool(directories)
        self._directories = directories
        self._paths = self._list_logs()

    def _list_logs(self) -> dict[int, str]:
        paths: dict[int, str] = {}
        for directory in self._directories:
            for log_file in list_logs(directory):
                if log_file.kind == LogFileKind.LOG:
                    paths.setdefault(log_file.log_id, f"{directory}/current/{log_file.name}")
        return paths

    def path(self, log_id: int) -> str | None:
        """Return the path of a log. None if it does not exist."""
        return self._paths.get(log_id)


class LogSizes(LogPaths):
    """The logs in some directories: ``ids`` in ascending order, and ``sizes`` in bytes in the same order."""

    def __init__(self, directories: Sequence[str]) -> None:
        super().__init__(directories)
        self._absent_ids: set[int] = set()
        self._measure_logs()

    def _measure_logs(self) -> None:
        paths = self._paths
        sizes = {log_id: size for log_id in sorted(paths) if (size := _file_size(paths[log_id])) is not None}
        self.ids = np.array(list(sizes), np.int64)
        self.sizes = np.array(list(sizes.values()), np.int64)

    def list_again(self) -> None:
        """List the directories and measure the logs again. Raises OSError."""
        self._paths = self._list_logs()
        self._measure_logs()

    def list_again_if_unknown(self, log_ids: Longs) -> None:
        """List the directories again if one of ``log_ids`` was in no listing so far. Raises OSError.

        A log that the new listing lacks too is not searched for again.
        """
        if not self.has_directories:
            return
        unknown_ids = set(np.unique(log_ids).tolist()) - set(self.ids.tolist()) - self._absent_ids
        if unknown_ids:
            self.list_again()
            self._absent_ids |= unknown_ids - set(self.ids.tolist())

    def decimal_name(self, log_id: int) -> int | None:
        """Return the id of the listed log whose name consists of the decimal digits of ``log_id``.

        Return None if there is no such log. The name of a log should be its id in hexadecimal. A bookie that
        finishes a transactional compaction when it starts uses decimal digits (bookkeeper #4804). It writes
        log 12 to 12.log, which is the name of log 18, and then looks for c.log.
        """
        decimal_id = int(str(log_id), 16)
        return decimal_id if decimal_id != log_id and decimal_id in self._paths else None

    def find_missing(self, log_ids: Longs, offsets: Longs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return two masks: the locations in a missing log, and the locations past their log's end."""
        if not len(self.ids):
            return np.ones(len(log_ids), np.bool_), np.zeros(len(log_ids), np.bool_)
        positions = np.minimum(np.searchsorted(self.ids, log_ids), len(self.ids) - 1)
        is_present = self.ids[positions] == log_ids
        return ~is_present, is_present & (offsets + RECORD_IDS > self.sizes[positions])

    def read_record(self, log_id: int, offset: int) -> tuple[int, int, int] | None:
        """Return size, ledger and entry of the record whose entry begins at ``offset``.

        Return None if the log ends before this record's ids.
        """
        with open_regular(self._paths[log_id]) as file:
            record_bytes = os.pread(file.fileno(), _RECORD_FORMAT.size, max(0, offset - 4))
        if len(record_bytes) < _RECORD_FORMAT.size:
            return None
        size, ledger_id, entry_id = _RECORD_FORMAT.unpack(record_bytes)
        return size, ledger_id, entry_id


def _file_size(path: str) -> int | None:
    """Return a log's size. None if a running bookie deleted it since it was listed."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return None

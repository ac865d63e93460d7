"""The entry logs of some ledger directories, by log id, and their sizes."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from auditor.codecs.bookie.length_prefixed import RECORD_ID_BYTES, Longs
from auditor.model.states import LogFileKind
from auditor.sources.bookies.entry_logs.rows import list_logs
from auditor.sources.regular_file import open_regular

_RECORD_FORMAT = struct.Struct(">iqq")


class LogPaths:
    """The paths of the logs in some directories, by log id. The constructor raises OSError."""

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
        """Return the path of a log, or None if the log does not exist."""
        return self._paths.get(log_id)


class LogSizes(LogPaths):
    """The ids and sizes of the logs in some directories.

    ``ids`` are in ascending order. ``sizes`` are in bytes, in the same order as ``ids``.
    """

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
        """List the directories again, and read the sizes of the logs again. Raises OSError."""
        self._paths = self._list_logs()
        self._measure_logs()

    def list_again_if_unknown(self, log_ids: Longs) -> None:
        """List the directories again if one of ``log_ids`` is new. Raises OSError.

        An id is new if its log is not listed and no earlier call searched for it. So a log that does not
        exist causes only one new listing.
        """
        if not self.has_directories:
            return
        unknown_ids = set(np.unique(log_ids).tolist()) - set(self.ids.tolist()) - self._absent_ids
        if unknown_ids:
            self.list_again()
            self._absent_ids |= unknown_ids - set(self.ids.tolist())

    def decimal_name(self, log_id: int) -> int | None:
        """Return the id of the listed log whose hexadecimal name equals ``log_id`` in decimal digits.

        Return None if there is no such log. The file name of a log should be its id in hexadecimal digits.
        But a bookie uses decimal digits if it finishes a transactional compaction at its start (bookkeeper
        #4804). For example, it writes log 12 to 12.log, which is the file name of log 18. Later it looks
        for log 12 in c.log.
        """
        decimal_id = int(str(log_id), 16)
        return decimal_id if decimal_id != log_id and decimal_id in self._paths else None

    def find_missing(self, log_ids: Longs, offsets: Longs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return two masks of locations: those in a missing log, and those beyond their log's end."""
        if not len(self.ids):
            return np.ones(len(log_ids), np.bool_), np.zeros(len(log_ids), np.bool_)
        positions = np.minimum(np.searchsorted(self.ids, log_ids), len(self.ids) - 1)
        is_present = self.ids[positions] == log_ids
        return ~is_present, is_present & (offsets + RECORD_ID_BYTES > self.sizes[positions])

    def read_record(self, log_id: int, offset: int) -> tuple[int, int, int] | None:
        """Return (size, ledger id, entry id) of the record whose entry begins at ``offset``.

        Return None if the log ends before the end of the record's ids.
        """
        with open_regular(self._paths[log_id]) as file:
            record_bytes = os.pread(file.fileno(), _RECORD_FORMAT.size, max(0, offset - 4))
        if len(record_bytes) < _RECORD_FORMAT.size:
            return None
        size, ledger_id, entry_id = _RECORD_FORMAT.unpack(record_bytes)
        return size, ledger_id, entry_id


def _file_size(path: str) -> int | None:
    """Return the size of a log. None if a running bookie deleted the log after it was listed."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return None

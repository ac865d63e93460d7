"""Reads index files in several threads: slower for files in the page cache, several times faster for others.

Threads do not share the work of Python, but they wait for the disk together. On two cores 20,000 cold files
took a quarter of the time with four threads, with eight no less; warm ones take about half as long again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from auditor.sources.index_batch import IndexBatch, IndexFile
from auditor.sources.index_reader import IndexReader

SLICE_FILES = 1024
"""Files a thread takes at once: enough for one pass of arithmetic, few enough to share out a small part."""


def read_files(files: Iterable[IndexFile], threads: int, want_mtime: bool) -> Iterator[IndexBatch]:
    """Read ``files`` in order; no more is taken ahead than two slices a thread."""
    if threads <= 1:
        yield from IndexReader(want_mtime).read(files)
        return
    own = threading.local()

    def read(taken: list[IndexFile]) -> list[IndexBatch]:
        if not hasattr(own, "reader"):
            own.reader = IndexReader(want_mtime)
        return list(own.reader.read(taken))

    rest = iter(files)
    waiting: deque[Future[list[IndexBatch]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        while taken := list(islice(rest, SLICE_FILES)):
            waiting.append(pool.submit(read, taken))
            if len(waiting) >= 2 * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()

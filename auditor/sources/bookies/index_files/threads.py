"""Reads index files in several threads: slower for files in the page cache, several times faster for others.

Threads do not share the work of Python, but they wait for the disk together. They also have the system fetch
files ahead of reading them, which helps as much: of 20,000 cold files `cat` took 2.5 s, four threads 1.2 s,
four that fetch ahead 0.8 s, and a single one that does 0.7 s. Threads alone help where to open a file waits
too, as over a network. In the page cache they cost half as much time again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from auditor.sources.bookies.index_files.batch import IndexBatch, IndexFiles
from auditor.sources.bookies.index_files.reader import IndexReader


def read_files(pieces: Iterable[IndexFiles], threads: int) -> Iterator[IndexBatch]:
    """Read files in order; no more is taken ahead than two pieces a thread."""
    if threads <= 1:
        yield from IndexReader().read(pieces)
        return
    own = threading.local()

    def read(files: IndexFiles) -> list[IndexBatch]:
        if not hasattr(own, "reader"):
            own.reader = IndexReader(ahead=True)
        return list(own.reader.read([files]))

    waiting: deque[Future[list[IndexBatch]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for files in pieces:
            waiting.append(pool.submit(read, files))
            if len(waiting) >= 2 * threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()

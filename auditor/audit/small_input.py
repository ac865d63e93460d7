"""Whether an audit is so small that Java should start for it as for a small program.

An audit of some ten thousand ledgers runs nearly all of the code of Java a few times only, to plan queries.
Its second compiler and a collector with threads of its own take a quarter of all processor time, for nothing.
It must be known before Java starts, so it is taken from the size of what was saved. Of a running store nobody
knows before it is asked: it counts as large.
"""

from __future__ import annotations

from pathlib import Path

from auditor.sources.metadata.uri import SAVED, MetadataUri

SMALL_BYTES = 8 << 20
"""Of saved metadata: some 12,000 ledgers of a dump, 30,000 of a snapshot, ten times that in a packed file."""


def is_small(uri: MetadataUri) -> bool:
    """Whether the metadata is saved in files that are small together; False where that cannot be seen.

    >>> from auditor.sources.metadata.uri import parse_metadata_uri
    >>> is_small(parse_metadata_uri("zk://127.0.0.1:2181/ledgers"))
    False
    """
    if uri.scheme not in SAVED:
        return False
    path = Path(uri.path)
    try:
        files = [path] if path.is_file() else list(path.iterdir())
        return sum(file.stat().st_size for file in files) <= SMALL_BYTES
    except OSError:
        return False

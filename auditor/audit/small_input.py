"""Whether an audit is so small that Java should start for it as for a small program.

An audit of some ten thousand ledgers runs nearly all of the code of Java a few times only, to plan queries.
Its second compiler and a collector with threads of its own take a quarter of all processor time, for nothing.
It must be known before Java starts, so it is taken from the size of what was saved, or asked of the running
store: a few hundred reads at most, whatever its size.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from auditor.errors import StoreError
from auditor.model.options import AuditOptions
from auditor.sources.metadata.layout import choose_layout
from auditor.sources.metadata.options import polite
from auditor.sources.metadata.stores import count_ledgers, open_store
from auditor.sources.metadata.uri import SAVED, MetadataUri

SMALL_BYTES = 8 << 20
"""Of saved metadata: some 12,000 ledgers of a dump, 30,000 of a snapshot, ten times that in a packed file."""

SMALL_LEDGERS = 30_000
"""Of a running store."""


def is_small(uri: MetadataUri, options: AuditOptions) -> bool:
    """Whether the metadata is small; False where that cannot be seen.

    Raises:
        UsageError, StoreError: a running store does not answer, or has another layout than the URI says.
    """
    return _is_saved_small(Path(uri.path)) if uri.scheme in SAVED else _runs_small(uri, options)


def _is_saved_small(path: Path) -> bool:
    try:
        files = [path] if path.is_file() else list(path.iterdir())
        return sum(file.stat().st_size for file in files) <= SMALL_BYTES
    except OSError:
        return False


def _runs_small(uri: MetadataUri, options: AuditOptions) -> bool:
    bounds = polite(options)
    with closing(open_store(uri, bounds)) as store:
        layout, _ = choose_layout(store, store.cluster())
    try:
        return count_ledgers(uri, layout, bounds).ledgers <= SMALL_LEDGERS
    except StoreError:
        return False  # it answered before: the scan begins anew where it must

"""reachability: ledgers that few or no bookies can serve now, because some of their members are down.

A copy is reachable if its bookie is registered and is not known to lack the entry. A ledger has a row only
if an unregistered member should have a copy. Entries without any copy are lost. Other tables report them.
"""

import pyarrow as pa

from auditor.model.columns import make_schema

REACHABILITY = make_schema(
    ("scope_id", pa.int64(), "BP-35 scope of the ledger; 0 in an unmodified BookKeeper"),
    ("ledger_id", pa.int64(), "the ledger"),
    (
        "reach",
        pa.string(),
        "unavailable: no registered bookie of the ensemble can serve some entry. unrecoverable: the "
        "ledger is not closed, and too few of its bookies are registered for recovery to close it. "
        "single-copy: only one registered bookie can serve some entry",
    ),
    (
        "entries",
        pa.int64(),
        "number of entries that at most one registered bookie can serve; 0 for the open end of a ledger",
    ),
    (
        "bookies",
        pa.list_(pa.string()),
        "unregistered bookies in the ensembles of the affected entries, sorted",
    ),
)

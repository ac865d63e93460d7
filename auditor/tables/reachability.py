"""reachability: ledgers that few or no bookies can serve now, because some of their members are down.

A copy is reachable if its bookie is registered and is not known to lack the entry. A ledger has a row only if
an unregistered member should have a copy. Entries without any copy are lost, and other tables report them.
"""

import pyarrow as pa

from auditor.model.columns import schema_of

REACHABILITY = schema_of(
    ("scope_id", pa.int64(), "BP-35 scope; 0 for every stock ledger"),
    ("ledger_id", pa.int64(), "the ledger"),
    (
        "reach",
        pa.string(),
        "unavailable: no registered member can serve an entry; unrecoverable: the ledger is not closed, and "
        "too few members are registered for recovery to close it; single-copy: one registered member at most "
        "can serve an entry",
    ),
    ("entries", pa.int64(), "number of such entries; 0 for the open end of a ledger"),
    ("bookies", pa.list_(pa.string()), "the members of these entries that are not registered, ascending"),
)

"""The metadata of many ledgers at once, column by column.

Building an object for every ledger and segment costs several times what reading the bytes does. Here each
field is one array over the whole batch, nested ones flat with counts beside them. Every row says what
`auditor.codecs.ledger_metadata.one` would; damage is a row, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.codecs.availability.groups import Longs
from auditor.codecs.ledger_metadata.message import DIGESTS, STATES
from auditor.model.ledger_metadata import BrokenRule

STATE_NAMES = (None, *(STATES[number].value for number in sorted(STATES)))
"""By the number that a message has; None of a ledger that could not be read."""

DIGEST_NAMES = (None, *(DIGESTS[number] for number in sorted(DIGESTS)))
"""By the number that a message has; None without a password."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """One item a row in every array but the flat ones, in the order of the values decoded.

    ``damage`` (reason, byte offset) and ``rules`` name the rows that have them. A damaged row has 0 or False
    in its scalars and nothing in the nested columns; a row that breaks rules keeps its values. ``state`` and
    ``digest_type`` are places in `STATE_NAMES` and `DIGEST_NAMES`; ``ctime`` is the metadata's own, in ms.

    Row i owns the next ``segment_counts[i]`` items of ``segment_firsts`` and ``member_counts``, and the next
    ``custom_counts[i]`` of ``custom_keys`` and ``custom_values``; each segment owns as many ``members`` as
    its member count says. Members are places in ``bookies``, keys in ``key_names``.
    """

    damage: dict[int, tuple[str, int]]
    rules: dict[int, tuple[BrokenRule, ...]]
    format: Longs
    ensemble_size: Longs
    write_quorum: Longs
    ack_quorum: Longs
    state: Longs
    length: Longs
    last_entry_id: Longs
    digest_type: Longs
    ctime: Longs
    has_ctime: Bools
    has_password: Bools
    segment_counts: Longs
    segment_firsts: Longs
    member_counts: Longs
    members: Longs
    bookies: list[str]
    custom_counts: Longs
    custom_keys: Longs
    key_names: list[str]
    custom_values: pa.BinaryArray


_SCALARS = (
    "format",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "state",
    "length",
    "last_entry_id",
    "digest_type",
    "ctime",
    "has_ctime",
    "has_password",
    "segment_counts",
    "custom_counts",
)


def woven(parts: Sequence[tuple[Longs, LedgerColumns]]) -> LedgerColumns:
    """Columns of all rows from columns of some, each with the places of its rows; every place is given once.

    The order within a row stays. Where one part has all rows in order, it is the answer.
    """
    parts = [part for part in parts if len(part[0])] or list(parts[:1])
    if len(parts) == 1:
        return parts[0][1]
    rows = [at for at, _ in parts]
    columns = [column for _, column in parts]
    place = np.argsort(np.concatenate(rows))
    scalars = {name: np.concatenate([getattr(each, name) for each in columns])[place] for name in _SCALARS}
    segment_rows = [np.repeat(at, each.segment_counts) for at, each in parts]
    segments = np.argsort(np.concatenate(segment_rows), kind="stable")
    member_rows = [
        np.repeat(at, each.member_counts) for at, (_, each) in zip(segment_rows, parts, strict=True)
    ]
    members = np.argsort(np.concatenate(member_rows), kind="stable")
    custom = np.argsort(np.concatenate([np.repeat(at, c.custom_counts) for at, c in parts]), kind="stable")
    bookie_at = np.cumsum([0, *(len(each.bookies) for each in columns)])
    key_at = np.cumsum([0, *(len(each.key_names) for each in columns)])
    values = pa.concat_arrays([each.custom_values for each in columns])
    return LedgerColumns(
        damage={int(at[row]): said for at, each in parts for row, said in each.damage.items()},
        rules={int(at[row]): said for at, each in parts for row, said in each.rules.items()},
        **scalars,
        segment_firsts=np.concatenate([each.segment_firsts for each in columns])[segments],
        member_counts=np.concatenate([each.member_counts for each in columns])[segments],
        members=np.concatenate([c.members + at for c, at in zip(columns, bookie_at, strict=False)])[members],
        bookies=[bookie for each in columns for bookie in each.bookies],
        custom_keys=np.concatenate([c.custom_keys + at for c, at in zip(columns, key_at, strict=False)])[
            custom
        ],
        key_names=[key for each in columns for key in each.key_names],
        custom_values=values.take(pa.array(custom)),
    )

"""Whose the ledgers are that something keeps: topics by cause, and of each cause the first ledgers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.decommission.trial import CAUSES
from auditor.model.columns import LEDGER
from auditor.model.decommission import Blocker, Cause, LedgerName, TopicCount
from auditor.runs.owners import NAMES, has_owners, owned
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

SAMPLES = 5
"""So many ledgers of each cause are named, those with the lowest ids."""
TOPICS = 10
"""So many topics of each cause are named, those with the most ledgers."""


def blockers_of(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> tuple[Blocker, ...]:
    """One blocker for each cause that ledgers have, the worst first; ``codes`` as `CAUSES` has them."""
    order = np.lexsort((ids[:, 1], ids[:, 0]))
    ids, codes = ids[order], codes[order]
    topics: dict[int, Counter[str]] = defaultdict(Counter)
    firsts = {code: ids[codes == code][:SAMPLES] for code in np.unique(codes).tolist()}
    wanted = {(int(scope), int(ledger)) for rows in firsts.values() for scope, ledger in rows}
    names: dict[tuple[int, int], str] = {}
    for table in _owned(run, ids, codes):
        counts = table.group_by(["code", "name"]).aggregate([([], "count_all")])
        for row in counts.to_pylist():
            topics[row["code"]][row["name"]] += row["count_all"]
        names |= _names_of(table, wanted)
    return tuple(
        Blocker(
            Cause(str(CAUSES[code])),
            int((codes == code).sum()),
            tuple(
                TopicCount(*each)
                for each in sorted(topics[code].items(), key=lambda each: (-each[1], each[0]))[:TOPICS]
            ),
            tuple(
                LedgerName(str(scope), str(ledger), names.get((scope, ledger)))
                for scope, ledger in rows.tolist()
            ),
        )
        for code, rows in sorted(firsts.items())
    )


def _owned(run: RunReader, ids: Longs, codes: NDArray[np.int8]) -> Iterator[pa.Table]:
    """Of the ledgers that have an owner: id, code, and the topic by its whole name."""
    import pyarrow.compute as pc

    if not len(ids) or not has_owners(run):
        return
    kept = pa.table({**{name: ids[:, at] for at, name in enumerate(LEDGER)}, "code": codes})
    for batch in run.batches("tables/ownership", [*LEDGER, *NAMES, "standing", "borrowed"]):
        concerned = pc.is_in(batch["ledger_id"], kept["ledger_id"].combine_chunks())
        some = batch.filter(pc.and_(owned(batch), concerned))
        name = pc.binary_join_element_wise(*(some[each] for each in NAMES), "/")
        table = pa.table({**{each: some[each] for each in LEDGER}, "name": name})
        yield table.filter(name.is_valid()).join(kept, [*LEDGER], join_type="inner")


def _names_of(table: pa.Table, wanted: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    import pyarrow.compute as pc

    some = table.filter(pc.is_in(table["ledger_id"], pa.array([ledger for _, ledger in wanted], pa.int64())))
    return {
        (row["scope_id"], row["ledger_id"]): row["name"]
        for row in some.to_pylist()
        if (row["scope_id"], row["ledger_id"]) in wanted
    }

"""Causes that prevent the removal of bookies, with the first ledgers and the topics of each cause."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.decommission.trial import CAUSE_BY_CODE, TrialSums
from auditor.model.columns import LEDGER
from auditor.model.decommission import (
    Blocker,
    Cause,
    LedgerName,
    TopicCount,
)
from auditor.runs.ledger_topics import topics_of
from auditor.runs.owners import NAME_COLUMNS, has_owners, owned_mask
from auditor.runs.reader import RunReader
from auditor.simulate.windows import Longs

MAX_NAMED_LEDGERS = 5
"""Largest number of ledgers that are named for each cause. They are the ledgers with the lowest ids."""


MAX_NAMED_TOPICS = 10
"""Largest number of topics that are named for each cause. They are the topics with the most ledgers."""


def ledger_blockers(run: RunReader, ids: Longs, cause_codes: NDArray[np.int8]) -> tuple[Blocker, ...]:
    """Return one `Blocker` for each cause that prevents ledgers from moving, the worst first.

    ``ids`` has a row for each ledger that cannot move. A row consists of the scope (the upper half of the
    128-bit id) and the ledger id. ``cause_codes`` has the cause for each of these ledgers, as an index into
    `CAUSE_BY_CODE`.
    """
    id_order = np.lexsort((ids[:, 1], ids[:, 0]))
    ids, cause_codes = ids[id_order], cause_codes[id_order]
    topics_by_code: dict[int, Counter[str]] = defaultdict(Counter)
    named_ledgers_by_code = {
        cause_code: ids[cause_codes == cause_code][:MAX_NAMED_LEDGERS]
        for cause_code in np.unique(cause_codes).tolist()
    }
    ledger_keys = {
        (int(scope_id), int(ledger_id))
        for named_ledger_ids in named_ledgers_by_code.values()
        for scope_id, ledger_id in named_ledger_ids
    }
    topic_by_ledger: dict[tuple[int, int], str] = {}
    for owned_ledgers in _owned_ledgers(run, ids, cause_codes):
        topic_ledger_counts = owned_ledgers.group_by(["code", "name"]).aggregate([([], "count_all")])
        for topic_row in topic_ledger_counts.to_pylist():
            topics_by_code[topic_row["code"]][topic_row["name"]] += topic_row["count_all"]
        topic_by_ledger |= _topic_names(owned_ledgers, ledger_keys)
    return tuple(
        Blocker(
            Cause(str(CAUSE_BY_CODE[cause_code])),
            int((cause_codes == cause_code).sum()),
            tuple(
                TopicCount(*topic_count)
                for topic_count in sorted(
                    topics_by_code[cause_code].items(),
                    key=lambda topic_and_count: (-topic_and_count[1], topic_and_count[0]),
                )[:MAX_NAMED_TOPICS]
            ),
            tuple(
                LedgerName(str(scope_id), str(ledger_id), topic_by_ledger.get((scope_id, ledger_id)))
                for scope_id, ledger_id in named_ledger_ids.tolist()
            ),
        )
        for cause_code, named_ledger_ids in sorted(named_ledgers_by_code.items())
    )


def _owned_ledgers(run: RunReader, ids: Longs, cause_codes: NDArray[np.int8]) -> Iterator[pa.Table]:
    """Yield the blocked ledgers that a topic owns. Columns: ids, code of the cause, topic's full name."""
    if not len(ids) or not has_owners(run):
        return
    blocked_rows = pa.table(
        {
            **{name: ids[:, key_column_number] for key_column_number, name in enumerate(LEDGER)},
            "code": cause_codes,
        }
    )
    for batch in run.batches("tables/ownership", [*LEDGER, *NAME_COLUMNS, "standing", "borrowed"]):
        has_blocked_id = pc.is_in(batch["ledger_id"], blocked_rows["ledger_id"].combine_chunks())
        ownership = batch.filter(pc.and_(owned_mask(batch), has_blocked_id))
        topic_names = pc.binary_join_element_wise(
            *(ownership[column_name] for column_name in NAME_COLUMNS), "/"
        )
        owned_ledgers = pa.table(
            {**{column_name: ownership[column_name] for column_name in LEDGER}, "name": topic_names}
        )
        yield owned_ledgers.filter(topic_names.is_valid()).join(blocked_rows, [*LEDGER], join_type="inner")


def _topic_names(owned_ledgers: pa.Table, ledger_keys: set[tuple[int, int]]) -> dict[tuple[int, int], str]:
    ledgers = owned_ledgers.filter(
        pc.is_in(
            owned_ledgers["ledger_id"], pa.array([ledger_id for _, ledger_id in ledger_keys], pa.int64())
        )
    )
    return {
        (row["scope_id"], row["ledger_id"]): row["name"]
        for row in ledgers.to_pylist()
        if (row["scope_id"], row["ledger_id"]) in ledger_keys
    }


def blocked_ledgers(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the ledgers that cannot move in a trial removal, each with its first cause and its topic.

    The rows are ordered by cause, then by ledger id. An unknown topic is null.
    """
    ids, cause_codes = trial.all_blocked_ledgers()
    segment_order = np.lexsort((ids[:, 1], ids[:, 0], cause_codes))
    ids, cause_codes = ids[segment_order], cause_codes[segment_order]
    cause_texts = pa.array([str(cause) if cause else "" for cause in CAUSE_BY_CODE], pa.string())
    cause_column = pa.DictionaryArray.from_arrays(pa.array(cause_codes, pa.int8()), cause_texts)
    columns = {
        "scope_id": ids[:, 0],
        "ledger_id": ids[:, 1],
        "cause": cause_column,
        "topic": topics_of(run, ids),
    }
    return pa.table(columns)


def blocked_topics(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the number of ledgers that cannot move in a trial removal, by cause and topic.

    The rows are ordered by cause, then by number of ledgers, largest first. An unknown topic is null.
    """
    ledgers = blocked_ledgers(run, trial)
    cause_and_topic_table = pa.table(
        {column_name: ledgers[column_name].cast(pa.string()) for column_name in ("cause", "topic")}
    )
    topic_counts = cause_and_topic_table.group_by(["cause", "topic"]).aggregate([([], "count_all")])
    topic_counts = topic_counts.rename_columns(["cause", "topic", "ledgers"])
    return topic_counts.sort_by([("cause", "ascending"), ("ledgers", "descending"), ("topic", "ascending")])


def blocked_table(table_name: str | None, run: RunReader, trial: TrialSums) -> pa.Table:
    """Return `blocked_topics` if ``table_name`` is ``topics``. Otherwise return `blocked_ledgers`."""
    return blocked_topics(run, trial) if table_name == "topics" else blocked_ledgers(run, trial)

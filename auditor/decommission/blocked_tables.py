"""Ledgers that block the removal of bookies, and their topics, as Arrow tables."""

import numpy as np
import pyarrow as pa

from auditor.decommission.trial import CAUSE_BY_CODE, TrialSums
from auditor.runs.ledger_topics import topics_of
from auditor.runs.reader import RunReader


def blocked_ledgers(run: RunReader, trial: TrialSums) -> pa.Table:
    """Return every blocked ledger with its first cause and its topic, ordered by cause and id."""
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
    """Return the number of blocked ledgers by cause and topic, largest first. An unknown topic is null."""
    ledgers = blocked_ledgers(run, trial)
    cause_and_topic_table = pa.table(
        {column_name: ledgers[column_name].cast(pa.string()) for column_name in ("cause", "topic")}
    )
    topic_counts = cause_and_topic_table.group_by(["cause", "topic"]).aggregate([([], "count_all")])
    topic_counts = topic_counts.rename_columns(["cause", "topic", "ledgers"])
    return topic_counts.sort_by([("cause", "ascending"), ("ledgers", "descending"), ("topic", "ascending")])


def blocked_table(table_name: str | None, run: RunReader, trial: TrialSums) -> pa.Table:
    """Return the table ``topics`` (`blocked_topics`), or for any other name `blocked_ledgers`."""
    return blocked_topics(run, trial) if table_name == "topics" else blocked_ledgers(run, trial)

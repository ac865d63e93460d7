"""The topics that own ledgers, from one pass over a run's table ``ownership``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from auditor.runs.owners import NAME_COLUMNS, has_owners, owned_mask
from auditor.runs.reader import RunReader

_NO_TOPIC = -1


def topics_of(run: RunReader, ledger_keys: NDArray[np.int64]) -> pa.DictionaryArray:
    """Return the topic of each ledger as tenant/namespace/topic. Null if no owner is known.

    One number for each ledger is in memory, and the name of each topic once.

    Args:
        run: A finished run. All topics are null if the run did not read owners.
        ledger_keys: Scope and id of each ledger, as an array of shape (n, 2). The scope is the upper half
            of a 128-bit id. Pulsar's ids have 64 bits, so only ledgers of scope 0 can have a topic.
    """
    topic_codes = np.full(len(ledger_keys), _NO_TOPIC, np.int32)
    numbers_by_topic: dict[str, int] = {}
    scope_id = ledger_keys[:, 0]
    scope_zero_rows = np.flatnonzero(scope_id == 0)
    scope_zero_rows = scope_zero_rows[np.argsort(ledger_keys[scope_zero_rows, 1], kind="stable")]
    ledgers = ledger_keys[scope_zero_rows, 1]
    if len(ledgers) and has_owners(run):
        for batch in run.batches("tables/ownership", ["ledger_id", *NAME_COLUMNS, "standing", "borrowed"]):
            owned_rows = batch.filter(pc.and_(owned_mask(batch), batch["ledger_id"].is_valid()))
            ledger_positions = np.searchsorted(
                ledgers, owned_rows["ledger_id"].to_numpy(zero_copy_only=False)
            )
            ledger_positions = np.minimum(ledger_positions, len(ledgers) - 1)
            is_owned = ledgers[ledger_positions] == owned_rows["ledger_id"].to_numpy(zero_copy_only=False)
            names = _topic_names(owned_rows.filter(pa.array(is_owned)))
            batch_topic_numbers = [
                numbers_by_topic.setdefault(name, len(numbers_by_topic))
                for name in names.dictionary.to_pylist()
            ]
            ledger_topic_numbers = np.array(batch_topic_numbers, np.int32)[
                names.indices.to_numpy(zero_copy_only=False)
            ]
            topic_codes[scope_zero_rows[ledger_positions[is_owned]]] = ledger_topic_numbers
    topic_indices = pa.array(topic_codes, pa.int32(), mask=topic_codes == _NO_TOPIC)
    return pa.DictionaryArray.from_arrays(topic_indices, pa.array(list(numbers_by_topic), pa.string()))


def _topic_names(ownership: pa.RecordBatch) -> pa.DictionaryArray:
    """Return the name of the owner in each row, as tenant/namespace/topic. Unknown parts are left out."""
    name_columns = [ownership[name] for name in NAME_COLUMNS]
    topic_names = pc.binary_join_element_wise(*name_columns, "/", null_handling="skip")
    return topic_names.dictionary_encode()

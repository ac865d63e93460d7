"""Complete results of a simulation as Arrow tables: every ledger, owner and single failure."""

from collections.abc import Sequence
from dataclasses import asdict, fields

import pyarrow as pa

from auditor.errors import RunUsageError, UsageError
from auditor.model.simulation import OwnerLoss, Simulation
from auditor.runs.ledger_topics import topics_of
from auditor.runs.reader import RunReader
from auditor.simulate.simulation import FATE_TEXT_BY_LOSS, FailureAnswer

FAILURE_TABLES = ("ledgers", "topics", "namespaces")
"""Names of the tables of one failure. The first is the default."""

ALL_FAILURES_TABLE = "failures"
"""Name of the table of all single failures."""

TABLES = (*FAILURE_TABLES, ALL_FAILURES_TABLE)


def ledgers_table(run: RunReader, failure_answer: FailureAnswer) -> pa.Table:
    """Return each ledger that a failure affects, with its loss and its topic. An unknown topic is null.

    The column ``fate`` is "lost", "unrecoverable" or both (`FATE_TEXT_BY_LOSS`).
    """
    loss_rows = failure_answer.ledgers
    fate_texts = [
        FATE_TEXT_BY_LOSS[is_lost, unrecoverable] for is_lost, unrecoverable in loss_rows[:, [2, 5]].tolist()
    ]
    return pa.table(
        {
            "scope_id": loss_rows[:, 0],
            "ledger_id": loss_rows[:, 1],
            "fate": pa.array(fate_texts, pa.string()),
            "entries": loss_rows[:, 3],
            "bytes": loss_rows[:, 4],
            "topic": topics_of(run, loss_rows[:, :2]),
        }
    )


def owners_table(owners: Sequence[OwnerLoss] | None) -> pa.Table:
    """Return the loss of each namespace or topic.

    The row with an empty name has the loss of ledgers without an owner.

    Raises:
        RunUsageError: the run read no owners.
    """
    if owners is None:
        raise RunUsageError("this run read no owners: audit with --owners")
    column_names = [dataclass_field.name for dataclass_field in fields(OwnerLoss)]
    type_by_column = {"name": pa.string()}
    columns = {
        column_name: pa.array(
            [getattr(owner, column_name) for owner in owners], type_by_column.get(column_name, pa.int64())
        )
        for column_name in column_names
    }
    return pa.table(columns)


def failures_table(simulation: Simulation) -> pa.Table:
    """Return every single failure of every level, with its losses.

    Columns without a prefix have certain losses according to the indexes. Columns with the prefix
    ``possible_`` have possible losses according to the indexes. Columns with the prefix ``promised_`` have
    certain losses if all copies in the metadata exist.
    """
    single_failures = [failure for level in simulation.levels for failure in level.singles]
    failure_rows = []
    for failure in single_failures:
        failure_row: dict[str, str | int] = {
            "level": failure.level,
            "name": failure.names[0],
            "bookies": failure.bookies,
        }
        for column_prefix, outcome in (
            ("", failure.today.sure),
            ("possible_", failure.today.possible),
            ("promised_", failure.promise.sure),
        ):
            failure_row |= {
                f"{column_prefix}lost_{amount_name}": loss_amount
                for amount_name, loss_amount in asdict(outcome.lost).items()
            }
            failure_row[f"{column_prefix}below_ack_quorum"] = outcome.below_ack.ledgers
            failure_row[f"{column_prefix}below_write_quorum"] = outcome.below_write.ledgers
            failure_row[f"{column_prefix}unrecoverable"] = outcome.unrecoverable
        failure_rows.append(failure_row)
    if not failure_rows:
        raise UsageError(f"--table {ALL_FAILURES_TABLE}: the run has no bookie")
    return pa.Table.from_pylist(failure_rows)


def simulation_table(
    table_name: str | None, run: RunReader, failure_answer: FailureAnswer | None, simulation: Simulation
) -> pa.Table:
    """Return the table ``table_name``.

    None stands for the ledgers of ``failure_answer``, or for all single failures if there is no such
    answer.

    Raises:
        UsageError: the table is about one failure, but ``failure_answer`` is None.
        RunUsageError: the run read no owners.
    """
    if table_name == ALL_FAILURES_TABLE or (table_name is None and failure_answer is None):
        return failures_table(simulation)
    if failure_answer is None:
        raise UsageError(f"--table {table_name}: select a failure with --lose or --any")
    if table_name == "topics":
        return owners_table(failure_answer.topics)
    if table_name == "namespaces":
        return owners_table(failure_answer.namespaces)
    return ledgers_table(run, failure_answer)

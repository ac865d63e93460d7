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


def ledgers_table(run: RunReader, answer: FailureAnswer) -> pa.Table:
    """Return each ledger that a failure affects, with its loss and its topic. An unknown topic is null.

    The column ``fate`` is "lost", "unrecoverable" or both (`FATE_TEXT_BY_LOSS`).
    """
    affected_rows = answer.ledgers
    fates = [
        FATE_TEXT_BY_LOSS[is_lost, unrecoverable]
        for is_lost, unrecoverable in affected_rows[:, [2, 5]].tolist()
    ]
    return pa.table(
        {
            "scope_id": affected_rows[:, 0],
            "ledger_id": affected_rows[:, 1],
            "fate": pa.array(fates, pa.string()),
            "entries": affected_rows[:, 3],
            "bytes": affected_rows[:, 4],
            "topic": topics_of(run, affected_rows[:, :2]),
        }
    )


def owners_table(owners: Sequence[OwnerLoss] | None) -> pa.Table:
    """Return the loss of each namespace or topic. The row with an empty name has ledgers without an owner.

    Raises:
        RunUsageError: the run read no owners.
    """
    if owners is None:
        raise RunUsageError("this run read no owners: audit with --owners")
    names = [dataclass_field.name for dataclass_field in fields(OwnerLoss)]
    type_by_column = {"name": pa.string()}
    columns = {
        name: pa.array([getattr(owner, name) for owner in owners], type_by_column.get(name, pa.int64()))
        for name in names
    }
    return pa.table(columns)


def failures_table(simulation: Simulation) -> pa.Table:
    """Return every single failure of every level, with its losses.

    Columns without a prefix have certain losses by index. The prefix ``possible_`` is for possible losses by
    index, ``promised_`` for certain losses if all copies of the metadata exist.
    """
    single_failures = [failure for level in simulation.levels for failure in level.singles]
    affected_rows = []
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
                f"{column_prefix}lost_{name}": loss_amount
                for name, loss_amount in asdict(outcome.lost).items()
            }
            failure_row[f"{column_prefix}below_ack_quorum"] = outcome.below_ack.ledgers
            failure_row[f"{column_prefix}below_write_quorum"] = outcome.below_write.ledgers
            failure_row[f"{column_prefix}unrecoverable"] = outcome.unrecoverable
        affected_rows.append(failure_row)
    if not affected_rows:
        raise UsageError(f"--table {ALL_FAILURES_TABLE}: the run has no bookie")
    return pa.Table.from_pylist(affected_rows)


def simulation_table(
    name: str | None, run: RunReader, answer: FailureAnswer | None, simulation: Simulation
) -> pa.Table:
    """Return the table ``name``. If it is None, return the ledgers of ``answer``, or all single failures.

    Raises:
        UsageError: the table is of one failure, but ``answer`` is None.
        RunUsageError: the run read no owners.
    """
    if name == ALL_FAILURES_TABLE or (name is None and answer is None):
        return failures_table(simulation)
    if answer is None:
        raise UsageError(f"--table {name}: select a failure with --lose or --any")
    if name == "topics":
        return owners_table(answer.topics)
    if name == "namespaces":
        return owners_table(answer.namespaces)
    return ledgers_table(run, answer)

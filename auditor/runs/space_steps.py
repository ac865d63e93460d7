"""Steps that free space on the disks of a run's bookies, and the refused steps.

The steps come from findings about entry logs, and from the bytes of each bookie by class. The module sums the
bytes batch by batch. Memory grows with the number of groups for which there is a sum, not with the number of
rows. `auditor.actions.gate` decides on each step. A step is refused if a hold (a rule that forbids actions)
forbids it, or if its finding is unconfirmed.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from auditor.actions.commands import collect_garbage_command, compaction_command
from auditor.actions.gate import permit
from auditor.actions.objects import bookie
from auditor.model.amounts import plural
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence
from auditor.model.holds import ActionKind
from auditor.model.permission import Allowed, Permission, Refused
from auditor.model.space import NO_BOOKIE_NAME, RefusedSpace, SpaceStep
from auditor.model.states import SpaceClass
from auditor.runs.owners import UNOWNED_CHECK
from auditor.runs.reader import RunReader

MERGE_ROWS = 500_000
"""Number of rows of partial sums above which they are merged."""


class GroupedBytes:
    """Sums of the column ``bytes`` for each combination of values in the columns ``keys``.

    >>> import pyarrow as pa
    >>> sums = GroupedBytes(["name"])
    >>> sums.add(pa.table({"name": ["a", "b", "a"], "bytes": [1, 2, 3]}))
    >>> sorted(sums.table().to_pydict().items())
    [('bytes', [4, 2]), ('name', ['a', 'b'])]
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._key_columns = list(keys)
        self._partial_sums: list[pa.Table] = []
        self._partial_row_count = 0
        self._merge_limit = MERGE_ROWS

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows with the key columns and ``bytes``."""
        batch_sums = self._sum_groups(pa.table(rows))
        self._partial_sums.append(batch_sums)
        self._partial_row_count += batch_sums.num_rows
        if self._partial_row_count > self._merge_limit:
            merged_table = self.table()
            self._partial_sums, self._partial_row_count = [merged_table], merged_table.num_rows
            self._merge_limit = max(MERGE_ROWS, 2 * merged_table.num_rows)

    def table(self) -> pa.Table:
        """Return one row for each group with its ``bytes``, in order of first appearance."""
        if not self._partial_sums:
            return pa.table({name: [] for name in (*self._key_columns, "bytes")})
        return self._sum_groups(pa.concat_tables(self._partial_sums))

    def _sum_groups(self, rows: pa.Table) -> pa.Table:
        # One thread: the order of the groups is that of the rows.
        grouped_rows = rows.group_by(self._key_columns, use_threads=False).aggregate([("bytes", "sum")])
        return grouped_rows.rename_columns({"bytes_sum": "bytes"})


class LeakedBytes(NamedTuple):
    """One bookie's ledgers without an owner: their number and bytes, and how many of them are confirmed."""

    ledgers: int
    bytes: int
    confirmed_ledgers: int


def leaked_bytes(run: RunReader) -> dict[str, LeakedBytes]:
    """Return the bytes of ledgers without an owner, by bookie.

    Findings of the check ``ledger-unowned`` name these ledgers. The result is empty if there are none, or
    if the run read no owners. One row for each ledger and bookie is in memory.

    Raises:
        RunError: a table of the run is broken.
    """
    rows = _leaked_rows(run)
    if rows is None:
        return {}
    is_confirmed = pc.cast(pc.equal(rows["confidence"], str(Confidence.CONFIRMED)), pa.int64())
    grouped_rows = rows.append_column("sure", is_confirmed).group_by("bookie_id")
    bookie_totals = grouped_rows.aggregate(
        [("bytes", "sum"), ("bytes", "count"), ("sure", "sum")]
    ).to_pylist()
    return {
        row["bookie_id"]: LeakedBytes(row["bytes_count"], row["bytes_sum"], row["sure_sum"])
        for row in bookie_totals
    }


def _leaked_rows(run: RunReader) -> pa.Table | None:
    """Return the bytes of each ledger without an owner on each bookie, with the confidence of its finding.

    None if there are no such bytes.
    """
    leaked_ledgers = _leaked_ledgers(run)
    if not leaked_ledgers.num_rows:
        return None
    leaked_ids = leaked_ledgers["ledger_id"].combine_chunks()
    bytes_by_replica = GroupedBytes(["bookie_id", *LEDGER])
    is_ledger_on_bookie = ds.field("bookie_id").is_valid() & ds.field("ledger_id").is_valid()
    for batch in run.batches("tables/space", ["bookie_id", *LEDGER, "bytes"], is_ledger_on_bookie):
        leaked_rows = batch.filter(pc.is_in(batch["ledger_id"], value_set=leaked_ids))
        if len(leaked_rows):
            bytes_by_replica.add(leaked_rows)
    bookie_totals = bytes_by_replica.table()
    return (
        bookie_totals.join(leaked_ledgers, [*LEDGER], join_type="inner") if bookie_totals.num_rows else None
    )


def _leaked_ledgers(run: RunReader) -> pa.Table:
    """Return scope, id and confidence of each ledger without an owner."""
    columns = [*LEDGER, "confidence"]
    batches = list(run.batches("findings", columns, ds.field("id") == UNOWNED_CHECK))
    leak_schema = pa.schema([*((name, pa.int64()) for name in LEDGER), ("confidence", pa.string())])
    return pa.Table.from_batches(batches) if batches else leak_schema.empty_table()


HTTP_PORT = 8080
"""Port of a bookie's HTTP server by default (``httpServerPort``)."""

RECLAIMABLE_CHECK, PINNED_CHECK = "entry-log-reclaimable", "entry-log-pinned"

_DELETION_RISK = "danger; deleted entry logs cannot be restored"
_UNOWNED_NOTE = (
    "no risk; the command only reads the run. Deleting a ledger is dangerous: it cannot be "
    "restored, and an owner that refers to it cannot open it"
)
_REWRITE_RISK = (
    "danger; the command first collects garbage, which cannot be restored, then rewrites "
    "logs; this needs free space for their remaining entries"
)
_THRESHOLD_RISK = (
    "danger; garbage collection runs before compaction; a higher threshold rewrites more bytes per freed byte"
)
_UNCONFIRMED_NOTE = "the finding is unconfirmed, and a deletion needs proof"

Steps = Iterator[SpaceStep | RefusedSpace]


def space_steps(
    run: RunReader, bytes_by_bookie: Mapping[str, Mapping[str, int]]
) -> tuple[tuple[SpaceStep, ...], tuple[RefusedSpace, ...]]:
    """Return the permitted steps that free space, and the refused ones.

    Both are sorted by bookie. For each bookie, the step that frees the most bytes comes first.

    Args:
        run: The run, which must have read entry logs.
        bytes_by_bookie: The bytes of each bookie by class.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    host_ports = _host_ports(run)
    steps: list[SpaceStep | RefusedSpace] = []
    for row in _findings_by_id(run, {RECLAIMABLE_CHECK, PINNED_CHECK}):
        url = gc_url(row["bookie_id"], host_ports.get(row["bookie_id"]))
        steps += _steps_of_finding(run, row, url)
    steps += _steps_of_over_replicated(run, bytes_by_bookie)
    steps += _steps_of_leaks(run)
    steps.sort(key=lambda step: (step.bookie_id, -step.bytes, step.what))
    return (
        tuple(step for step in steps if isinstance(step, SpaceStep)),
        tuple(step for step in steps if isinstance(step, RefusedSpace)),
    )


def _make_step(
    step_permission: Permission,
    bookie_id: str,
    bytes: int,
    description: str,
    risk: str,
    make_command: Callable[[Allowed], str] | None = None,
) -> SpaceStep | RefusedSpace:
    """Return a step, or a refusal if ``step_permission`` (the gate's decision) is not a permission.

    ``make_command`` makes the step's command from the permission. None: the step has no command.
    """
    if isinstance(step_permission, Refused):
        hold_reasons = tuple(dict.fromkeys(hold.reason for hold in step_permission.holds))
        return RefusedSpace(
            bookie_id,
            bytes,
            description,
            step_permission.kind,
            step_permission.sentence,
            step_permission.way_out,
            hold_reasons,
        )
    return SpaceStep(
        bookie_id,
        bytes,
        description,
        make_command(step_permission) if make_command else None,
        risk,
        step_permission,
    )


def gc_url(bookie_id: str, endpoint: tuple[str, int] | None = None) -> str:
    """Return the URL of a bookie's HTTP API for garbage collection.

    ``endpoint`` is the host and the HTTP port that the bookie registered. None: guess them from the id.

    >>> gc_url("bk1.example:3181"), gc_url("custom-id")
    ('http://bk1.example:8080/api/v1/bookie/gc', 'http://HOST:8080/api/v1/bookie/gc')
    """
    host, _, port = bookie_id.rpartition(":")
    if endpoint is not None:
        host, http_port = endpoint
    else:
        host, http_port = (host, HTTP_PORT) if host and port.isdigit() else ("HOST", HTTP_PORT)
    return f"http://{host}:{http_port}/api/v1/bookie/gc"


def _steps_of_finding(run: RunReader, finding: Mapping[str, Any], url: str) -> Steps:
    bookie_id, evidence = finding["bookie_id"], json.loads(finding["evidence"])
    action_kind = ActionKind.COLLECT if finding["id"] == RECLAIMABLE_CHECK else ActionKind.COMPACT
    permission = permit(run, action_kind, [bookie(bookie_id)])
    if isinstance(permission, Allowed) and finding["confidence"] != Confidence.CONFIRMED:
        permission = Refused(action_kind, permission.objects, reason=_UNCONFIRMED_NOTE)
    if action_kind is ActionKind.COLLECT:
        description = f"garbage collection deletes {evidence['logs']:,} entry logs in which no ledger is left"
        yield _make_step(
            permission,
            bookie_id,
            evidence["bytes"],
            description,
            _DELETION_RISK,
            lambda step_permission: collect_garbage_command(step_permission, url),
        )
        return
    minor_percent, major_percent = (round(100 * evidence[f"{name}_threshold"]) for name in ("minor", "major"))
    unowned_clause = (
        f"compaction never rewrites entry logs in which {major_percent} % or more of the bytes are needed; "
        "a higher majorCompactionThreshold in the bookie's configuration changes that after its next start"
    )
    compaction_clause = "compaction rewrites entry logs in which"
    for name, description, make_command, risk in (
        (
            "minor",
            f"minor {compaction_clause} less than {minor_percent} % of the bytes are needed",
            lambda step_permission: compaction_command(step_permission, url, is_major=False),
            _REWRITE_RISK,
        ),
        (
            "major",
            f"major {compaction_clause} {minor_percent} to {major_percent} % of the bytes are needed",
            lambda step_permission: compaction_command(step_permission, url, is_major=True),
            _REWRITE_RISK,
        ),
        ("stranded", unowned_clause, None, _THRESHOLD_RISK),
    ):
        if freed_bytes := evidence[f"{name}_bytes"]:
            yield _make_step(permission, bookie_id, freed_bytes, description, risk, make_command)


def _steps_of_over_replicated(run: RunReader, bytes_by_bookie: Mapping[str, Mapping[str, int]]) -> Steps:
    description = (
        "after a day of uptime, the bookie's garbage collection removes ledgers whose ensembles do not "
        "include the bookie (gcOverreplicatedLedgerWaitTime); compaction then frees their bytes"
    )
    for name, bytes_by_class in bytes_by_bookie.items():
        if (freed_bytes := bytes_by_class.get(SpaceClass.OVER_REPLICATED, 0)) and name != NO_BOOKIE_NAME:
            yield _make_step(
                permit(run, ActionKind.COLLECT, [bookie(name)]),
                name,
                freed_bytes,
                description,
                _DELETION_RISK,
            )


def _steps_of_leaks(run: RunReader) -> Steps:
    """Yield steps for ledgers without an owner.

    After such ledgers are deleted, compaction frees their bytes.
    """
    rows = _leaked_rows(run)
    if rows is None:
        return
    make_command = f"bkaudit report {shlex.quote(run.path)} --leaks"
    delete_permission = permit(run, ActionKind.DELETE_LEDGER, [])
    held_ledgers = run.holds.ledgers_on_hold(ActionKind.DELETE_LEDGER)
    rows = rows.join(held_ledgers, [*LEDGER], join_type="left outer")
    is_confirmed = pc.equal(rows["confidence"], str(Confidence.CONFIRMED))
    # A ledger that is held counts as held, whether its finding is confirmed or not.
    is_unconfirmed = pc.and_(pc.is_null(rows["why"]), pc.invert(is_confirmed))
    reasons_column = pc.if_else(is_unconfirmed, pa.scalar(_UNCONFIRMED_NOTE), rows["why"])
    rows = rows.set_column(rows.schema.get_field_index("why"), "why", reasons_column)
    grouped_rows = rows.group_by(["bookie_id", "why"], use_threads=False)
    for row in grouped_rows.aggregate([("bytes", "sum"), ("bytes", "count")]).to_pylist():
        step_permission = delete_permission
        if row["why"] is not None and isinstance(delete_permission, Allowed):
            step_permission = Refused(ActionKind.DELETE_LEDGER, (), reason=row["why"])
        description = (
            f"{plural(row['bytes_count'], 'ledger has', 'ledgers have')} no owner (ledger-unowned): see the "
            "list; once they are deleted, garbage collection and compaction free their bytes"
        )
        yield _make_step(
            step_permission,
            row["bookie_id"],
            row["bytes_sum"],
            description,
            _UNOWNED_NOTE,
            lambda _: make_command,
        )


def _findings_by_id(run: RunReader, check_ids: set[str] | frozenset[str]) -> Iterator[dict[str, Any]]:
    columns = ["id", "bookie_id", "confidence", "evidence"]
    for batch in run.batches("findings", columns, ds.field("id").isin(sorted(check_ids))):
        yield from batch.to_pylist()


def _host_ports(run: RunReader) -> dict[str, tuple[str, int]]:
    """Return the host and the HTTP port of each bookie whose registration has both, by bookie id."""
    rows = run.table("registrations", ["bookie_id", "endpoints", "host", "used"]).to_pylist()
    return {
        row["bookie_id"]: (row["host"], endpoint_row["port"])
        for row in rows
        if row["used"] and row["host"]
        for endpoint_row in row["endpoints"] or ()
        if endpoint_row["protocol"] == "http" and endpoint_row["port"]
    }

"""A finished run, opened without Spark.

The report is read when the run is opened. Findings, tables and placement are read on demand. Runs may be on
any file system that pyarrow supports. For a local run, a plain path is enough.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from auditor.actions.gate import HoldBook
from auditor.errors import RunError, RunUsageError, UsageError
from auditor.model.arrow import ds, pa, pc
from auditor.model.finding import Confidence, Finding, Group, Missing, Severity, Urgency
from auditor.model.holds import ActionKind
from auditor.model.json_shape import parse_json
from auditor.model.placement import Locations, PlacementSettings
from auditor.model.report import Report
from auditor.model.run_facts import REPORT
from auditor.model.source_scope import SourceScope, newest_as_of, oldest_as_of
from auditor.runs.directory import RunDirectory, damage_error
from auditor.runs.newest import newest_report
from auditor.sources.clock import now_ms

_BP34_GROUP_STRUCT = struct.Struct(">qqii")


def group_tuples(group_bytes: bytes) -> tuple[Group, ...]:
    """Return the 24-byte BP-34 groups of a table as tuples: first start, last start, size, period.

    >>> group_tuples(bytes(7) + b"\\x04" + bytes(7) + b"\\x04" + bytes(3) + b"\\x01" + bytes(4))
    ((4, 4, 1, 0),)
    """
    return tuple(
        (first_start, last_start, size, period)
        for first_start, last_start, size, period in _BP34_GROUP_STRUCT.iter_unpack(group_bytes)
    )


def finding_of(row: Mapping[str, Any]) -> Finding:
    """Return a finding from a row of the table of findings. Spark or Arrow may have read the row."""
    return Finding(
        id=row["id"],
        severity=Severity(row["severity"]),
        confidence=Confidence(row["confidence"]),
        scope_id=row["scope_id"],
        ledger_id=row["ledger_id"],
        bookie_id=row["bookie_id"],
        missing=tuple(
            Missing(missing_row["bookie_id"], group_tuples(missing_row["groups"]), missing_row["count"])
            for missing_row in row["missing"]
        ),
        unknown=tuple(row["unknown"]),
        message=row["message"],
        evidence=parse_json(row["evidence"]),
        fingerprint=row["fingerprint"],
        # An older run's table has none of these.
        urgency=Urgency(row.get("urgency") or Urgency.NOT_URGENT),
        cause=row.get("cause"),
    )


class Findings:
    """Every finding of a run, in the order that reports use.

    Each iteration reads the table again, batch by batch. Ten million findings need no more memory than ten.

    Raises:
        RunError: while iterating, if the table is missing, broken or out of order.
    """

    def __init__(self, tables: RunDirectory, report: Report) -> None:
        self._tables = tables
        self._report = report

    def __len__(self) -> int:
        """Return the number of findings from the report, without reading a table."""
        return sum(self._report.counts.values())

    def __repr__(self) -> str:
        counts: Counter[str] = Counter()
        for finding_count in self._report.run.tally:
            counts[finding_count["severity"]] += finding_count["count"]
        summary = ", ".join(f"{counts[severity]:,} {severity}" for severity in Severity if counts[severity])
        return f"<findings of {self._tables.path}: {summary or 'none'}; iterate to read them>"

    def _repr_html_(self) -> str:
        from auditor.reports.cells import findings_cell

        return findings_cell(self._report)

    def __iter__(self) -> Iterator[Finding]:
        path = f"{self._tables.path}/findings"
        current_check_group: tuple[int, int, str] = (-1, -1, "")
        previous_key: tuple[Any, ...] = ()
        finished_check_groups: set[tuple[int, int, str]] = set()
        for batch in self._tables.batches("findings"):
            for row in batch.to_pylist():
                try:
                    finding = finding_of(row)
                except (KeyError, ValueError, TypeError) as error:
                    raise RunError(f"{path}: a row cannot be read: {error}") from error
                check_group, sort_key = (
                    (finding.urgency.rank, finding.severity.rank, finding.id),
                    _sort_key(finding),
                )
                # Another version may have had the checks of one rank in another order.
                is_repeated = (
                    sort_key < previous_key
                    if check_group == current_check_group
                    else check_group in finished_check_groups or check_group[:2] < current_check_group[:2]
                )
                if is_repeated:
                    raise RunError(f"{path}: {finding.id} is out of order; was a file renamed?")
                finished_check_groups.add(check_group)
                current_check_group, previous_key = check_group, sort_key
                yield finding


_SUMMARY_COLUMNS = [
    "id",
    "urgency",
    "severity",
    "confidence",
    "scope_id",
    "ledger_id",
    "fingerprint",
    "message",
]


def _sort_key(finding: Finding) -> tuple[Any, ...]:
    ledger_key = (finding.scope_id, finding.ledger_id)
    # As Spark sorts: what is not there comes first.
    id_sort_keys = tuple((id_number is not None, id_number or 0) for id_number in ledger_key)
    return *id_sort_keys, (finding.bookie_id is not None, finding.bookie_id or "")


class RunReader:
    """The results of one audit. The report is read immediately, everything else on demand.

    Raises:
        RunError: from any method, if a part of the run is missing or broken. The message names the part.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.directory = RunDirectory(self.path)
        self.report = self._read_report()

    @property
    def findings(self) -> Findings:
        """Return every finding, in the order that reports use. Each iteration reads the table again."""
        return Findings(self.directory, self.report)

    def findings_of(self, bookie_id: str) -> Iterator[dict[str, Any]]:
        """Yield findings about a bookie, and findings about entries that the bookie lacks or may lack.

        Rows have id, urgency, severity, confidence, scope_id, ledger_id, fingerprint, message and
        ``missing``, the number of entries that this bookie lacks. The rows are in the order of the findings.
        One batch is in memory. Rows of runs whose report has a version below 6 have no urgency.
        """
        import numpy as np

        summary_columns = [
            name for name in _SUMMARY_COLUMNS if name in self.directory.dataset("findings").schema.names
        ]
        for batch in self.directory.batches(
            "findings", [*summary_columns, "bookie_id", "missing", "unknown"]
        ):
            is_about_bookie = pc.fill_null(pc.equal(batch["bookie_id"], bookie_id), False)
            is_finding_about_bookie = is_about_bookie.to_numpy(zero_copy_only=False)
            missing_counts = np.zeros(len(batch), np.int64)
            missing_rows = pc.list_flatten(batch["missing"])
            is_missing_on_bookie = pc.equal(pc.struct_field(missing_rows, "bookie_id"), bookie_id)
            rows = pc.list_parent_indices(batch["missing"]).filter(is_missing_on_bookie).to_numpy()
            np.add.at(
                missing_counts,
                rows,
                pc.struct_field(missing_rows, "count").filter(is_missing_on_bookie).to_numpy(),
            )
            is_finding_about_bookie[rows] = True
            is_unknown_on_bookie = pc.equal(pc.list_flatten(batch["unknown"]), bookie_id)
            is_finding_about_bookie[
                pc.list_parent_indices(batch["unknown"]).filter(is_unknown_on_bookie).to_numpy()
            ] = True
            summary_rows = batch.select(summary_columns).append_column("missing", pa.array(missing_counts))
            yield from summary_rows.filter(pa.array(is_finding_about_bookie)).to_pylist()

    def table(
        self, name: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> pa.Table:
        """Return the chosen columns and rows of one table as a pyarrow Table.

        The whole result is in memory. For a whole table of a large cluster use `batches`.

        Args:
            name: Name of the table.
            columns: Columns to read. None: all columns.
            filter: Condition for rows, a pyarrow.dataset expression. None: all rows.
        """
        return self.directory.read(f"tables/{name}", columns, filter)

    def batches(
        self, table_path: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield ``findings`` or ``tables/NAME`` as pyarrow RecordBatches, in the order of the rows.

        One batch is in memory at a time. Use this method for tables that grow with the cluster. ``columns``
        and ``filter`` are the same as for `table`.
        """
        return self.directory.batches(table_path, columns, filter)

    def table_names(self) -> list[str]:
        """Return the names of the run's tables."""
        return [name for name in self.directory.names("tables") if not name.startswith(("_", "."))]

    @cached_property
    def holds(self) -> HoldBook:
        """Return the run's holds (rules that forbid actions). `auditor.actions.gate.permit` queries them."""
        hold_facts, kinds_without_hold_checks = (
            self.report.run.holds,
            self.report.run.checks_with_missing_holds,
        )
        checks_by_kind: Mapping[ActionKind, Sequence[str]] = {}
        if kinds_without_hold_checks:
            from auditor.checks.configuration import kinds_without_holds  # which loads every check

            checks_by_kind = kinds_without_holds(kinds_without_hold_checks)
        sources, scan_time = read_sources(self), self.report.run.scan_time
        return HoldBook(
            self.directory.batches,
            has_holds_table=hold_facts is not None,
            oldest_data_time=scan_time if (oldest_time := oldest_as_of(sources)) is None else oldest_time,
            newest_data_time=newest_as_of(sources, scan_time),
            has_earlier_run=hold_facts is not None and hold_facts["earlier_run"] is not None,
            are_logs_read=self.report.run.entry_logs,
            current_time=now_ms(),
            checks_without_holds=checks_by_kind,
        )

    def _read_report(self) -> Report:
        try:
            report_bytes = self.directory.read_file(REPORT)
        except FileNotFoundError as error:
            newest_path = _newest_run_below(self.path)
            raise RunUsageError(
                f"{self.path}: contains no finished run (no {REPORT}){newest_path}"
            ) from error
        except (OSError, pa.ArrowException) as error:
            raise damage_error(f"{self.path}/{REPORT}", error) from error
        try:
            return Report.from_json(report_bytes)
        except RunUsageError as error:
            raise RunUsageError(f"{self.path}/{REPORT}: {error}") from error
        except RunError as error:
            raise damage_error(f"{self.path}/{REPORT}", error) from error


def _newest_run_below(path: str) -> str:
    """Return the end of a message on a path without a run, which names the newest run below the path.

    Empty if there is none.
    """
    try:
        return f"; the newest run below it is {newest_report(path).parent}"
    except UsageError:
        return ""


def read_sources(run: RunReader) -> tuple[SourceScope, ...]:
    """Return the rows of the table ``sources``. Empty for a run of an older version, which lacks the table.

    Raises:
        RunError: the table cannot be read.
    """
    if "sources" not in run.table_names():
        return ()
    return tuple(SourceScope(**row) for row in run.table("sources").to_pylist())


def load_placement(run: RunReader) -> tuple[PlacementSettings, Locations]:
    """Return the placement policy of the run, and the locations of its bookies.

    If the run did not check placement, or is of an older version, return default settings and no locations.
    The default settings have no policy.

    Raises:
        RunError: a table of the run is missing or broken, or the report has an unknown policy.
    """
    from auditor.tables.placement import BOOKIE_LOCATIONS, locations_of

    placement_facts = run.report.run.placement
    if placement_facts is None:
        return PlacementSettings(), Locations()
    rows = run.table("bookie_locations", BOOKIE_LOCATIONS.names).to_pylist()
    try:
        settings = PlacementSettings.from_json(
            placement_facts["policy"], placement_facts["settings"], placement_facts["policy_origin"]
        )
    except (ValueError, TypeError) as error:
        raise damage_error(f"{run.path}/{REPORT}", error) from error
    unknown_location = next(
        (row["location"] for row in rows if not (row["location"] or "/").startswith("/")), None
    )
    if unknown_location is not None:
        raise damage_error(f"{run.path}/tables/bookie_locations", f"{unknown_location!r} is not a location")
    return settings, locations_of(rows, placement_facts["mapping_origin"])

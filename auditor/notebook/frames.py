"""Small pandas frames of parts of a finished run, for a notebook: ``run.frames``.

The number of rows does not grow with the cluster. It is limited by an argument, or by the number of days,
checks or runs. `auditor.notebook.run.Run.tables` and `views` give whole tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from functools import reduce
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Any

from auditor.model.arrow import ds, pd
from auditor.model.finding import Confidence, Severity
from auditor.model.history import RunSummary
from auditor.model.report_source import BookieFigure, Leak, OwnerLevel
from auditor.model.space import DISK_BYTES, SpaceGrouping
from auditor.model.states import SpaceClass
from auditor.reports.coverage import count_by_check
from auditor.reports.ledger import replicas_of, stripes_of
from auditor.runs.change_status import severities_by_day, statuses_of
from auditor.runs.figures import LEDGER_CLASSES, UNKNOWN_DAY, days_of
from auditor.runs.load_ledger import ledger_view

if TYPE_CHECKING:
    from auditor.notebook.run_figures import RunFigures

DEFAULT_ROWS = 1_000
"""Default of the largest number of rows in a frame of findings."""

DEFAULT_STRIPE_COLUMNS = 120
"""Default of the largest number of columns in a frame of a ledger's stripes."""

MAX_STRIPE_ROWS = 1_000


class Frames:
    """Frames of a run.

    Times are pandas times in UTC. Ids that may be absent are nullable integers.

    Raises:
        RunError: from any method, if a part of the run is missing or broken. The message names the part.
    """

    def __init__(self, run: RunFigures) -> None:
        self._run = run

    def __repr__(self) -> str:
        names = sorted(name for name in vars(type(self)) if not name.startswith("_"))
        return f"<frames of {self._run.path}: {', '.join(names)}>"

    def by_id(self) -> pd.DataFrame:
        """Return the number of findings of each check. The method reads only the report.

        Index: id, the most urgent first. Columns:

        - urgency, severity, count
        - confirmed, suspect, unknown: these three add up to count
        - new, worse: findings that are new or worse since the previous run
        - suppressed
        """
        count_columns = ("count", *map(str, Confidence), "new", "worse", "suppressed")
        rows = []
        for check_count in count_by_check(self._run.report):
            check_numbers = {
                **check_count.totals,
                **check_count.unconfirmed,
                "confirmed": check_count.totals["count"] - check_count.totals["unsure"],
            }
            row = {
                "id": check_count.id,
                "urgency": str(check_count.urgency),
                "severity": str(check_count.severity),
            }
            rows.append(row | {name: check_numbers.get(name, 0) for name in count_columns})
        frame = _make_frame(rows, ["id", "urgency", "severity", *count_columns])
        return frame.astype(dict.fromkeys(count_columns, "int64")).set_index("id")

    def causes(self) -> pd.DataFrame:
        """Return the causes that explain findings, with the number of findings of each check.

        Columns: number (equal to the column cause of findings), kind, sentence, id, urgency, severity, count.
        The most urgent cause comes first. Within a cause, the most urgent check comes first.
        """
        rows = [
            {**{name: cause[name] for name in ("number", "kind", "sentence")}, **finding}
            for cause in self._run.report.run.causes or ()
            for finding in cause["findings"]
        ]
        return _make_frame(rows, ["number", "kind", "sentence", "id", "urgency", "severity", "count"])

    def by_day(self) -> pd.DataFrame:
        """Return the number of this run's findings by the day on which a run first saw them.

        Index: first_seen, a day in UTC, ascending. It is the day on which the first of the consecutive runs
        with the finding ended. Columns: the severities, with numbers of findings.
        """
        counts = severities_by_day(self._run.directory)
        return _frame_by_day(counts, map(str, Severity), "first_seen")

    def ledgers_by_day(self) -> pd.DataFrame:
        """Return the number of ledgers by creation day and class, to see when broken ledgers were created.

        Index: created, a day in UTC, ascending. NaT stands for ledgers whose creation day is unknown.
        Columns: healthy, below-write-quorum, below-ack-quorum, entry-lost, not-closed, undecided, as in the
        table verdicts. Values: numbers of ledgers.
        """
        return _frame_by_day(days_of(self._run), LEDGER_CLASSES, "created")

    def findings(
        self, id: str | None = None, severity: str | None = None, limit: int = DEFAULT_ROWS
    ) -> pd.DataFrame:
        """Return up to ``limit`` findings, the worst first.

        ``id`` restricts them to one check, and ``severity`` to one severity.

        Columns: id, severity, confidence, scope_id, ledger_id, bookie_id, missing (number of entries, over
        all bookies), bookies (number of bookies with missing or unknown entries), change, first_seen,
        suppressed, message, fingerprint.
        """
        filters = {"id": id, "severity": severity}
        conditions = [ds.field(name) == value for name, value in filters.items() if value is not None]
        row_filter = reduce(and_, conditions) if conditions else None
        rows: list[dict[str, Any]] = []
        for batch in self._run.batches("findings", [*_READ_COLUMNS, "missing", "unknown"], row_filter):
            rows += map(_flat_row, batch.slice(0, limit - len(rows)).to_pylist())
            if len(rows) >= limit:
                break
        return self._display_frame(rows, ["bookie_id", "missing", "bookies"])

    def findings_of(self, bookie_id: str, limit: int = DEFAULT_ROWS) -> pd.DataFrame:
        """Return up to ``limit`` findings about a bookie.

        These findings name the bookie, or are about missing or unknown copies on it.
        ``run.bookie(bookie_id)`` counts all of them. Columns: id, severity, confidence, scope_id, ledger_id,
        missing (number of entries, on this bookie), change, first_seen, suppressed, message, fingerprint.
        """
        return self._display_frame(list(islice(self._run.findings_of(bookie_id), limit)), ["missing"])

    def stripes(
        self, ledger_id: int, scope_id: int = 0, columns: int = DEFAULT_STRIPE_COLUMNS
    ) -> pd.DataFrame:
        """Return the state of each cell of a ledger: bookies are rows, entries are columns.

        ``scope_id`` is the upper half of a 128-bit ledger id. Values: held, missing, some missing, unknown,
        surplus (held, unexpected), or not expected. Index: bookie_id, at most 1,000. Columns: first_entry. If
        the ledger has more entries than ``columns``, a column stands for all entries before the next column.
        """
        view = ledger_view(self._run, ledger_id, scope_id)
        stripes = stripes_of(view, replicas_of(view), columns, MAX_STRIPE_ROWS)
        return pd.DataFrame(
            [[str(cell) for cell in bookie_cells] for bookie_cells in stripes.cells],
            index=pd.Index(stripes.bookies, name="bookie_id", dtype="object"),
            columns=pd.Index(stripes.column_edges[:-1], name="first_entry", dtype="int64"),
            dtype="object",
        )

    def bookies(self) -> pd.DataFrame:
        """Return the replica counts of each bookie, or of the 5,000 worst if there are more.

        Index: bookie_id. Columns: those of `auditor.model.report_source.BookieFigure`, and availability, the
        share of the bookie's replicas that are certainly complete.
        """
        column_types = {
            figure_field.name: "int64" if figure_field.type == "int" else "object"
            for figure_field in fields(BookieFigure)
        }
        column_types["availability"] = "float64"
        rows = [
            {**asdict(bookie), "availability": bookie.availability} for bookie in self._run.figures.bookies
        ]
        return pd.DataFrame(rows, columns=list(column_types)).astype(column_types).set_index("bookie_id")

    def space(self, by: SpaceGrouping = "bookie", top: int = 20) -> pd.DataFrame:
        """Return the bytes in entry logs by bookie, ledger, application or age, as in ``bkaudit space``.

        Index: the groups that ``by`` selects, the largest first. Columns: bytes, and the bytes of each class
        (such as live). Only the ``top`` largest ledgers or applications are included.
        """
        from auditor.runs.load_space import space_view

        totals = space_view(self._run, by, top).totals
        names = [str(space_class) for space_class in SpaceClass]
        rows = [[total.bytes, *(total.classes.get(name, 0) for name in names)] for total in totals]
        row_index = pd.Index([total.name for total in totals], name=by, dtype="object")
        return pd.DataFrame(rows, row_index, ["bytes", *names], "int64")

    def failures(self) -> pd.DataFrame:
        """Return the effect of the loss of one bookie, rack or region, as ``bkaudit simulate`` reports it.

        Index: level and name, the worst of each level first. Columns:

        - bookies: number of bookies that are lost together
        - ledgers, entries, bytes: lost data, given the copies that indexes show
        - promised_ledgers, promised_entries, promised_bytes: lost data if no copy had been missing before
        - ledgers_possible: number of lost ledgers if all unknown copies were missing
        - below_ack_quorum, below_write_quorum: ledgers with too few copies left
        - unrecoverable: open ledgers that recovery could not close
        """
        from auditor.runs.reader import RunReader
        from auditor.simulate.simulation import simulate_all

        failure_rows = [
            failure for level in simulate_all(RunReader(self._run.path)).levels for failure in level.singles
        ]
        rows = [
            {
                "bookies": failure.bookies,
                **asdict(failure.today.sure.lost),
                "ledgers_possible": failure.today.possible.lost.ledgers,
                **{f"promised_{name}": number for name, number in asdict(failure.promise.sure.lost).items()},
                "below_ack_quorum": failure.today.sure.below_ack.ledgers,
                "below_write_quorum": failure.today.sure.below_write.ledgers,
                "unrecoverable": failure.today.sure.unrecoverable,
            }
            for failure in failure_rows
        ]
        names = pd.MultiIndex.from_tuples(
            [(failure.level, failure.names[0]) for failure in failure_rows], names=["level", "name"]
        )
        return pd.DataFrame(rows, names)

    def disks(self) -> pd.DataFrame:
        """Return the bytes of files other than entry logs on each bookie, and its fullest file system.

        Index: bookie_id. Columns:

        - journals, indexes, rocksdb, other: bytes
        - capacity, free: bytes of the fullest file system, null if no file system was seen
        - unread: number of directories that were not read completely
        """
        from auditor.runs.disk_forecasts import disk_totals

        disk_kinds = [kind.name for kind in DISK_BYTES]
        rows = [
            {
                **asdict(total),
                "capacity": fullest_disk.capacity if fullest_disk else None,
                "free": fullest_disk.free if fullest_disk else None,
            }
            for total in disk_totals(self._run)
            for fullest_disk in (total.fullest,)
        ]
        integer_types = dict.fromkeys(("capacity", "free"), "Int64")
        columns = ["name", *disk_kinds, *integer_types, "unread"]
        frame = pd.DataFrame(rows, columns=columns).astype(
            integer_types | dict.fromkeys([*disk_kinds, "unread"], "int64")
        )
        return frame.set_index("name").rename_axis("bookie_id")

    def owners(self, level: OwnerLevel = "namespace", limit: int = DEFAULT_ROWS) -> pd.DataFrame:
        """Return the totals of the ledgers of each tenant, namespace or topic, the worst findings first.

        Index: the name, empty for ledgers without a known owner. Columns:

        - ledgers, bytes, entries: totals of closed ledgers that an owner names; each counts once, not per
          copy
        - dangling: number of references to ledgers that no longer exist
        - unowned, leaked_bytes, leaked_entries: number, bytes, entries of leaked (ownerless) ledgers
        - the severities: numbers of findings
        """
        totals = self._run.owners(level)[:limit]
        columns = ["ledgers", "bytes", "entries", "dangling", "unowned", "leaked_bytes", "leaked_entries"]
        severities = [str(severity) for severity in Severity]
        rows = [
            [
                *(getattr(total, name) for name in columns),
                *(total.findings.get(name, 0) for name in severities),
            ]
            for total in totals
        ]
        name_index = pd.Index([total.name for total in totals], name=level, dtype="object")
        return pd.DataFrame(rows, name_index, [*columns, *severities], "int64")

    def leaks(self, limit: int = DEFAULT_ROWS) -> pd.DataFrame:
        """Return the leaked ledgers, which no owner (such as a Pulsar topic) uses, the most important first.

        Index: ledger_id. Columns:

        - confidence, state; why: why it counts as leaked; doubt: evidence against this
        - owner, claim: the last known owner, and its path
        - made: creation time, NaT if unknown
        - bytes, entries: null if the ledger is not closed
        """
        leak_rows = [asdict(leak) for leak in islice(self._run.leaks, limit)]
        frame = _make_frame(leak_rows, [leak_field.name for leak_field in fields(Leak)])
        creation_time = pd.to_datetime(frame["made"], unit="ms", utc=True)
        column_types = {"ledger_id": "int64", "bytes": "Int64", "entries": "Int64"}
        return frame.astype(column_types).assign(made=creation_time).set_index("ledger_id")

    def history(self, limit: int = DEFAULT_ROWS) -> pd.DataFrame:
        """Return the newest runs of this cluster in the parent directory of this run, the oldest first.

        Index: finished. Columns:

        - run: name of the run's directory
        - verdict, complete, and the severities, with numbers of findings
        - new, fixed, worse, better, same, unseen (not checked again): changes since the previous run, or null
        """
        from auditor.runs.siblings import summarize_siblings

        own_summary = RunSummary.from_report(self._run.path, self._run.report)
        runs = (summarize_siblings(self._run.path, self._run.report.cluster) or (own_summary,))[-limit:]
        change_columns = ("new", "fixed", "worse", "better", "same", "unseen")
        columns = ["finished", "run", "verdict", "complete", *map(str, Severity), *change_columns]
        rows = [
            {"run": run.name, "finished": run.finished, "verdict": run.verdict, "complete": run.complete}
            | run.severities
            | {name: count for name, count in (run.changes or {}).items() if name in change_columns}
            for run in runs
        ]
        frame = _make_frame(rows, columns).astype(
            {"complete": "bool"} | dict.fromkeys(map(str, Severity), "int64")
        )
        finished = pd.to_datetime(frame["finished"], unit="ms", utc=True)
        return (
            frame.assign(finished=finished)
            .astype(dict.fromkeys(change_columns, "Int64"))
            .set_index("finished")
        )

    def _display_frame(self, rows: list[dict[str, Any]], extra_columns: list[str]) -> pd.DataFrame:
        """Return rows of findings as a frame, with their change, first day and suppression.

        ``extra_columns`` has the names of further columns. All of them contain whole numbers, except
        ``bookie_id``.
        """
        fingerprints = [row["fingerprint"] for row in rows]
        statuses = statuses_of(self._run.directory, self._run.report, fingerprints)
        status_rows = {fingerprint: asdict(change_status) for fingerprint, change_status in statuses.items()}
        columns = [*_SUBJECT_COLUMNS, *extra_columns, *_STATUS_COLUMNS, "message", "fingerprint"]
        frame = _make_frame([row | status_rows.get(row["fingerprint"], {}) for row in rows], columns)
        frame = frame.astype({name: "int64" for name in extra_columns if name != "bookie_id"})
        return frame.assign(first_seen=pd.to_datetime(frame["first_seen"], unit="ms", utc=True))


_SUBJECT_COLUMNS = ("id", "severity", "confidence", "scope_id", "ledger_id")
_STATUS_COLUMNS = ("change", "first_seen", "suppressed")
_INTEGER_COLUMNS = ("scope_id", "ledger_id", "first_seen", "finished", "made")
_READ_COLUMNS = (*_SUBJECT_COLUMNS, "bookie_id", "message", "fingerprint")


def _flat_row(row: dict[str, Any]) -> dict[str, Any]:
    missing_replicas, unknown_bookies = row.pop("missing"), row.pop("unknown")
    return {
        **row,
        "missing": sum(replica["count"] for replica in missing_replicas),
        "bookies": len({replica["bookie_id"] for replica in missing_replicas} | set(unknown_bookies)),
    }


def _make_frame(rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Return rows as a frame.

    Severities are ordered categories, the worst first. Integers are nullable, because an absent id would
    otherwise turn all ids into floats.
    """
    rows = list(rows)
    column_types: dict[str, Any] = dict.fromkeys(_INTEGER_COLUMNS, "Int64")
    column_types["severity"] = pd.CategoricalDtype([str(severity) for severity in Severity], ordered=True)
    return pd.DataFrame(
        {
            name: pd.Series([row.get(name) for row in rows], dtype=column_types.get(name, "object"))
            for name in columns
        }
    )


def _frame_by_day(counts: Mapping[int, Mapping[str, int]], columns: Iterable[str], name: str) -> pd.DataFrame:
    """Return counts by day as a frame, whose index has the name ``name``. An unknown day comes last."""
    columns = list(columns)
    days = sorted(counts, key=lambda day: (day == UNKNOWN_DAY, day))
    day_times = [pd.NaT if day == UNKNOWN_DAY else pd.Timestamp(day, unit="D") for day in days]
    rows = [[counts[day].get(column, 0) for column in columns] for day in days]
    frame = pd.DataFrame(rows, columns=columns, dtype="int64")
    return frame.set_index(pd.DatetimeIndex(day_times, tz="UTC", name=name))

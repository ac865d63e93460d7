"""A finished run, opened again without Spark.

Runs may lie on any file system that pyarrow knows; local ones need no more than their path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.codecs.coverage import last_entry
from auditor.errors import RunError, UsageError
from auditor.ledger_answers import answers_of, with_answers
from auditor.model.ledger_id import LedgerId
from auditor.model.ledger_metadata import Segment
from auditor.model.ledger_view import ReplicaView
from auditor.model.report import Report
from auditor.model.standing import Standings
from auditor.run_files import REPORT
from auditor.run_findings import Findings, findings_of
from auditor.run_tables import RunTables
from auditor.shown import ShownBookie, ShownLedger
from auditor.tables.judgement import NOT_INDEXED, LedgerFacts, groups_of, striped_to
from auditor.whole_file import write_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from auditor.frames import Frames
    from auditor.model.figures import Figures
    from auditor.plots import Plots

_UNKNOWN_STATES = ("cut", "unreadable", "limbo", NOT_INDEXED)
_NO_REPLICA = ("stray", "gap", "damaged")


def open_run(path: str | Path) -> Run:
    """Open the run directory that an audit wrote: a path, or a URI such as hdfs:// or s3://.

    Raises:
        RunError: no such directory, no finished run in it, or a report that cannot be read.
    """
    return Run(str(path))


class Run:
    """What one audit wrote. Nothing is read before it is asked for, but for the report.

    Raises:
        RunError: from any method, where a part of the run is missing or broken; the message names it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._tables = RunTables(path)
        self.report = self._read_report()

    @property
    def findings(self) -> Findings:
        """Every finding, in the order severity, id, scope, ledger, bookie; each iteration reads anew."""
        return Findings(self._tables, self.report)

    @cached_property
    def figures(self) -> Figures:
        """What pictures show: counted from all tables once, bounded (`auditor.figures`)."""
        from auditor.figures import figures_of

        return figures_of(self)

    @property
    def frames(self) -> Frames:
        """Small pandas frames: ``run.frames.stripes(42)``, ``run.frames.by_id()`` ... (`auditor.frames`)."""
        from auditor.frames import Frames

        return Frames(self)

    @property
    def plot(self) -> Plots:
        """Pictures: ``run.plot.stripes(42)``, ``run.plot.bookies()`` ... (`auditor.plots`)."""
        from auditor.plots import Plots

        return Plots(self)

    def standings(self) -> Standings:
        """How the findings that the report shows stand against the run before, by fingerprint."""
        from auditor.told import standings_of_report

        return standings_of_report(self.path, self.report)

    def standings_in_order(self) -> Standings:
        """The same of all findings, to be asked for in their order (`auditor.standings`)."""
        from auditor.standings import standings_in_order

        return standings_in_order(self.path)

    def last_complete(self) -> int | None:
        """When the newest complete run of this cluster beside this one was done, in ms since 1970."""
        from auditor.last_complete import last_complete

        return last_complete(self.path, self.report)

    def html_page(self) -> str:
        """The run as one HTML page that needs no network."""
        from auditor.html_page import page_of

        return page_of(self)

    def write(self, form: str, file: str | Path) -> None:
        """Write the report to a file in a form that ``--format`` knows: text, json, html, sarif ...

        Raises:
            UsageError: no such form.
            OSError: the file cannot be written.
        """
        from auditor.reports.forms import FORMS

        if form not in FORMS:
            raise UsageError(f"{form}: there is no such form; there are {', '.join(FORMS)}")
        write_whole(str(file), partial(FORMS[form].write, self))

    def findings_of(self, bookie_id: str) -> Iterator[dict[str, Any]]:
        """The findings about a bookie, or in which it lacks entries or is unknown: what they say in short.

        Rows of id, severity, confidence, scope_id, ledger_id, fingerprint, message, and ``missing``: how many
        entries this bookie lacks. They come in the order of the findings; no more than a batch is in memory.
        """
        return findings_of(self._tables, bookie_id)

    def table(self, name: str, columns: Sequence[str] | None = None, filter: Any = None) -> Any:
        """One table as a pyarrow Table; choose columns, and rows by a pyarrow.dataset expression.

        All of what is chosen is in memory: for a whole table of a large cluster take `tables`.
        """
        return self._tables.read(f"tables/{name}", columns, filter)

    def batches(self, below: str, columns: Sequence[str] | None = None, filter: Any = None) -> Iterator[Any]:
        """``findings`` or ``tables/NAME`` as pyarrow RecordBatches, in the order of the rows.

        No more than one is in memory: this is for what grows with the cluster.
        """
        return self._tables.batches(below, columns, filter)

    def tables(self, spark: SparkSession) -> Mapping[str, DataFrame]:
        """All tables, and the findings, as Spark DataFrames by name."""
        frames = {name: spark.read.parquet(f"{self.path}/tables/{name}") for name in self.table_names()}
        return {**frames, "findings": spark.read.parquet(f"{self.path}/findings")}

    def table_names(self) -> list[str]:
        """The names of the tables that this run has."""
        return [name for name in self._tables.names("tables") if not name.startswith(("_", "."))]

    def views(self, spark: SparkSession, prefix: str = "") -> Mapping[str, str]:
        """Make all tables, and the findings, temporary SQL views; returns what a row of each is.

        ``prefix`` stands before every name, so that two runs can be open at once (`auditor.sql_views`).
        """
        from auditor.sql_views import register

        return register(self, spark, prefix)

    def ledger(self, ledger_id: int | LedgerId, scope_id: int = 0) -> ShownLedger:
        """One ledger as this run saw it. A `LedgerId` brings its own scope.

        Raises:
            UsageError: no ledger has such an id.
            RunError: neither the metadata nor any bookie of this run knows the ledger.
        """
        import pyarrow.dataset as ds

        from auditor.queue_view import queue_view

        ledger_id, scope_id = _ids(ledger_id, scope_id)
        here = (ds.field("ledger_id") == ledger_id) & (ds.field("scope_id") == scope_id)
        found = self.table("ledgers", filter=here).to_pylist()
        indexes = self.table("availability", filter=here).to_pylist()
        if found and "journal_tails" in self._tables.names("tables"):
            tails = self.table("journal_tails", ["bookie_id", "groups"], filter=here).to_pylist()
            indexes = _with_tails(found[0], indexes, tails)
        indexes = [_served(each) for each in indexes]
        if "answers" in self._tables.names("tables"):
            shown = {each["bookie_id"] for each in indexes}
            answers = self.table("answers", filter=here).to_pylist()
            indexes += [each for each in answers if each["bookie_id"] not in shown]
        if not found and not indexes:
            scope = f" of scope {scope_id}" if scope_id else ""
            raise RunError(f"{self.path}: neither the metadata nor a bookie knows ledger {ledger_id}{scope}")
        row = found[0] if found else {}
        bookies = {each["bookie_id"]: each for each in self.table("bookies").to_pylist()}
        verdict = _only(self.table("verdicts", filter=here).to_pylist())
        judged = _only(self.table("judged", filter=here).to_pylist())
        unequal = {each["bookie_id"]: each for each in self.table("unequal", filter=here).to_pylist()}
        asked = "witness" in self._tables.names("tables")
        answers = answers_of(self.table("witness", filter=here).to_pylist() if asked else ())
        unknown = {each["bookie_id"]: each["why"] for each in judged.get("unknown") or ()}
        return ShownLedger(
            ledger_id=ledger_id,
            scope_id=scope_id,
            status=row.get("status", "gone"),
            segments=tuple(
                Segment(each["first_entry_id"], tuple(each["ensemble"])) for each in row.get("segments") or ()
            ),
            rules=tuple(f"{each['rule']}: {each['reason']}" for each in row.get("rules") or ()),
            judged_class=verdict.get("class"),
            potential_class=verdict.get("potential_class"),
            doubts=tuple(judged.get("doubts") or ()),
            attached=tuple((key, _text(value)) for key, value in row.get("custom_metadata") or ()),
            replicas=tuple(
                with_answers(replica, answers, unknown)
                for replica in _replicas(row, indexes, unequal, bookies)
            ),
            answers=answers,
            queue=queue_view(self.path, self.report.cluster.layout, ledger_id, scope_id),
            **{name: row.get(name) for name in _SAME},
        )

    def bookie(self, bookie_id: str) -> ShownBookie:
        """One bookie as this run saw it, by its id as the cluster writes it.

        Raises:
            RunError: nothing in the run names such a bookie; the message has the ids that are nearest to it.
        """
        from auditor.bookie_view import bookie_view

        return ShownBookie.of(bookie_view(self, bookie_id))

    def __repr__(self) -> str:
        from auditor.reports import cells, first_screen

        return cells.plain(first_screen.render(self.report, self.path))

    def _repr_html_(self) -> str:
        from auditor.reports.cells import run_cell

        return run_cell(self.report)

    def _read_report(self) -> Report:
        files, base = self._tables.files
        import pyarrow as pa

        try:
            with files.open_input_stream(f"{base}/{REPORT}") as stream:
                text = stream.read()
        except FileNotFoundError as error:
            raise RunError(f"{self.path}: no finished run is here (no {REPORT})") from error
        except (OSError, pa.ArrowException) as error:
            raise RunError(f"{self.path}/{REPORT}: {error}") from error
        try:
            return Report.from_json(bytes(text))
        except RunError as error:
            raise RunError(f"{self.path}/{REPORT}: {error}") from error


_SAME = (
    "path",
    "version",
    "state",
    "ensemble_size",
    "write_quorum",
    "ack_quorum",
    "last_entry_id",
    "length",
    "digest_type",
    "ctime",
    "mtime",
    "damage",
)


def _text(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return (value or b"").hex()


def _ids(ledger_id: int | LedgerId, scope_id: int) -> tuple[int, int]:
    """The ledger's id and scope, both of which a table can have.

    >>> _ids(LedgerId(2, scope=1), 0)
    (2, 1)
    """
    if isinstance(ledger_id, LedgerId):
        named = ledger_id
        if scope_id not in (0, named.scope):
            raise UsageError(f"scope_id={scope_id}: {named} says another")
        ledger_id, scope_id = named.id, named.scope
    for each in (ledger_id, scope_id):
        if not isinstance(each, int) or not -(2**63) <= each < 2**63:
            raise UsageError(
                f"{each!r} is not the id of a ledger or a scope: an integer of 64 bits, or a LedgerId"
            )
    return ledger_id, scope_id


def _only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0] if rows else {}


def _with_tails(
    ledger: Mapping[str, Any], indexes: list[dict[str, Any]], tails: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What indexes and journals show together, of the bookies that the metadata names."""
    from auditor.tables.tails import united

    members = {name for each in ledger["segments"] or () for name in each["ensemble"]}
    beside = {each["bookie_id"]: each["groups"] for each in tails if each["bookie_id"] in members}
    rows = []
    for row in indexes:
        if row["bookie_id"] in beside and row["state"] not in _NO_REPLICA:
            groups, state = united(row["groups"], row["state"], beside[row["bookie_id"]])
            row |= {"groups": groups, "state": state}
        rows.append(row)
    indexed = {row["bookie_id"] for row in indexes if row["state"] not in _NO_REPLICA}
    return rows + [
        {"bookie_id": name, "groups": groups, "state": "ok", "reason": None}
        for name, groups in beside.items()
        if name not in indexed
    ]


def _served(row: dict[str, Any]) -> dict[str, Any]:
    """What locations show of a ledger that its bookie does not serve is not held."""
    return row | {"groups": b""} if row["state"] == NOT_INDEXED else row


def _expected(row: Mapping[str, Any], indexes: list[dict[str, Any]]) -> dict[str, bytes]:
    """What each member should have; of a ledger that is not closed, up to the newest entry that any has."""
    judged = {each["bookie_id"]: each["groups"] or b"" for each in row.get("replicas") or ()}
    if row.get("undecidable", True) or row["state"] == "CLOSED":
        return judged
    segments = [(each["first_entry_id"], each["ensemble"]) for each in row["segments"]]
    ledger = LedgerFacts(
        row["ledger_id"],
        False,
        row["ensemble_size"],
        row["write_quorum"],
        row["ack_quorum"],
        row["last_entry_id"],
        row["mtime"],
        segments,
    )
    held = [groups_of(each["groups"]) for each in indexes if each["bookie_id"] in judged]
    newest = max((last_entry(groups) for groups in held), default=-1)
    return {member: striped_to(ledger, member, newest).tobytes() for member in judged}


def _replicas(
    row: Mapping[str, Any],
    indexes: list[dict[str, Any]],
    unequal: Mapping[str, Mapping[str, Any]],
    bookies: Mapping[str, Mapping[str, Any]],
) -> tuple[ReplicaView, ...]:
    """Every member of an ensemble and every other bookie that holds something, by id."""
    expected = _expected(row, indexes)
    members = {name for each in row.get("segments") or () for name in each["ensemble"]}
    held = {each["bookie_id"]: each for each in indexes if each["state"] not in _NO_REPLICA}
    views = []
    for name in sorted({*members, *expected, *held}):
        index, pair = held.get(name, {}), unequal.get(name, {})
        # An index cut inside a page is recognised after the scan; the pair that differs knows of it.
        state = pair.get("index_state") or index.get("state") or "absent"
        bookie = bookies.get(name, {})
        read = bookie.get("read", "unread")
        foreign = bool(bookie.get("foreign_instance"))
        reason = index.get("reason")
        answered = pair.get("answered") is not None and state == "ok"
        if read != "read" and not answered:
            reason = bookie.get("reason") or "no source covers it"
            state = "unread" if state == "absent" else state
        if foreign:
            reason = "its directories are another cluster's"
        views.append(
            ReplicaView(
                name,
                name in members,
                expected.get(name, b""),
                (pair["held"] if answered else index.get("groups")) or b"",
                (read == "read" or answered) and not foreign and state not in _UNKNOWN_STATES,
                state,
                reason,
            )
        )
    return tuple(views)

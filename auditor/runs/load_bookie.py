"""Views of a finished run and of one of its bookies.

The module reads the findings, and small tables that have rows for bookies, not for ledgers. It keeps only
counts and a few messages of a bookie's findings.
"""

import difflib
from collections.abc import Sequence
from typing import Any

from auditor.checks import check_order
from auditor.codecs.bookie.last_mark import LastMark
from auditor.errors import RunError, RunUsageError
from auditor.model.amounts import first_names
from auditor.model.arrow import ds, pa, pc
from auditor.model.finding import Confidence, Finding, Severity, Urgency
from auditor.model.states import BookieRead
from auditor.model.views import (
    AliasView,
    BookieView,
    CandidateView,
    CookieView,
    DirectoryView,
    JournalView,
    ProblemView,
    RegistrationView,
    RunView,
    UnreadBookie,
)
from auditor.runs.change_status import statuses_of
from auditor.runs.directory import fail_on_of
from auditor.runs.reader import RunReader, finding_of, read_sources

_MAX_CHECK_SAMPLES = 3
_MAX_SIMILAR_IDS = 3
MAX_LISTED_BOOKIES = 20
"""Largest number of bookie ids in a message."""
MAX_SHOWN_UNREAD_BOOKIES = 10


def run_view(run: RunReader) -> RunView:
    """Return the view of a run that ``bkaudit explain run`` shows, with the reasons for the run's result.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    is_unread = (ds.field("named") | ds.field("found")) & (ds.field("read") != BookieRead.READ)
    fail_on, fail_on_suspect = fail_on_of(run.path, run.directory.read_file)
    unread_rows = run.table("bookies", ["bookie_id", "read", "reason", "replicas"], is_unread)
    unread_order = pc.sort_indices(unread_rows, [("replicas", "descending"), ("bookie_id", "ascending")])
    return RunView(
        path=run.path,
        report=run.report,
        directories=run.table("directories", ["path"]).num_rows,
        unread_bookies=tuple(
            UnreadBookie(**row)
            for row in unread_rows.take(unread_order[:MAX_SHOWN_UNREAD_BOOKIES]).to_pylist()
        ),
        fail_on=fail_on,
        fail_on_suspect=fail_on_suspect,
        storages=find_storages(run),
        sources=read_sources(run),
        statuses=statuses_of(
            run.directory, run.report, [finding.fingerprint for finding in run.report.findings]
        ),
    )


def bookie_view(run: RunReader, bookie_id: str) -> BookieView:
    """Return the view of one bookie, by its id or the beginning of its id (`whole_bookie_id`).

    Raises:
        RunError: no bookie id of the run begins with this text, or several do. The message lists the ids
            that begin with the text, or else similar ids.
    """
    bookie_id = whole_bookie_id(run, bookie_id)
    is_of_bookie = ds.field("bookie_id") == bookie_id
    row = run.table("bookies", filter=is_of_bookie).to_pylist()[0]
    bookie_totals = run.table("holdings", filter=is_of_bookie).to_pylist()
    cookies = run.table("cookies", filter=is_of_bookie).to_pylist()
    return BookieView(
        bookie_id=bookie_id,
        held_ledgers=bookie_totals[0]["ledgers"] if bookie_totals else None,
        orphan_ledgers=bookie_totals[0]["orphans"] if bookie_totals else 0,
        cookie=_cookie_view(cookies[0]) if cookies else None,
        registrations=tuple(
            map(_registration_view, run.table("registrations", filter=is_of_bookie).to_pylist())
        ),
        directories=_directory_views(run, bookie_id),
        aliases=_alias_views(run, bookie_id),
        problems=_problem_views(run, bookie_id),
        tail=row.get("tail"),
        storage=row.get("storage"),
        index_time_basis=row.get("index_time_basis"),
        journals=_journal_views(run, bookie_id),
        **{name: row[name] for name in _COPIED_COLUMNS},
    )


_COPIED_COLUMNS = (
    "read", "reason", "index_time", "suspect", "foreign_instance", "marked", "ledgers", "depending",
    "replicas",
)  # fmt: skip


def find_storages(run: RunReader) -> dict[str, str]:
    """Return the index storage of each bookie. Empty for a run of an older version."""
    rows = run.table("bookies").to_pylist()
    return {row["bookie_id"]: row["storage"] for row in rows if row.get("storage") is not None}


def whole_bookie_id(run: RunReader, id_or_prefix: str) -> str:
    """Return the bookie id that equals ``id_or_prefix``, or else the only id that begins with it.

    A host without a port selects the only bookie on that host. Other hosts whose names begin with the same
    text do not matter.
    """
    known_ids = bookie_ids(run)
    ids_with_prefix = [bookie_id for bookie_id in known_ids if bookie_id.startswith(id_or_prefix)]
    ids_on_host = [bookie_id for bookie_id in ids_with_prefix if bookie_id.startswith(f"{id_or_prefix}:")]
    for matching_ids in ([id_or_prefix] if id_or_prefix in known_ids else [], ids_on_host, ids_with_prefix):
        if len(matching_ids) == 1:
            return matching_ids[0]
    if ids_with_prefix:
        id_list = first_names(ids_with_prefix, MAX_LISTED_BOOKIES)
        raise RunUsageError(
            f"{run.path}: {len(ids_with_prefix):,} bookie ids begin with {id_or_prefix!r}: {id_list}"
        )
    raise RunUsageError(
        f"{run.path}: no bookie {id_or_prefix!r} is known{bookie_hint(id_or_prefix, known_ids)}"
    )


def bookie_ids(run: RunReader) -> list[str]:
    """Return the ids of all bookies that a run knows, in order."""
    return sorted(run.table("bookies", ["bookie_id"]).column("bookie_id").to_pylist())


def bookie_hint(unknown_id: str, bookies: Sequence[str]) -> str:
    """Return the end of a message on an unknown bookie id: similar ids, or the first of all ids."""
    if similar_ids := difflib.get_close_matches(unknown_id, bookies, n=_MAX_SIMILAR_IDS, cutoff=0.5):
        return f"; did you mean {' or '.join(similar_ids)}?"
    return f"; the bookies of this run are {first_names(bookies, MAX_LISTED_BOOKIES)}"


def _cookie_view(row: dict[str, Any]) -> CookieView:
    shared_columns = {
        name: row[name] for name in ("layout", "bookie_host", "journal_dirs", "instance_id", "damage")
    }
    ledger_directories, index_directories = (tuple(row[name] or ()) for name in ("ledger_dirs", "index_dirs"))
    return CookieView(**shared_columns, ledger_dirs=ledger_directories, index_dirs=index_directories)


def _registration_view(row: dict[str, Any]) -> RegistrationView:
    endpoints = tuple(
        (endpoint["id"], endpoint["host"], endpoint["port"], endpoint["protocol"])
        for endpoint in row["endpoints"]
    )
    return RegistrationView(row["mode"], endpoints, row["damage"], row["ephemeral"])


def _directory_views(run: RunReader, bookie_id: str) -> tuple[DirectoryView, ...]:
    """Return the directories given for the bookie and the directories with its data, sorted by path."""
    is_of_bookie = (ds.field("owner") == bookie_id) | (ds.field("place") == bookie_id)
    contents_by_directory: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(run.table("contents", filter=is_of_bookie).to_pylist(), key=lambda row: row["rank"]):
        contents_by_directory.setdefault(row["directory"], []).append(row)
    return tuple(
        DirectoryView(
            **{name: row[name] for name in _DIRECTORY_COLUMNS},
            ledgers=contents_by_directory[row["path"]][0]["ledgers"]
            if row["path"] in contents_by_directory
            else 0,
            owner_candidates=tuple(
                CandidateView(candidate_row["candidate"], candidate_row["named"], candidate_row["exact"])
                for candidate_row in contents_by_directory.get(row["path"], ())
            ),
        )
        for row in sorted(
            run.table("directories", filter=is_of_bookie).to_pylist(), key=lambda row: row["path"]
        )
    )


def _journal_views(run: RunReader, bookie_id: str) -> tuple[JournalView, ...]:
    """Return the bookie's journal directories. Empty for a run of an older version."""
    if "journal_tails" not in run.table_names():
        return ()
    is_of_directory = (ds.field("bookie_id") == bookie_id) & ds.field("ledger_id").is_null()
    return tuple(
        JournalView(
            mark_file=None if row["mark_file_id"] is None else LastMark(row["mark_file_id"], 0).file_name,
            **{name: row[name] for name in _JOURNAL_COLUMNS},
        )
        for row in run.table("journal_tails", filter=is_of_directory).drop_columns(["groups"]).to_pylist()
    )


def _alias_views(run: RunReader, bookie_id: str) -> tuple[AliasView, ...]:
    """Return the other ids of the same bookie, then similar ids that are not proved to be the same bookie."""
    alias_rows_by_id: dict[str, list[tuple[str, str, str | None]]] = {}
    is_of_bookie = (ds.field("one") == bookie_id) | (ds.field("other") == bookie_id)
    for row in run.table("identity_edges", filter=is_of_bookie).to_pylist():
        alias = row["other"] if row["one"] == bookie_id else row["one"]
        alias_rows_by_id.setdefault(alias, []).append((row["rule"], row["evidence"], row["against"]))
    identity_rows = run.table("identities", filter=ds.field("bookie_id") == bookie_id).to_pylist()
    if not identity_rows:
        raise RunError(f"{run.path}/tables/identities: no row for {bookie_id}, which is in the table bookies")
    shared_columns = identity_rows[0]["aliases"]
    is_alias = ds.field("bookie_id").isin(pa.array([*shared_columns, *alias_rows_by_id], pa.string()))
    registered_by_id = {
        row["bookie_id"]: row["registered"] for row in run.table("identities", filter=is_alias).to_pylist()
    }
    if unknown_id := next(
        (name for name in (*shared_columns, *alias_rows_by_id) if name not in registered_by_id), None
    ):
        raise RunError(
            f"{run.path}/tables/identities: no row for {unknown_id}, which another row lists as an alias"
        )
    return tuple(
        AliasView(name, name in shared_columns, registered_by_id[name], tuple(alias_rows_by_id.get(name, ())))
        for name in [*shared_columns, *sorted(alias_rows_by_id.keys() - set(shared_columns))]
    )


_JOURNAL_COLUMNS = ("path", "reason", "mark_offset", "files", "files_below", "entries")
_DIRECTORY_COLUMNS = (
    "path", "role", "place", "owner", "cookie_bookie_id", "instance_id", "layout", "index_time", "damage",
)  # fmt: skip


def _problem_views(run: RunReader, bookie_id: str) -> tuple[ProblemView, ...]:
    """Return a bookie's findings, one view for each urgency, severity and check.

    The findings are about the bookie itself, or about entries that the bookie lacks or may lack.
    """
    counts_by_check: dict[tuple[str, str, str], list[int]] = {}
    sample_fingerprints_by_check: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for finding_row in run.findings_of(bookie_id):
        check_key = (
            finding_row.get("urgency") or Urgency.NOT_URGENT,
            finding_row["severity"],
            finding_row["id"],
        )
        count = counts_by_check.setdefault(check_key, [0, 0])
        count[0] += 1
        count[1] += finding_row["confidence"] != Confidence.CONFIRMED
        sample_rows = sample_fingerprints_by_check.setdefault(check_key, [])
        if len(sample_rows) < _MAX_CHECK_SAMPLES:
            sample_rows.append(finding_row)
    sample_fingerprints = [
        row["fingerprint"] for rows in sample_fingerprints_by_check.values() for row in rows
    ]
    statuses = statuses_of(run.directory, run.report, sample_fingerprints)
    first_fingerprints = {
        key: next((row["fingerprint"] for row in rows if row["ledger_id"] is not None), "")
        for key, rows in sample_fingerprints_by_check.items()
    }
    finding_rows = _findings_by_fingerprint(run, [*filter(None, first_fingerprints.values())])
    return tuple(
        ProblemView(
            key[2],
            Severity(key[1]),
            counts_by_check[key][0],
            counts_by_check[key][1],
            tuple(row["message"] for row in sample_fingerprints_by_check[key]),
            tuple(statuses.get(row["fingerprint"]) for row in sample_fingerprints_by_check[key]),
            finding_rows.get(first_fingerprints[key]),
        )
        for key in sorted(counts_by_check, key=lambda key: check_order(*key))
    )


def _findings_by_fingerprint(run: RunReader, fingerprints: list[str]) -> dict[str, Finding]:
    """Return the findings with these fingerprints."""
    if not fingerprints:
        return {}
    batches = run.batches("findings", filter=ds.field("fingerprint").isin(fingerprints))
    rows = (row for batch in batches for row in batch.to_pylist())
    return {row["fingerprint"]: finding_of(row) for row in rows}

"""Search for the damaged part of a finished run, when it cannot be shown and before a report.

A damaged file may cause any error: a missing key, or a row without a finding. For any such error the run's
own files are checked first. If they are whole, the error is a bug.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from auditor.errors import RunError, RunUsageError
from auditor.findings.table import FINDINGS
from auditor.model.json_shape import parse_json, read_value
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.runs.directory import REMEDY, RunDirectory, damaged
from auditor.tables.run_tables import TABLES

Note = TypeVar("Note")

CHECKED_BYTES = 256 << 20
"""Findings with more bytes are checked by file size only before a report, not by checksum."""

_DAMAGE_ERRORS = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError)


@contextmanager
def damage_named(*runs: str) -> Iterator[None]:
    """Convert an error from a damaged run into one that names the damaged part.

    Raises:
        RunError: a part of one of these runs is damaged.
    """
    try:
        yield
    except RunUsageError:
        raise
    except RunError as error:
        if str(error).endswith(REMEDY):
            raise
        _name_damage(runs)
        raise damaged(" or ".join(runs), error) from error
    except _DAMAGE_ERRORS:
        _name_damage(runs)
        raise


@contextmanager
def opened_run(run: str, *tables: str) -> Iterator[None]:
    """Check a finished run for the tables that the block needs. Name damage as `damage_named` does.

    Otherwise a count over a missing table would look like an empty result.

    Raises:
        RunError: one of the tables is missing, or another part of the run is damaged.
    """
    with damage_named(run):
        require_tables(RunDirectory(run), tables)
        yield


def require_tables(run: RunDirectory, tables: Sequence[str]) -> None:
    """Raise an error if a finished run lacks one of these tables, or one that its manifest lists.

    A missing run is left to its reader. A run of an earlier version has no list in its manifest.

    Raises:
        RunError: the first missing table.
    """
    if not run.exists(REPORT):
        return
    present_names = {*run.names("tables")}
    missing_names = [name for name in _read_note(run, "tables", list[str]) or () if name not in present_names]
    for name in (*missing_names, *(table for table in tables if not run.sizes(f"tables/{table}"))):
        raise damaged(f"{run.path}/tables/{name}", "it is missing")


def _name_damage(runs: Sequence[str]) -> None:
    for run in runs:
        require_whole_tables(RunDirectory(run))


def require_whole_tables(tables: RunDirectory) -> None:
    """Read every file of the findings and tables to its end.

    Raises:
        RunError: one is missing, broken, or has other columns. The message names it.
    """
    for name in ["findings", *(f"tables/{table}" for table in tables.names("tables") if table in TABLES)]:
        schema = FINDINGS if name == "findings" else TABLES[name.removeprefix("tables/")].columns
        tables.require_columns(name, schema.names)
        for _ in tables.batches(name):
            pass


def require_whole_findings(tables: RunDirectory) -> None:
    """Check the files of all findings against the manifest, and read them.

    Nothing is checked without a manifest, or if it lists none (an earlier version's).

    Raises:
        RunError: one of them is missing, broken, or another table's.
    """
    present_note = _read_note(tables, "findings", dict[str, int])
    if present_note is None:
        return
    sizes = tables.sizes("findings")
    for name, size in present_note.items():
        if sizes.get(name) != size:
            damage = "it is not there" if name not in sizes else f"it has {sizes[name]:,} bytes of {size:,}"
            raise damaged(f"{tables.path}/findings/{name}", damage)
    if sum(present_note.values()) <= CHECKED_BYTES:
        for _ in tables.batches("findings"):
            pass


def _read_note(run: RunDirectory, key: str, form: type[Note]) -> Note | None:
    """Return the manifest's value of ``key`` about files. None if it is unreadable or missing."""
    try:
        present_note: Note = read_value(parse_json(run.read_file(MANIFEST))[key], form, key)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return present_note

"""Which part of a finished run is damaged: looked for where the run cannot be shown, and before a report.

A damaged file may show as anything: a missing key, a row that no finding is of. So for whatever comes up
while a run is shown its own files are looked at first; if they are whole, it is a bug.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from auditor.errors import RunError, RunUsageError
from auditor.findings.table import FINDINGS
from auditor.model.json_shape import parse_json, read_value
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.runs.directory import WAY_OUT, RunDirectory, damaged
from auditor.tables.run_tables import TABLES

Noted = TypeVar("Noted")

CHECKED_BYTES = 256 << 20
"""Findings of more bytes than this are held to the sizes of their files before a report, not to checksums."""

_DAMAGE = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError)


@contextmanager
def damage_named(*runs: str) -> Iterator[None]:
    """Turn an error that comes of a damaged run into one that names the part of it.

    Raises:
        RunError: a part of one of these runs is damaged.
    """
    try:
        yield
    except RunUsageError:
        raise
    except RunError as error:
        if str(error).endswith(WAY_OUT):
            raise
        _name_damage(runs)
        raise damaged(" or ".join(runs), error) from error
    except _DAMAGE:
        _name_damage(runs)
        raise


@contextmanager
def opened_run(run: str, *tables: str) -> Iterator[None]:
    """Hold a finished run to the tables that the block rests on; its damage is named as `damage_named` does.

    An answer that only counts what is in a table would else be "nothing" where the table is gone.

    Raises:
        RunError: one of the tables is missing, or another part of the run is damaged.
    """
    with damage_named(run):
        require_tables(RunDirectory(run), tables)
        yield


def require_tables(run: RunDirectory, tables: Sequence[str]) -> None:
    """Refuse a finished run without one of these tables, or without one that its manifest notes.

    A run that is not there is left to its reader. One whose manifest notes no tables, an earlier version's,
    may have any.

    Raises:
        RunError: the first that is missing.
    """
    if not run.exists(REPORT):
        return
    present_names = {*run.names("tables")}
    missing_names = [name for name in _noted(run, "tables", list[str]) or () if name not in present_names]
    for name in (*missing_names, *(table for table in tables if not run.sizes(f"tables/{table}"))):
        raise damaged(f"{run.path}/tables/{name}", "it is missing")


def _name_damage(runs: Sequence[str]) -> None:
    for run in runs:
        require_whole_tables(RunDirectory(run))


def require_whole_tables(tables: RunDirectory) -> None:
    """Read every file of the findings and of the tables to its end.

    Raises:
        RunError: one is missing, broken, or of other columns; the message names it.
    """
    for name in ["findings", *(f"tables/{table}" for table in tables.names("tables") if table in TABLES)]:
        schema = FINDINGS if name == "findings" else TABLES[name.removeprefix("tables/")].columns
        tables.require_columns(name, schema.names)
        for _ in tables.batches(name):
            pass


def require_whole_findings(tables: RunDirectory) -> None:
    """See that the files of all findings are those that the manifest notes, and that they can be read.

    Of a run whose manifest notes none (an earlier version's), or without a manifest, nothing is known.

    Raises:
        RunError: one of them is missing, broken, or another table's.
    """
    noted = _noted(tables, "findings", dict[str, int])
    if noted is None:
        return
    sizes = tables.sizes("findings")
    for name, size in noted.items():
        if sizes.get(name) != size:
            why = "it is not there" if name not in sizes else f"it has {sizes[name]:,} bytes of {size:,}"
            raise damaged(f"{tables.path}/findings/{name}", why)
    if sum(noted.values()) <= CHECKED_BYTES:
        for _ in tables.batches("findings"):
            pass


def _noted(run: RunDirectory, key: str, form: type[Noted]) -> Noted | None:
    """What the manifest notes of the run's files; None where it cannot be read, or notes nothing."""
    try:
        noted: Noted = read_value(parse_json(run.read_file(MANIFEST))[key], form, key)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return noted

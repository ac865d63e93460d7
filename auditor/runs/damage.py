"""Which part of a finished run is damaged: looked for where the run cannot be shown, and before a report.

A damaged file may show as anything: a missing key, a row that no finding is of. So for whatever comes up
while a run is shown its own files are looked at first; if they are whole, it is a bug.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from auditor.errors import RunError, RunUsageError
from auditor.findings.table import FINDINGS
from auditor.model.json_shape import parse_json, read_value
from auditor.model.run_facts import MANIFEST
from auditor.runs.directory import WAY_OUT, RunDirectory, damaged
from auditor.tables.run_tables import TABLES

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


def _name_damage(runs: Sequence[str]) -> None:
    for run in runs:
        require_whole_tables(RunDirectory(run))


def require_whole_tables(tables: RunDirectory) -> None:
    """Read every file of the findings and of the tables to its end.

    Raises:
        RunError: one is missing, broken, or of other columns; the message names it.
    """
    for name in ["findings", *(f"tables/{each}" for each in tables.names("tables") if each in TABLES)]:
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
    noted = _noted_files(tables)
    if noted is None:
        return
    there = tables.sizes("findings")
    for name, size in noted.items():
        if there.get(name) != size:
            why = "it is not there" if name not in there else f"it has {there[name]:,} bytes of {size:,}"
            raise damaged(f"{tables.path}/findings/{name}", why)
    if sum(noted.values()) <= CHECKED_BYTES:
        for _ in tables.batches("findings"):
            pass


def _noted_files(tables: RunDirectory) -> dict[str, int] | None:
    try:
        noted = parse_json(tables.read_file(MANIFEST))["findings"]
        found: dict[str, int] = read_value(noted, dict[str, int], "findings")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found

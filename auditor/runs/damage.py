"""Search for the damaged part of a finished run, after an error or before a report is made.

A damaged file may cause any error, such as a missing key or a row without a finding. After such an error,
this module reads all files of the run. If no file is damaged, the error is a bug of the program.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from auditor.errors import RunError, RunUsageError
from auditor.findings.table import FINDINGS_SCHEMA
from auditor.model.json_shape import parse_json, read_value
from auditor.model.run_facts import MANIFEST, REPORT
from auditor.runs.directory import DAMAGE_REMEDY, RunDirectory, damage_error
from auditor.tables.run_tables import TABLES

ManifestValue = TypeVar("ManifestValue")

MAX_CHECKED_BYTES = 256 << 20
"""Largest size of the findings, in bytes, for which their checksums are verified before a report.

If the findings are larger, only the sizes of their files are compared with the manifest.
"""

_DAMAGE_ERRORS = (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError)


@contextmanager
def translate_damage(*runs: str) -> Iterator[None]:
    """Convert an error that a damaged run causes in the ``with`` block into one that names the damaged part.

    Raises:
        RunError: a part of one of these runs is damaged.
    """
    try:
        yield
    except RunUsageError:
        raise
    except RunError as error:
        if str(error).endswith(DAMAGE_REMEDY):
            raise
        _find_damage(runs)
        raise damage_error(" or ".join(runs), error) from error
    except _DAMAGE_ERRORS:
        _find_damage(runs)
        raise


@contextmanager
def check_run(run: str, *tables: str) -> Iterator[None]:
    """Check that a finished run has ``tables``, and run the ``with`` block inside `translate_damage`.

    Without this check, a count over a missing table would look like an empty result.

    Raises:
        RunError: one of the tables is missing, or another part of the run is damaged.
    """
    with translate_damage(run):
        require_tables(RunDirectory(run), tables)
        yield


def require_tables(run: RunDirectory, tables: Sequence[str]) -> None:
    """Raise an error if a finished run lacks one of ``tables``, or a table that its manifest lists.

    A directory without a finished run passes this check, because the code that opens the run reports it.
    The manifest of a run of an earlier version lists no tables.

    Raises:
        RunError: a table is missing. The message names the first one.
    """
    if not run.exists(REPORT):
        return
    present_names = {*run.names("tables")}
    missing_names = [
        name for name in _read_manifest_value(run, "tables", list[str]) or () if name not in present_names
    ]
    for name in (*missing_names, *(table for table in tables if not run.sizes(f"tables/{table}"))):
        raise damage_error(f"{run.path}/tables/{name}", "missing")


def _find_damage(runs: Sequence[str]) -> None:
    for run in runs:
        require_whole_tables(RunDirectory(run))


def require_whole_tables(tables: RunDirectory) -> None:
    """Read every file of the findings and the tables to its end.

    Raises:
        RunError: a file is missing, is broken, or lacks a column. The message names the file.
    """
    for name in ["findings", *(f"tables/{table}" for table in tables.names("tables") if table in TABLES)]:
        schema = FINDINGS_SCHEMA if name == "findings" else TABLES[name.removeprefix("tables/")].columns
        tables.require_columns(name, schema.names)
        for _ in tables.batches(name):
            pass


def require_whole_findings(tables: RunDirectory) -> None:
    """Compare the sizes of the findings' files with the manifest, and verify their checksums.

    The checksums are not verified if the files have more than `MAX_CHECKED_BYTES` together. Nothing is
    checked if the manifest is missing. Nothing is checked either if an earlier version wrote the manifest,
    which then lists no files of findings.

    Raises:
        RunError: a file of the findings is missing, broken, or belongs to another table.
    """
    listed_sizes = _read_manifest_value(tables, "findings", dict[str, int])
    if listed_sizes is None:
        return
    file_sizes = tables.sizes("findings")
    for name, listed_size in listed_sizes.items():
        if file_sizes.get(name) != listed_size:
            damage_text = (
                "missing"
                if name not in file_sizes
                else f"the file has {file_sizes[name]:,} bytes instead of {listed_size:,}"
            )
            raise damage_error(f"{tables.path}/findings/{name}", damage_text)
    if sum(listed_sizes.values()) <= MAX_CHECKED_BYTES:
        for _ in tables.batches("findings"):
            pass


def _read_manifest_value(
    run: RunDirectory, manifest_key: str, value_type: type[ManifestValue]
) -> ManifestValue | None:
    """Return the value of ``manifest_key`` in the run's manifest.

    None if the manifest lacks the key or cannot be read.
    """
    try:
        manifest_value: ManifestValue = read_value(
            parse_json(run.read_file(MANIFEST))[manifest_key], value_type, manifest_key
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest_value

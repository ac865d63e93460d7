"""A run directory, for the audit that writes it and for all readers, without Spark.

A table is complete once its ``_SUCCESS`` file exists. Readers verify the checksums of Parquet pages.
`auditor.model.run_facts` lists the content of the directory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

from auditor.errors import WRONG_PATH_ERRNOS, RunError, RunUnreadableError, RunUsageError
from auditor.model.arrow import ds, fs, pa, pq
from auditor.model.batch_bounds import whole_batch_rows
from auditor.model.finding import Severity
from auditor.model.json_shape import parse_json
from auditor.model.option_values import NEW_FINDINGS, FailOn
from auditor.model.report import Report
from auditor.model.run_facts import DONE_FILE, MANIFEST, REPORT
from auditor.model.source_scope import DATA_AS_OF
from auditor.sources.file_systems import require_file, run_files
from auditor.sources.object_stores import service_error_text
from auditor.sources.regular_file import read_at_most

MAX_FILE_BYTES = 256 << 20
"""Largest size of a report or manifest, in bytes. Their content is bounded: a longer file is damaged."""

_MAX_BATCH_ROWS = 8_192
"""Largest number of rows of a batch. A thousand findings take some megabytes as Python objects."""

_JSON_OBJECT_KEYS = ("identity", "reusable")
"""Keys of the manifest whose values are JSON objects."""

DAMAGE_REMEDY = "restore a complete copy of it, or audit again"


def damage_error(path: str, cause: object) -> RunError:
    """Return the error for an unusable part of a run. Its message names the part, the problem and the remedy.

    An OSError without an error number counts as damage, because Arrow raises it for damaged files.

    >>> print(damage_error("runs/1/report.json", "report has no verdict"))
    runs/1/report.json is damaged (report has no verdict): restore a complete copy of it, or audit again
    >>> print(damage_error("runs/1/report.json", PermissionError(13, "Permission denied")))
    runs/1/report.json cannot be read: Permission denied
    """
    if isinstance(cause, OSError) and cause.errno is not None and cause.errno not in WRONG_PATH_ERRNOS:
        return RunUnreadableError(f"{path} cannot be read: {os.strerror(cause.errno)}")
    if (service_message := service_error_text(cause)) is not None:
        return RunUnreadableError(f"{path} cannot be read: {service_message}")
    if isinstance(cause, FileNotFoundError):
        reason = "missing"
    elif isinstance(cause, KeyError):
        reason = f"it has no {cause}"
    else:
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
    return RunError(f"{path} is damaged ({reason}): {DAMAGE_REMEDY}")


def fail_on_of(run: str, read_bytes: Callable[[str], bytes]) -> tuple[FailOn, bool]:
    """Return the values of ``--fail-on`` and ``--fail-on-suspect`` that decided a run's exit code.

    ``read_bytes`` takes the name of a file of the run and returns its bytes. The manifest of an older
    version has no ``--fail-on-suspect``. The value is then False.

    Raises:
        RunError: the manifest does not have ``--fail-on``.

    >>> fail_on_of("runs/1", lambda name: b'{"identity": {"options": {"fail_on": "new"}}}')
    ('new', False)
    """
    try:
        options: dict[str, Any] = parse_json(read_bytes(MANIFEST))["identity"]["options"]
        fail_on_text = options["fail_on"]
        return "new" if fail_on_text == NEW_FINDINGS else Severity(fail_on_text), bool(
            options.get("fail_on_suspect", False)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(f"{run}/{MANIFEST}", error) from error


def data_time_of(report: Report, run: str, read_bytes: Callable[[str], bytes]) -> int:
    """Return the time of the oldest data on which a run is based, in ms since 1970.

    The manifest of an older version lacks this time. The result is then the scan time or the end of the
    run, whichever is earlier.

    Args:
        report: The run's report.
        run: Path of the run's directory, for messages.
        read_bytes: Function that takes the name of a file of the run and returns its bytes.

    Raises:
        RunError: the manifest cannot be read.
    """
    try:
        data_time = parse_json(read_bytes(MANIFEST)).get(DATA_AS_OF)
        return min(report.run.scan_time, report.run.finished) if data_time is None else int(data_time)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise damage_error(f"{run}/{MANIFEST}", error) from error


class RunDirectory:
    """The directory of one run: a local path, or a URI of a file system that Spark and pyarrow support.

    In every method, ``table_path`` is ``findings``, or ``tables/`` and a table's name.

    Raises:
        RunError: from any method that reads a table, if a part of the run is missing or broken. The message
            names the part.
        RunUsageError: from any method, if no supported file system has the path.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_claimed = False

    @cached_property
    def _file_system_and_path(self) -> tuple[Any, str]:
        return run_files(self.path)

    def locate(self, name: str) -> tuple[Any, str]:
        """Return the file system of the run, and the path of ``name`` in that file system."""
        files, base_path = self._file_system_and_path
        return files, f"{base_path}/{name}"

    def exists(self, name: str) -> bool:
        """Return whether a file or directory of the run exists.

        Raises:
            RunUnreadableError: an object store cannot be reached, or does not tell whether the file exists.
        """
        files, path = self.locate(name)
        try:
            return bool(files.get_file_info(path).type != fs.FileType.NotFound)
        except OSError as error:
            if (service_message := service_error_text(error)) is None:
                raise
            raise RunUnreadableError(f"{self.path}/{name} cannot be read: {service_message}") from error

    def read_file(self, name: str) -> bytes:
        """Return the bytes of a file of the run. Raises OSError if the file cannot be read."""
        files, path = self.locate(name)
        require_file(files, path)
        with files.open_input_stream(path) as stream:
            return read_at_most(stream, MAX_FILE_BYTES)

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return the value of a JSON file of the run. None if the file does not exist.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file is not JSON.
        """
        if not self.exists(name):
            return None
        json_object: dict[str, Any] = parse_json(self.read_file(name))
        return json_object

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest of the run. Empty if there is no manifest.

        Raises:
            RunError: the manifest is damaged, or cannot be read.
        """
        path = f"{self.path}/{MANIFEST}"
        try:
            manifest = self.read_json(MANIFEST)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise damage_error(path, error) from error
        if manifest is None:
            return {}
        if not isinstance(manifest, dict):
            raise damage_error(path, "the file is not a JSON object")
        for name in _JSON_OBJECT_KEYS:
            if not isinstance(manifest.get(name), dict | None):
                raise damage_error(path, f"{name} is not a JSON object")
        return manifest

    def names(self, table_path: str) -> list[str]:
        """Return the sorted names of the files and directories in a directory of the run."""
        files, base_path = self._file_system_and_path
        try:
            file_infos = files.get_file_info(fs.FileSelector(f"{base_path}/{table_path}"))
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise damage_error(f"{self.path}/{table_path}", error) from error
        return sorted(file_info.base_name for file_info in file_infos)

    def read(
        self, table_path: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> pa.Table:
        """Return rows of a table as one pyarrow Table, all of it in memory.

        ``columns`` and ``filter`` choose columns and rows. None chooses all.
        """
        try:
            return self.dataset(table_path).to_table(
                columns=list(columns) if columns else None, filter=filter
            )
        except (OSError, pa.ArrowException, UnicodeDecodeError, KeyError) as error:
            raise damage_error(f"{self.path}/{table_path}", error) from error

    def batches(
        self, table_path: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a table's rows in file order. Memory holds one batch, or with a ``filter`` one whole file."""
        column_list = list(columns) if columns else None
        try:
            dataset = self.dataset(table_path)
            # File by file: a scan of all of them reads as far ahead as a gibibyte takes it.
            for fragment in dataset.get_fragments(filter):
                if filter is None:
                    yield from self._file_batches(
                        fragment.path, column_list or dataset.schema.names, dataset.schema
                    )
                else:
                    yield from fragment.to_batches(schema=dataset.schema, columns=column_list, filter=filter)
        except (OSError, pa.ArrowException, UnicodeDecodeError, KeyError) as error:
            raise damage_error(f"{self.path}/{table_path}", error) from error

    def _file_batches(self, path: str, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a file in batches.

        A scan by pyarrow.dataset would read the whole file ahead of a slow consumer.
        """
        chosen_schema = pa.schema([schema.field(name) for name in columns])
        with (
            self._file_system_and_path[0].open_input_file(path) as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            for row_group in range(file.num_row_groups):
                batch_rows = whole_batch_rows(file.metadata, row_group, _MAX_BATCH_ROWS)
                for batch in file.iter_batches(batch_rows, [row_group], columns):
                    yield batch.select(columns).cast(chosen_schema)

    def sizes(self, table_path: str) -> dict[str, int]:
        """Return the size of each Parquet file of a table in bytes, by file name. Empty without the table."""
        files, path = self.locate(table_path)
        file_infos = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        sizes_by_name = {file_info.base_name: file_info.size or 0 for file_info in file_infos}
        return {name: sizes_by_name[name] for name in sorted(sizes_by_name) if name.endswith(".parquet")}

    def count(self, table_path: str) -> int:
        """Return the number of rows of a table, from the footers of its files."""
        return int(self.dataset(table_path).count_rows())

    def require_columns(self, table_path: str, column_names: Sequence[str]) -> None:
        """Raise an error for a file that lacks one of these columns, and so belongs to another table."""
        try:
            for fragment in self.dataset(table_path).get_fragments():
                if missing := [name for name in column_names if name not in fragment.physical_schema.names]:
                    file_name = fragment.path.rpartition("/")[2]
                    reason = f"column {missing[0]} is missing: the file belongs to another table or version"
                    raise damage_error(f"{self.path}/{table_path}/{file_name}", reason)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise damage_error(f"{self.path}/{table_path}", error) from error

    def dataset(self, table_path: str) -> ds.Dataset:
        """Return the files of one table as a pyarrow Dataset."""
        files, base_path = self._file_system_and_path
        file_names = [name for name in self.names(table_path) if name.endswith(".parquet")]
        if not file_names:
            raise damage_error(f"{self.path}/{table_path}", "the table has no Parquet file")
        try:
            for file_name in file_names:
                require_file(files, f"{base_path}/{table_path}/{file_name}")
            # Named one by one: the order of the files is the order of the rows.
            return ds.dataset(
                [f"{base_path}/{table_path}/{name}" for name in file_names],
                filesystem=files,
                format=_verify_checksums(),
            )
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise damage_error(f"{self.path}/{table_path}", error) from error

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Write a JSON file of the run. A local file is replaced atomically."""
        files, base_path = self._file_system_and_path
        files.create_dir(base_path, recursive=True)
        path = f"{base_path}/{name}"
        with files.open_output_stream(f"{path}.part") as stream:
            stream.write((json.dumps(value, indent=2) + "\n").encode())
        files.move(f"{path}.part", path)

    def write_table(self, table_path: str, table: pa.Table) -> None:
        """Write a table as Spark would, and its ``_SUCCESS`` file last.

        The remains of an interrupted write are removed first.
        """
        self.remove(table_path)
        files, path = self.locate(table_path)
        files.create_dir(path, recursive=True)
        # With checksums, as Spark writes them: whoever reads it is held to them.
        pq.write_table(table, f"{path}/part-00000.snappy.parquet", filesystem=files, write_page_checksum=True)
        files.open_output_stream(f"{path}/{DONE_FILE}").close()

    def remove(self, name: str) -> None:
        """Delete a directory of intermediate results."""
        if self.exists(name):
            files, path = self.locate(name)
            files.delete_dir(path)

    def oldest_table_ms(self) -> int | None:
        """Return when the oldest complete table was written, in ms since 1970. None if there is none."""
        files, path = self.locate("tables")
        tables = [
            file_info.path for file_info in files.get_file_info(fs.FileSelector(path, allow_not_found=True))
        ]
        markers = files.get_file_info([f"{table}/{DONE_FILE}" for table in tables]) if tables else []
        write_times = [marker.mtime_ns // 1_000_000 for marker in markers if marker.type == fs.FileType.File]
        return min(write_times, default=None)

    def delete_tables(self) -> None:
        """Delete all tables of an unfinished run. Only its identity (sources and options) stays."""
        manifest = self.read_manifest()
        for name in ("findings", "tables"):
            self.remove(name)
        self.write_json(MANIFEST, {"identity": manifest.get("identity")})

    @contextmanager
    def claim_directory(self, identity: dict[str, Any]) -> Iterator[None]:
        """Claim the directory for a run with `begin_run`, for the ``with`` block.

        ``identity`` has the sources and options of the run. If the block fails before a table is written, the
        claim is released. Without this release, no other run could use the directory after the failure. The
        cause of a failure may be a store that does not answer.
        """
        self.begin_run(identity)
        self._is_claimed = True
        try:
            yield
        except BaseException as error:
            if isinstance(error, Exception):
                self.check_claim(error)
            with suppress(OSError):  # the error that ended the run is the one to tell
                if not self.exists("tables"):
                    files, path = self.locate(MANIFEST)
                    files.delete_file(path)
            raise

    def check_claim(self, cause: Exception | None = None) -> None:
        """Raise an error if somebody deleted the claimed directory and the complete tables in it.

        Tables that were written after the deletion are removed first, so that the same command can start
        again.
        """
        if self._is_claimed and not self.exists(MANIFEST):
            for name in ("findings", "tables"):
                self.remove(name)
            raise RunUsageError(
                f"--out {self.path}: was deleted while the audit ran; run the same command again"
            ) from cause

    def add_to_manifest(self, manifest_entries: dict[str, Any]) -> None:
        """Write ``manifest_entries`` into the manifest. They replace values that have the same keys."""
        self.check_claim()
        self.write_json(MANIFEST, {**self.read_manifest(), **manifest_entries})

    def begin_run(self, identity: dict[str, Any]) -> bool:
        """Claim the directory for a run. Return whether the run resumes an unfinished run.

        ``identity`` has the sources and options of the run. Only an unfinished run with the same identity
        is resumed. Results of a different run are never overwritten.

        Raises:
            RunError: the directory has the results of a different run.
        """
        files, base_path = self._file_system_and_path
        if files.get_file_info(base_path).type == fs.FileType.File:
            raise RunUsageError(f"--out {self.path}: is a file; choose a new directory")
        if self.exists(REPORT):
            raise RunUsageError(f"--out {self.path}: contains a finished run; choose another directory")
        manifest = self.read_manifest()
        if not self.exists(MANIFEST):
            if self.exists("tables"):
                raise RunUsageError(
                    f"--out {self.path}: contains tables but no manifest; choose another directory"
                )
            self.write_json(MANIFEST, {"identity": identity})
            return False
        if manifest.get("identity") != identity and not self.exists("tables"):
            # The run before got no further than its first question: a mistyped host, say.
            self.write_json(MANIFEST, {"identity": identity})
            return False
        if manifest.get("identity") != identity:
            raise RunUsageError(
                f"--out {self.path}: contains an unfinished run with different sources or options; choose "
                "another directory"
            )
        return True


def _verify_checksums() -> ds.ParquetFileFormat:
    """Return a Parquet format that verifies page checksums, which Spark and this program write."""
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)

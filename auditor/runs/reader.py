"""A finished run, opened again without Spark: its report, and its tables as they are asked for.

Runs may lie on any file system that pyarrow knows; local ones need no more than their path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.errors import RunError, RunUsageError
from auditor.model.report import Report
from auditor.runs.findings import Findings, findings_of
from auditor.runs.tables import RunTables, damaged
from auditor.sources.file_systems import REPORT, require_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


class RunReader:
    """What one audit wrote. Nothing is read before it is asked for, but for the report.

    Raises:
        RunError: from any method, where a part of the run is missing or broken; the message names it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._tables = RunTables(self.path)
        self.report = self._read_report()

    @property
    def findings(self) -> Findings:
        """Every finding, in the order severity, id, scope, ledger, bookie; each iteration reads anew."""
        return Findings(self._tables, self.report)

    def findings_of(self, bookie_id: str) -> Iterator[dict[str, Any]]:
        """The findings about a bookie, or in which it lacks entries or is unknown: what they say in short.

        Rows of id, severity, confidence, scope_id, ledger_id, fingerprint, message, and ``missing``: how many
        entries this bookie lacks. They come in the order of the findings; no more than a batch is in memory.
        """
        return findings_of(self._tables, bookie_id)

    def table(
        self, name: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> pa.Table:
        """One table as a pyarrow Table; choose columns, and rows by a pyarrow.dataset expression.

        All of what is chosen is in memory: for a whole table of a large cluster take `tables`.
        """
        return self._tables.read(f"tables/{name}", columns, filter)

    def batches(
        self, below: str, columns: Sequence[str] | None = None, filter: ds.Expression | None = None
    ) -> Iterator[pa.RecordBatch]:
        """``findings`` or ``tables/NAME`` as pyarrow RecordBatches, in the order of the rows.

        No more than one is in memory: this is for what grows with the cluster.
        """
        return self._tables.batches(below, columns, filter)

    def table_names(self) -> list[str]:
        """The names of the tables that this run has."""
        return [name for name in self._tables.names("tables") if not name.startswith(("_", "."))]

    def _read_report(self) -> Report:
        files, base = self._tables.files
        import pyarrow as pa

        try:
            require_file(files, f"{base}/{REPORT}")
            with files.open_input_stream(f"{base}/{REPORT}") as stream:
                text = stream.read()
        except FileNotFoundError as error:
            raise RunUsageError(f"{self.path}: no finished run is here (no {REPORT})") from error
        except (OSError, pa.ArrowException) as error:
            raise damaged(f"{self.path}/{REPORT}", error) from error
        try:
            return Report.from_json(bytes(text))
        except RunUsageError as error:
            raise RunUsageError(f"{self.path}/{REPORT}: {error}") from error
        except RunError as error:
            raise damaged(f"{self.path}/{REPORT}", error) from error

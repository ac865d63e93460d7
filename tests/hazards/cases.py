"""Artificial clusters in which wrong advice can destroy data (tests/data/hazards), unpacked and audited.

Each archive has a metadata dump and the directories of bookies. A program that shares no code with this one
wrote them. Each case is audited once per test run, and a second time if a test needs it. An action that
deletes for good needs a second run, and the first run's holds carry over to the second.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import Audit
from auditor.model.options import AuditOptions
from auditor.runs.reader import RunReader
from tests.corpora.shared import make_once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARCHIVES = Path(__file__).parents[1] / "data" / "hazards"
CASES = tuple(sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz")))
HOUR_MS = 3_600_000

OPTIONS: dict[str, dict[str, Any]] = {
    "h2": {"entry_logs": True},
    "h3": {"entry_logs": True, "deep": True},
    "h5": {"entry_logs": True},
    "h11": {"entry_logs": True},
}
"""Options of `AuditOptions` that a case needs."""


@dataclass(frozen=True)
class HazardCase:
    """An unpacked case: its name, the URI of its metadata, and the directory of its bookies."""

    name: str
    metadata: str
    bookies: str

    @property
    def options(self) -> AuditOptions:
        """Return the options of the case's audits."""
        return AuditOptions(**OPTIONS.get(self.name, {}))


def lay_out(name: str, place: Path) -> None:
    """Unpack a case into a directory."""
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        archive.extractall(place, filter="data")


def case_at(name: str, place: Path) -> HazardCase:
    """Return the case that was unpacked into a directory."""
    return HazardCase(name, f"dump://{place / name / 'metadata.jsonl'}", str(place / name / "bookies"))


class Hazards:
    """The hazard cases and their audits, shared by all processes of a test run."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self._root = root
        self._spark = spark
        self.case = cache(self._case)

    def _case(self, name: str) -> HazardCase:
        place = make_once(self._root, f"hazard-{name}", lambda place: lay_out(name, place))
        return case_at(name, place)

    def run(self, name: str, number: int = 1) -> RunReader:
        """Return the first or second audit of a case, opened as of one hour after its scan."""
        return open_after_scan(self.run_path(name, number))

    def run_path(self, name: str, number: int = 1) -> Path:
        """Return the directory of the first or second audit of a case."""
        case = self.case(name)
        if number > 1:
            self.run_path(name, number - 1)

        def audit(place: Path) -> None:
            place.rmdir()
            Audit(case.metadata, [case.bookies], str(place), case.options).run(self._spark)

        return make_once(self._root / f"runs-of-hazard-{name}", str(number), audit)


def open_after_scan(path: Path | str) -> RunReader:
    """Open a finished run, with its holds as of one hour after its scan, whenever the test runs."""
    run = RunReader(path)
    run.holds.now_ms = run.report.run.scan_time + HOUR_MS
    return run

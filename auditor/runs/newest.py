"""The newest finished run of a directory, found by names and times alone, without reading a report."""

from pathlib import Path

from auditor.errors import UsageError
from auditor.model.run_facts import REPORT


def check_runs_directory(directory: Path) -> None:
    """Raise an error if a directory of runs does not exist.

    Raises:
        UsageError: there is no such directory. The message says that an audit makes it.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory; bkaudit audit creates it with the first run")


def newest_report(runs: str | Path) -> Path:
    """Return the report of the newest finished run directly below ``runs``, or of the run ``runs`` itself.

    Only local directories are supported. The code for object stores would take longer to load than the
    search takes.

    Raises:
        UsageError: ``runs`` does not exist, is not local, or has no finished run in it.
    """
    if "://" in str(runs):
        raise UsageError(f"{runs}: not a local directory. bkaudit history reads runs on any file system")
    directory = Path(runs)
    if (directory / REPORT).is_file():
        return directory / REPORT
    check_runs_directory(directory)
    reports = [(report.stat().st_mtime_ns, report) for report in directory.glob(f"*/{REPORT}")]
    if not reports:
        raise UsageError(f"no finished run in {runs}; make one with bkaudit audit --out {runs}/NAME")
    return max(reports)[1]

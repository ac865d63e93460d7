"""The newest finished run of a directory, found by looking at names and times alone: no report is read."""

from pathlib import Path

from auditor.errors import UsageError
from auditor.model.run_facts import REPORT


def check_runs_directory(directory: Path) -> None:
    """Say how a directory of runs comes about, where there is none.

    Raises:
        UsageError: no such directory.
    """
    if not directory.is_dir():
        raise UsageError(f"{directory}: no such directory; bkaudit audit makes it with the first run")


def newest_report(runs: str | Path) -> Path:
    """The report of the newest finished run right below ``runs``, or of the run that ``runs`` is.

    Local directories only: what lies elsewhere needs a library that takes longer to load than this to answer.

    Raises:
        UsageError: no such directory, or no finished run in it.
    """
    if "://" in str(runs):
        raise UsageError(f"{runs}: only local directories are looked at; bkaudit history takes any")
    directory = Path(runs)
    if (directory / REPORT).is_file():
        return directory / REPORT
    check_runs_directory(directory)
    reports = [(report.stat().st_mtime_ns, report) for report in directory.glob(f"*/{REPORT}")]
    if not reports:
        raise UsageError(f"no finished run is in {runs}; bkaudit audit --out {runs}/NAME makes one")
    return max(reports)[1]

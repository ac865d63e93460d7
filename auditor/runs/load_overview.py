"""What ``bkaudit explain run`` tells, read from the parts of a run that are small; without Spark."""

from typing import Any, Literal, NamedTuple

from auditor.model.finding import Severity
from auditor.model.json_shape import parse_json
from auditor.model.run_facts import MANIFEST
from auditor.model.states import BookieRead
from auditor.model.views import RunView, UnreadBookie
from auditor.runs.directory import damaged
from auditor.runs.load_bookie import storages
from auditor.runs.reader import RunReader
from auditor.runs.standings import standings_of

UNREAD_SHOWN = 10


def run_view(run: RunReader) -> RunView:
    """Why a run says what it says.

    Raises:
        RunError: a table of the run is missing or broken.
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    wanted = (ds.field("named") | ds.field("found")) & (ds.field("read") != BookieRead.READ)
    options = _options(run)
    unread = run.table("bookies", ["bookie_id", "read", "reason", "replicas"], wanted)
    order = pc.sort_indices(unread, [("replicas", "descending"), ("bookie_id", "ascending")])
    return RunView(
        path=run.path,
        report=run.report,
        directories=run.table("directories", ["path"]).num_rows,
        unread=tuple(UnreadBookie(**row) for row in unread.take(order[:UNREAD_SHOWN]).to_pylist()),
        fail_on=options.fail_on,
        fail_on_suspect=options.fail_on_suspect,
        storages=storages(run),
        standings=standings_of(
            run.directory, run.report, [finding.fingerprint for finding in run.report.findings]
        ),
    )


class _Options(NamedTuple):
    fail_on: Severity | Literal["new"]
    fail_on_suspect: bool


def _options(run: RunReader) -> _Options:
    """Those that the exit code comes from: a run of an older version has the first alone."""
    try:
        manifest: dict[str, Any] = parse_json(run.directory.read_file(MANIFEST))
        options = manifest["identity"]["options"]
        value = options["fail_on"]
        return _Options(
            "new" if value == "new" else Severity(value),
            bool(options.get("fail_on_suspect", False)),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(f"{run.path}/{MANIFEST}", error) from error

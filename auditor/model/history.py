"""Summaries of runs, which are created from their reports, and differences between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

from auditor.model.finding import Confidence, Severity
from auditor.model.finding_words import CheckId, ConfidenceWord, SeverityWord
from auditor.model.json_shape import Count, DecimalId, SchemaFacet, TimeMs, about
from auditor.model.report import Report
from auditor.model.run_facts import Changes
from auditor.model.states import Change, Verdict

NOT_COMPARED = "not compared"
"""Beginning of each sentence that says why a run was not compared with an earlier one."""


class ClusterIdentity(Protocol):
    """An object that identifies a cluster: `auditor.model.report.Cluster`, or the summary of a run."""

    @property
    def instance_id(self) -> str | None:
        """Instance id in the cluster's store, or None if the store has none."""

    @property
    def metadata_uri(self) -> str:
        """URI from which the cluster's metadata was read."""


def cluster_key(cluster: ClusterIdentity) -> tuple[str | None, str | None]:
    """Return a cluster's key: its instance id, or the metadata URI if there is no instance id.

    Two runs belong to the same cluster if and only if their keys are equal.

    >>> from auditor.model.report import Cluster
    >>> live, saved = Cluster("id", "zk://h1/ledgers", "flat"), Cluster("id", "file:///saved", "flat")
    >>> cluster_key(live) == cluster_key(saved)
    True
    >>> cluster_key(Cluster(None, "zk://h1/l", "flat")) == cluster_key(Cluster(None, "zk://h2/l", "flat"))
    False
    """
    return (cluster.instance_id, None) if cluster.instance_id is not None else (None, cluster.metadata_uri)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a finished run. Times are in milliseconds since 1970, UTC.

    ``path`` is the directory of the run. ``severities`` maps every severity to its number of findings.
    ``counts`` maps each check with findings to their number. ``changes`` is None if there was no earlier
    run to compare with.
    """

    path: str
    started: TimeMs
    finished: TimeMs
    scan_time: TimeMs
    instance_id: str | None
    metadata_uri: str
    verdict: Annotated[str, SchemaFacet("enum", (*Verdict,))]
    complete: bool
    severities: dict[str, int]
    counts: Mapping[str, Count]
    changes: Changes | None

    @classmethod
    def from_report(cls, path: str, report: Report) -> RunSummary:
        """Create the summary of the run at ``path`` from its report."""
        run = report.run
        return cls(
            path=path,
            started=run.started,
            finished=run.finished,
            scan_time=run.scan_time,
            instance_id=report.cluster.instance_id,
            metadata_uri=report.cluster.metadata_uri,
            verdict=report.verdict,
            complete=report.complete,
            severities={
                str(severity): sum(tally["count"] for tally in run.tally if tally["severity"] == severity)
                for severity in Severity
            },
            counts=report.counts,
            changes=run.changes,
        )

    @property
    def name(self) -> str:
        """Name of the run's directory."""
        return self.path.rstrip("/").rpartition("/")[2]


CHANGE_WORDS = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNCHECKED)
"""Changes of findings, without "same"."""

ChangeWord = Annotated[
    str,
    SchemaFacet("enum", CHANGE_WORDS),
    about("unseen: neither found nor ruled out, because the data that the finding depends on was not read"),
]


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding that differs between two runs, or that only one of them has.

    ``change`` is new, worse, better, fixed or unseen. Unseen means that the newer run neither found it nor
    ruled it out. The ``previous_`` fields come from the older run, and are None if the finding is new. All
    other fields come from the newer of the runs that found it. ``missing`` is the number of entries that
    are confirmed missing. ``suppressed`` is the reason in a suppression, or None. Times are in ms since
    1970.
    """

    change: ChangeWord
    id: CheckId
    severity: Annotated[SeverityWord, about("severity in the newer run that has the finding")]
    previous_severity: Annotated[
        str | None,
        SchemaFacet("enum", (*Severity, None)),
        about("severity in the older run; null: the finding is new"),
    ]
    confidence: ConfidenceWord
    previous_confidence: Annotated[
        str | None,
        SchemaFacet("enum", (*Confidence, None)),
        about("confidence in the older run; null: the finding is new"),
    ]
    scope_id: DecimalId
    ledger_id: DecimalId
    bookie_id: str | None
    missing: Annotated[Count, about("number of entries confirmed missing, summed over all bookies")]
    previous_missing: Count | None
    first_seen: TimeMs
    last_seen: TimeMs
    suppressed: Annotated[
        str | None, about("reason given in the suppression that accepts the finding; null: not suppressed")
    ]
    fingerprint: Annotated[str, SchemaFacet("pattern", "^[0-9a-f]{16}$")]


@dataclass(frozen=True, slots=True)
class ChangeTally:
    """Number of findings with the same check, severity and change."""

    change: ChangeWord
    id: CheckId
    severity: SeverityWord
    count: Count


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two runs.

    ``counts`` has the number of findings with each change: new, worse, better, fixed, unseen and same.
    ``tally`` splits these numbers by check and severity, and omits "same". Its rows are sorted by change,
    in the order of ``counts``, and then in the order of all reports. ``warnings`` are sentences for the
    people who read these numbers.
    """

    old: RunSummary
    new: RunSummary
    counts: dict[str, int]
    tally: tuple[ChangeTally, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Findings with the same check, severity, confidence and change: their number, and the first few."""

    change: str
    id: str
    severity: str
    confidence: str
    count: int
    first: tuple[ChangedFinding, ...]


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """Changes since an earlier run. Suppressed findings are left out.

    ``run`` is None if there is no run to compare with. ``groups`` are in the order of the findings. Groups
    of findings that are only in the earlier run are at the end. ``warnings`` are sentences for the people
    who read the changes.
    """

    run: RunSummary | None
    groups: tuple[ChangeGroup, ...] = ()
    warnings: tuple[str, ...] = ()

    def count(self, change: str) -> int:
        """Return the number of findings with this change."""
        return sum(group.count for group in self.groups if group.change == change)

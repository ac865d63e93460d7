"""Summaries of runs, made from their reports, and differences between two runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Protocol

from auditor.model.finding import Confidence, Severity
from auditor.model.finding_words import CheckId, ConfidenceWord, SeverityWord
from auditor.model.json_shape import Count, DecimalId, Facet, Time, about
from auditor.model.report import Report
from auditor.model.run_facts import Changes
from auditor.model.states import Change, Verdict

NOT_COMPARED = "not compared"
"""Beginning of each sentence that says why a run was not compared with an earlier one."""


class ClusterIdentity(Protocol):
    """Object with a cluster's identity: `auditor.model.report.Cluster`, or the summary of a run."""

    @property
    def instance_id(self) -> str | None:
        """Instance id from the cluster's store; None if it has none."""

    @property
    def metadata_uri(self) -> str:
        """URI from which the cluster's metadata was read."""


def cluster_key(cluster: ClusterIdentity) -> tuple[str | None, str | None]:
    """Return a cluster's key: its instance id, or the metadata URI if there is no instance id.

    Two runs have equal keys if, and only if, they are of one cluster.

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
    """Summary of a finished run; ``path`` is its directory, times are milliseconds since 1970, UTC.

    ``severities`` has the number of findings of every severity. ``counts`` has the number of findings of each
    check that found something. ``changes`` is None if there was no earlier run to compare with.
    """

    path: str
    started: Time
    finished: Time
    scan_time: Time
    instance_id: str | None
    metadata_uri: str
    verdict: Annotated[str, Facet("enum", (*Verdict,))]
    complete: bool
    severities: dict[str, int]
    counts: Mapping[str, Count]
    changes: Changes | None

    @classmethod
    def from_report(cls, path: str, report: Report) -> RunSummary:
        """Summarise the run at ``path`` from its report."""
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


CHANGED = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN)
"""Changes of findings, without "same"."""

ChangeWord = Annotated[
    str,
    Facet("enum", CHANGED),
    about("unseen: neither found nor ruled out, because the data that the finding depends on was not read"),
]


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding that differs between two runs; one of the runs may not have it.

    ``change`` is new, worse, better, fixed or unseen (neither found nor ruled out). Severity, confidence,
    ``missing`` (entries confirmed absent), times (ms since 1970) and ``suppressed`` (the reason of a
    suppression, or None) come from the newer of the runs that found it. The ``previous_`` fields come from
    the older run, and are None if the finding is new.
    """

    change: ChangeWord
    id: CheckId
    severity: Annotated[SeverityWord, about("severity in the newer of the runs that found it")]
    previous_severity: Annotated[
        str | None, Facet("enum", (*Severity, None)), about("null: the finding is new")
    ]
    confidence: ConfidenceWord
    previous_confidence: Annotated[
        str | None, Facet("enum", (*Confidence, None)), about("null: the finding is new")
    ]
    scope_id: DecimalId
    ledger_id: DecimalId
    bookie_id: str | None
    missing: Annotated[Count, about("number of entries confirmed missing, over all bookies")]
    previous_missing: Count | None
    first_seen: Time
    last_seen: Time
    suppressed: Annotated[
        str | None, about("reason in the suppression that accepts the finding; null: not suppressed")
    ]
    fingerprint: Annotated[str, Facet("pattern", "^[0-9a-f]{16}$")]


@dataclass(frozen=True, slots=True)
class ChangeTally:
    """Number of findings with one check, severity and change."""

    change: ChangeWord
    id: CheckId
    severity: SeverityWord
    count: Count


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between two runs: counts, a tally, and warnings for people who read these numbers.

    ``counts`` has a number for each of new, worse, better, fixed, unseen and same. ``tally`` has these
    numbers by id and severity, without "same". Its rows are sorted by change, in the order of ``counts``, and
    then in the order of all reports.
    """

    old: RunSummary
    new: RunSummary
    counts: dict[str, int]
    tally: tuple[ChangeTally, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Findings with one check, severity, confidence and change: their number, and the first few."""

    change: str
    id: str
    severity: str
    confidence: str
    count: int
    first: tuple[ChangedFinding, ...]


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """Changes since an earlier run, without suppressed findings.

    ``run`` is None if there is no run to compare with. ``groups`` are in the order of the findings; findings
    that only the earlier run has come last. ``warnings`` are sentences for people who read the changes.
    """

    run: RunSummary | None
    groups: tuple[ChangeGroup, ...] = ()
    warnings: tuple[str, ...] = ()

    def count(self, change: str) -> int:
        """Return the number of findings with this change."""
        return sum(group.count for group in self.groups if group.change == change)

"""One run of a history, as far as its report tells; and how two runs differ."""

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
"""How each sentence begins that says why a run was not compared with one before it."""


class OfCluster(Protocol):
    """What is of a cluster: `auditor.model.report.Cluster` itself, or a run of it."""

    @property
    def instance_id(self) -> str | None:
        """The instance id that the cluster's store keeps, None where it keeps none."""

    @property
    def metadata_uri(self) -> str:
        """Where the cluster's metadata was read."""


def cluster_key(cluster: OfCluster) -> tuple[str | None, str | None]:
    """What two runs have in common just if they are of one cluster.

    That is the instance id; where there is none, the metadata URI.

    >>> from auditor.model.report import Cluster
    >>> one, other = Cluster("id", "zk://h1/ledgers", "flat"), Cluster("id", "file:///saved", "flat")
    >>> cluster_key(one) == cluster_key(other)
    True
    >>> cluster_key(Cluster(None, "zk://h1/l", "flat")) == cluster_key(Cluster(None, "zk://h2/l", "flat"))
    False
    """
    return (cluster.instance_id, None) if cluster.instance_id is not None else (None, cluster.metadata_uri)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A finished run in a few numbers: ``path`` is its directory, times are milliseconds since 1970, UTC.

    ``severities`` has the number of findings of every severity, ``counts`` of every id that was found;
    ``changes`` is None where the run had none before it to compare with.
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
    def of(cls, path: str, report: Report) -> RunSummary:
        """The summary of the run at ``path``, from its report."""
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
        """The name of its directory."""
        return self.path.rstrip("/").rpartition("/")[2]


CHANGED = (Change.NEW, Change.WORSE, Change.BETTER, Change.FIXED, Change.UNSEEN)
"""Changes of findings that are not the same."""

ChangeWord = Annotated[
    str,
    Facet("enum", CHANGED),
    about("unseen: neither found nor ruled out, as what it rests on was not read"),
]


@dataclass(frozen=True, slots=True)
class ChangedFinding:
    """A finding of one of two runs that is not the same in the other.

    ``change`` is new, worse, better, fixed or unseen (neither found nor ruled out). Severity, confidence and
    ``missing`` (entries confirmed absent) are those of the newer run that found it; the ``previous_`` ones
    are of the older run, None where it is new. Times are milliseconds since 1970, as the newer run that found
    it knows them; ``suppressed`` is the reason of a suppression there.
    """

    change: ChangeWord
    id: CheckId
    severity: Annotated[SeverityWord, about("in the newer run that found it")]
    previous_severity: Annotated[str | None, Facet("enum", (*Severity, None)), about("null: it is new")]
    confidence: ConfidenceWord
    previous_confidence: Annotated[str | None, Facet("enum", (*Confidence, None)), about("null: it is new")]
    scope_id: DecimalId
    ledger_id: DecimalId
    bookie_id: str | None
    missing: Annotated[Count, about("entries confirmed absent, over all bookies")]
    previous_missing: Count | None
    first_seen: Time
    last_seen: Time
    suppressed: Annotated[str | None, about("the reason of a suppression")]
    fingerprint: Annotated[str, Facet("pattern", "^[0-9a-f]{16}$")]


@dataclass(frozen=True, slots=True)
class ChangeTally:
    """How many findings of one id and severity changed in one way."""

    change: ChangeWord
    id: CheckId
    severity: SeverityWord
    count: Count


@dataclass(frozen=True, slots=True)
class Difference:
    """Two runs, what changed in numbers, and sentences that a reader of those numbers should know.

    ``counts`` has a number for each of new, worse, better, fixed, unseen and same; ``tally`` those by id and
    severity, all but the same ones, in the order of ``counts`` and then of all reports.
    """

    old: RunSummary
    new: RunSummary
    counts: dict[str, int]
    tally: tuple[ChangeTally, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Findings of one check, severity and confidence that changed in one way: how many, and the first few."""

    change: str
    id: str
    severity: str
    confidence: str
    count: int
    first: tuple[ChangedFinding, ...]


@dataclass(frozen=True, slots=True)
class ChangesSince:
    """What changed since an earlier run, suppressed findings apart.

    ``run`` is None where there is none to compare with. ``groups`` are in the order of the findings, those
    that are gone last; ``warnings`` are sentences that a reader of them should know.
    """

    run: RunSummary | None
    groups: tuple[ChangeGroup, ...] = ()
    warnings: tuple[str, ...] = ()

    def count(self, change: str) -> int:
        """How many findings changed in this way."""
        return sum(group.count for group in self.groups if group.change == change)

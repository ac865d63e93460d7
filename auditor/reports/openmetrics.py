"""A report as metrics for Prometheus, in a form that node_exporter's textfile collector reads.

The text is valid both as OpenMetrics and in the older text format of Prometheus. It has only gauges, has no
timestamps, and ends with ``# EOF``. Every sample has a label for its cluster, so that one directory can
have files of several clusters.

The number of samples grows with the numbers of checks, bookies and namespaces, but not with the number of
ledgers. Only a limited number of bookies have samples of their own. All other bookies share one sample. The
same is true of namespaces. The sum over all samples is therefore the total of the cluster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, NamedTuple

from auditor.checks import ALL_CHECKS
from auditor.model.finding import Confidence, Severity
from auditor.model.repair import RepairFacts
from auditor.model.report import Report
from auditor.model.report_source import NO_OWNER_LABEL, NOBODY, OwnerTotal
from auditor.model.run_facts import Tally, empty_tally
from auditor.model.simulation import NearLoss
from auditor.model.space import DISK_BYTES, SpaceGauges
from auditor.model.states import SpaceClass, Verdict
from auditor.reports.blind_spots import BlindSpot, find_blind_spots
from auditor.reports.coverage import tally_order

MAX_BOOKIES = 1_000
OTHERS_LABEL = "(others)"
"""Name of the sample for all bookies, or all namespaces, above the limit. No real name has brackets."""

MAX_NAMESPACES = 100
"""Largest number of namespaces with samples of their own.

Namespaces with findings come first, the worst first. Namespaces without findings follow, the largest first.
"""

METRICS = {
    "bkaudit_run_info": "Program version and metadata layout of the last run; always 1.",
    "bkaudit_run_started_timestamp_seconds": "Start of the last run.",
    "bkaudit_run_finished_timestamp_seconds": "End of the last run.",
    "bkaudit_run_duration_seconds": "Duration of the last run.",
    "bkaudit_run_complete": "1 if the last run checked everything, else 0.",
    "bkaudit_last_complete_run_timestamp_seconds": "End of the newest complete run; absent if there is none.",
    "bkaudit_verdict": "1 for the verdict of the last run, 0 for the others.",
    "bkaudit_ledgers": "Ledgers by state: decided, undecided, or open (cannot be checked yet).",
    "bkaudit_replicas": "Replicas (one ledger's entries on one bookie) by state: decided or undecided.",
    "bkaudit_bookies": "Bookies of the cluster by state: read or unread.",
    "bkaudit_gaps": "Metadata paths that could not be listed or read; there may be more.",
    "bkaudit_check_blind": "1 for a check that lacked input; absent for a check with complete input.",
    "bkaudit_findings": "Findings, including suppressed ones; absent for a check that was skipped.",
    "bkaudit_findings_suppressed": "Findings that a suppression accepts.",
    "bkaudit_findings_new": "Unsuppressed findings that the previous run did not have.",
    "bkaudit_findings_worse": "Unsuppressed findings that are worse than in the previous run.",
    "bkaudit_findings_fixed": "Findings of the previous run that are gone; absent without an earlier run.",
    "bkaudit_findings_unseen": "Findings of the previous run that could not be checked again; "
    "absent without an earlier run.",
    "bkaudit_at_risk_ledgers": "Ledgers with findings, by severity.",
    "bkaudit_at_risk_bytes": "Total length of ledgers with findings, by severity; each ledger counts once.",
    "bkaudit_near_loss_ledgers": "Ledgers that would lose an entry if one bookie (or rack) is lost.",
    "bkaudit_near_loss_bytes": "Bytes that would be lost if one bookie (or rack) is lost, counted once.",
    "bkaudit_near_loss_possible_ledgers": "Further ledgers that would lose an entry if one bookie (or rack) "
    "is lost and all unknown copies are missing.",
    "bkaudit_unavailable_ledgers": "Ledgers that no registered bookie can serve or close; absent if unknown.",
    "bkaudit_single_copy_ledgers": "Ledgers with an entry that only one registered bookie can "
    "serve; absent if unknown.",
    "bkaudit_repair_waiting_ledgers": "Ledgers that wait for re-replication, marked or not.",
    "bkaudit_repair_queued_ledgers": (
        "Ledgers marked for re-replication; absent if the run did not read the marks."
    ),
    "bkaudit_suppressions_expired": "Entries of the suppressions file whose date has passed.",
    "bkaudit_space_bytes": "Bytes in a bookie's entry logs, by class; absent without --entry-logs.",
    "bkaudit_space_reclaimable_bytes": "Bytes that a bookie's next garbage collection or compaction frees.",
    "bkaudit_space_beside_bytes": "Bytes on a bookie's disks outside its entry logs, by kind.",
    "bkaudit_disk_capacity_bytes": "Size of a bookie's fullest file system; absent if the run "
    "could not see its disks.",
    "bkaudit_disk_free_bytes": "Bytes that a bookie may still write to its fullest file system.",
    "bkaudit_disk_full_days": "Days until a bookie's disk is 95 % full; present only if three runs agree.",
    "bkaudit_namespaces": "Namespaces that own a ledger or have a finding; absent if no owners were read.",
    "bkaudit_namespace_ledgers": "Ledgers that owners in the namespace refer to; beyond 100 namespaces, "
    "all others count as one.",
    "bkaudit_namespace_bytes": (
        "Total length of ledgers that owners in the namespace refer to; each ledger counts once."
    ),
    "bkaudit_namespace_entries": "Entries of ledgers that owners in the namespace refer to; each "
    "entry counts once.",
    "bkaudit_namespace_dangling": "References from the namespace to ledgers that no longer exist.",
    "bkaudit_namespace_leaked_ledgers": "Leaked ledgers that the namespace once owned.",
    "bkaudit_namespace_leaked_bytes": "Total length of leaked ledgers that the namespace once owned; "
    "each ledger counts once.",
    "bkaudit_namespace_findings": "Findings about ledgers of the namespace, including suppressed ones.",
}
"""Help text of each metric, by the metric's name. The output has the metrics in the same order."""

_TALLY_LABELS: tuple[Literal["id", "urgency", "severity", "confidence"], ...] = (
    "id", "urgency", "severity", "confidence",
)  # fmt: skip
METRIC_LABELS = {
    "bkaudit_run_info": ("version", "layout"),
    "bkaudit_verdict": ("verdict",),
    "bkaudit_ledgers": ("state",),
    "bkaudit_replicas": ("state",),
    "bkaudit_bookies": ("state",),
    "bkaudit_check_blind": ("id", "extent"),
    "bkaudit_findings": _TALLY_LABELS,
    "bkaudit_findings_suppressed": _TALLY_LABELS,
    "bkaudit_findings_new": _TALLY_LABELS,
    "bkaudit_findings_worse": _TALLY_LABELS,
    "bkaudit_at_risk_ledgers": ("severity",),
    "bkaudit_at_risk_bytes": ("severity",),
    "bkaudit_near_loss_ledgers": ("level",),
    "bkaudit_near_loss_bytes": ("level",),
    "bkaudit_near_loss_possible_ledgers": ("level",),
    "bkaudit_space_bytes": ("bookie", "class"),
    "bkaudit_space_reclaimable_bytes": ("bookie", "by"),
    "bkaudit_space_beside_bytes": ("bookie", "kind"),
    "bkaudit_disk_capacity_bytes": ("bookie",),
    "bkaudit_disk_free_bytes": ("bookie",),
    "bkaudit_disk_full_days": ("bookie",),
    **{name: ("namespace",) for name in METRICS if name.startswith("bkaudit_namespace_")},
    "bkaudit_namespace_findings": ("namespace", "severity"),
}
"""Labels of each metric in addition to ``cluster``. Metrics without further labels are left out."""


END_LINE = "# EOF\n"
"""Last line of the text."""


class Sample(NamedTuple):
    """Value of a metric, with the labels of the value."""

    metric: str
    labels: dict[str, str]
    value: float


def render(
    report: Report,
    last_complete: int | None = None,
    space_figures: SpaceGauges | None = None,
    namespaces: Sequence[OwnerTotal] | None = None,
    near_losses: Sequence[NearLoss] = (),
) -> str:
    """Return the whole text.

    Args:
        report: The report of a run.
        last_complete: End of the newest complete run in ms since 1970, UTC. None: no run is complete. It is
            ignored if ``report`` is itself complete.
        space_figures: Figures of the bookies' disks. None: the run has none.
        namespaces: Totals of all namespaces, sorted by their findings, the worst first. None: no owners
            were read.
        near_losses: Data that is one failure from loss, by level of the failure.
    """
    cluster_label = {"cluster": report.cluster.name}
    samples = _report_samples(report, last_complete, space_figures or SpaceGauges(), namespaces)
    return gauges(METRICS, cluster_label, (*samples, *near_loss_samples(near_losses))) + END_LINE


def gauges(metrics: Mapping[str, str], cluster_label: Mapping[str, str], samples: Iterable[Sample]) -> str:
    """Return the text of gauges in the order of ``metrics``.

    Args:
        metrics: Help text of each metric, by the metric's name.
        cluster_label: Label that every sample has.
        samples: The samples, in any order.

    >>> print(gauges({"up": "Whether."}, {"cluster": "a"}, [Sample("up", {}, 1)]), end="")
    # HELP up Whether.
    # TYPE up gauge
    up{cluster="a"} 1
    """
    samples_by_metric: dict[str, list[Sample]] = {name: [] for name in metrics}
    for sample in samples:
        samples_by_metric[sample.metric].append(sample)
    lines = []
    for name, help_text in metrics.items():
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge"]
        for sample in samples_by_metric[name]:
            labels = {**cluster_label, **sample.labels}.items()
            label_text = ",".join(f'{label}="{_escape_label(value)}"' for label, value in labels)
            lines.append(f"{name}{{{label_text}}} {sample.value:.15g}")
    return "".join(f"{line}\n" for line in lines)


def _repair_samples(repair: RepairFacts) -> Iterator[Sample]:
    """Yield the samples on reachable copies and on re-replication. An unknown number has no sample."""
    if repair["knows_registrations"]:
        count = repair["unavailable"] + repair["unrecoverable"]
        yield Sample("bkaudit_unavailable_ledgers", {}, count)
        yield Sample("bkaudit_single_copy_ledgers", {}, repair["single_copy"])
        yield Sample("bkaudit_repair_waiting_ledgers", {}, repair["waiting"])
    if repair["sees_autorecovery"]:
        yield Sample("bkaudit_repair_queued_ledgers", {}, repair["queued"])


def _report_samples(
    report: Report,
    last_complete: int | None,
    space_figures: SpaceGauges,
    namespaces: Sequence[OwnerTotal] | None,
) -> Iterable[Sample]:
    run, coverage, changes = report.run, report.coverage, report.run.changes
    yield Sample("bkaudit_run_info", {"version": run.version, "layout": report.cluster.layout}, 1)
    yield Sample("bkaudit_run_started_timestamp_seconds", {}, run.started / 1000)
    yield Sample("bkaudit_run_finished_timestamp_seconds", {}, run.finished / 1000)
    yield Sample("bkaudit_run_duration_seconds", {}, (run.finished - run.started) / 1000)
    yield Sample("bkaudit_run_complete", {}, report.complete)
    if report.complete:
        last_complete = run.finished
    if last_complete is not None:
        yield Sample("bkaudit_last_complete_run_timestamp_seconds", {}, last_complete / 1000)
    if run.repair is not None:
        yield from _repair_samples(run.repair)
    for verdict in Verdict:
        yield Sample("bkaudit_verdict", {"verdict": verdict}, report.verdict == verdict)
    yield Sample("bkaudit_ledgers", {"state": "decided"}, coverage.ledgers.decided)
    yield Sample("bkaudit_ledgers", {"state": "open"}, coverage.ledgers.open)
    yield Sample("bkaudit_ledgers", {"state": "undecided"}, coverage.ledgers.undecided)
    yield Sample("bkaudit_replicas", {"state": "decided"}, coverage.replicas.decided)
    yield Sample(
        "bkaudit_replicas", {"state": "undecided"}, coverage.replicas.expected - coverage.replicas.decided
    )
    yield Sample("bkaudit_bookies", {"state": "read"}, coverage.bookies.read)
    yield Sample("bkaudit_bookies", {"state": "unread"}, coverage.bookies.expected - coverage.bookies.read)
    yield Sample("bkaudit_gaps", {}, len(run.gaps))
    blind_spots_by_check = find_blind_spots(report)
    for id, blind_spot in blind_spots_by_check.items():
        yield Sample("bkaudit_check_blind", {"id": id, "extent": _blind_spot_extent(blind_spot)}, 1)
    partly_skipped_ids = {
        check.id
        for check in ALL_CHECKS
        if check.id not in blind_spots_by_check
        or _blind_spot_extent(blind_spots_by_check[check.id]) == "part"
    }
    for tally in [*sorted(run.tally, key=tally_order), *_zero_tallies(run.tally, partly_skipped_ids)]:
        labels: dict[str, str] = {name: tally[name] for name in _TALLY_LABELS}
        yield Sample("bkaudit_findings", labels, tally["count"])
        yield Sample("bkaudit_findings_suppressed", labels, tally["suppressed"])
        yield Sample("bkaudit_findings_new", labels, tally["new"])
        yield Sample("bkaudit_findings_worse", labels, tally["worse"])
    if changes is not None:
        yield Sample("bkaudit_findings_fixed", {}, changes["fixed"])
        yield Sample("bkaudit_findings_unseen", {}, changes["unseen"])
    impact_by_severity = {impact["severity"]: (impact["ledgers"], impact["bytes"]) for impact in run.impact}
    for severity in Severity:
        ledgers, bytes = impact_by_severity.get(severity, (0, 0))
        yield Sample("bkaudit_at_risk_ledgers", {"severity": severity}, ledgers)
        yield Sample("bkaudit_at_risk_bytes", {"severity": severity}, bytes)
    expired_count = sum(suppression["expired"] for suppression in run.suppressions)
    yield Sample("bkaudit_suppressions_expired", {}, expired_count)
    yield from space_samples(space_figures)
    yield from namespace_samples(namespaces)


def near_loss_samples(near_losses: Iterable[NearLoss]) -> Iterator[Sample]:
    """Yield three samples for each level of failure, such as bookie or rack.

    Two samples are the numbers of ledgers and of bytes that one failure would lose. The third is the number
    of further ledgers that might be lost.

    >>> from auditor.model.simulation import Amount
    >>> list(near_loss_samples([NearLoss("rack", Amount(3, 40, 900), 1, ("r2",), 2)]))[0]
    Sample(metric='bkaudit_near_loss_ledgers', labels={'level': 'rack'}, value=3)
    """
    for near_loss in near_losses:
        labels = {"level": near_loss.level}
        yield Sample("bkaudit_near_loss_ledgers", labels, near_loss.found.ledgers)
        yield Sample("bkaudit_near_loss_bytes", labels, near_loss.found.bytes)
        yield Sample("bkaudit_near_loss_possible_ledgers", labels, near_loss.perhaps)


def space_samples(gauges: SpaceGauges) -> Iterator[Sample]:
    """Yield the samples on entry logs, disks and forecasts.

    >>> from auditor.model.space import SpaceTotal
    >>> samples = list(space_samples(SpaceGauges((SpaceTotal("bk1:3181", {"live": 9}),))))
    >>> samples[0]
    Sample(metric='bkaudit_space_bytes', labels={'bookie': 'bk1:3181', 'class': 'live'}, value=9)
    """
    bytes_by_class = {total.name: total.classes for total in gauges.totals}
    bytes_by_kind = {disk.name: disk.bytes_by_kind for disk in gauges.disks}
    fullest_bookies = [
        total.name for total in sorted(gauges.totals, key=lambda total: (-total.bytes, total.name))
    ]
    for metric, label, sizes, label_values in (
        ("bkaudit_space_bytes", "class", bytes_by_class, [*map(str, SpaceClass)]),
        ("bkaudit_space_reclaimable_bytes", "by", gauges.reclaimable, ["delete", "minor", "major"]),
        ("bkaudit_space_beside_bytes", "kind", bytes_by_kind, [byte_kind.name for byte_kind in DISK_BYTES]),
    ):
        for bookie, bytes_of_kinds in _limit_bookies(sizes, fullest_bookies).items():
            for label_value in label_values:
                yield Sample(
                    metric, {"bookie": bookie, label: label_value}, bytes_of_kinds.get(label_value, 0)
                )
    fullest_file_systems = [
        (disk.fullest.used, disk.name, disk.fullest) for disk in gauges.disks if disk.fullest is not None
    ]
    for _, name, file_system in sorted(
        fullest_file_systems, key=lambda usage_entry: (-usage_entry[0], usage_entry[1])
    )[:MAX_BOOKIES]:
        yield Sample("bkaudit_disk_capacity_bytes", {"bookie": name}, file_system.capacity)
        yield Sample("bkaudit_disk_free_bytes", {"bookie": name}, file_system.free)
    for forecast in gauges.forecasts[:MAX_BOOKIES]:
        yield Sample("bkaudit_disk_full_days", {"bookie": forecast.name}, forecast.days)


def _limit_bookies(
    sizes: Mapping[str, Mapping[str, int]], fullest_bookies: Sequence[str]
) -> dict[str, Mapping[str, int]]:
    """Return the sizes of up to `MAX_BOOKIES` bookies, the fullest first, and the sums over all others."""
    sorted_names = [
        *(name for name in fullest_bookies if name in sizes),
        *sorted(sizes.keys() - {*fullest_bookies}),
    ]
    sizes_by_name: dict[str, Mapping[str, int]] = {name: sizes[name] for name in sorted_names[:MAX_BOOKIES]}
    sizes_of_others: Counter[str] = Counter()
    for name in sorted_names[MAX_BOOKIES:]:
        sizes_of_others.update(sizes[name])
    return sizes_by_name | ({OTHERS_LABEL: sizes_of_others} if len(sorted_names) > MAX_BOOKIES else {})


def namespace_samples(namespaces: Sequence[OwnerTotal] | None) -> Iterator[Sample]:
    """Yield the samples on namespaces.

    ``namespaces`` has the totals of all namespaces, sorted by their findings, the worst first. None: no
    owners were read, and there are no samples.
    """
    if namespaces is None:
        return
    yield Sample("bkaudit_namespaces", {}, sum(namespace.name != NOBODY for namespace in namespaces))
    for total in _bounded_namespaces(namespaces):
        labels = {"namespace": NO_OWNER_LABEL if total.name == NOBODY else total.name}
        yield Sample("bkaudit_namespace_ledgers", labels, total.ledgers)
        yield Sample("bkaudit_namespace_bytes", labels, total.bytes)
        yield Sample("bkaudit_namespace_entries", labels, total.entries)
        yield Sample("bkaudit_namespace_dangling", labels, total.dangling)
        yield Sample("bkaudit_namespace_leaked_ledgers", labels, total.unowned)
        yield Sample("bkaudit_namespace_leaked_bytes", labels, total.leaked_bytes)
        for severity in map(str, Severity):
            count = total.findings.get(severity, 0)
            yield Sample("bkaudit_namespace_findings", {**labels, "severity": severity}, count)


def _bounded_namespaces(namespaces: Sequence[OwnerTotal]) -> list[OwnerTotal]:
    """Return totals: up to `MAX_NAMESPACES` namespaces, all others together, and ledgers without an owner.

    Namespaces with findings take precedence, then the largest namespaces.
    """
    unowned_totals = [namespace for namespace in namespaces if namespace.name == NOBODY]
    owner_namespaces = [namespace for namespace in namespaces if namespace.name != NOBODY]
    namespaces_at_risk = [namespace for namespace in owner_namespaces if namespace.findings]
    largest_namespaces = sorted(
        (namespace for namespace in owner_namespaces if not namespace.findings),
        key=lambda namespace: (-namespace.bytes, namespace.name),
    )
    shown_namespaces = [*namespaces_at_risk, *largest_namespaces]
    sampled_namespaces = sorted(shown_namespaces[:MAX_NAMESPACES], key=lambda namespace: namespace.name)
    total_of_others = OwnerTotal(OTHERS_LABEL)
    for other_namespace in shown_namespaces[MAX_NAMESPACES:]:
        total_of_others.add(other_namespace)
    return [
        *sampled_namespaces,
        *([total_of_others] if shown_namespaces[MAX_NAMESPACES:] else []),
        *unowned_totals,
    ]


def _blind_spot_extent(blind_spot: BlindSpot) -> str:
    """Return which part of its input a check lacked (``all``, ``part`` or ``unknown``), or ``not-run``."""
    if blind_spot.is_excluded:
        return "not-run"
    return "unknown" if not blind_spot.is_known else "part" if blind_spot.objects_text else "all"


def _zero_tallies(tallies: list[Tally], partly_skipped_ids: Set[str]) -> list[Tally]:
    """Return a count of 0 for each check in ``partly_skipped_ids`` that has no findings.

    ``partly_skipped_ids`` has the checks that had at least a part of their input. With the count, the time
    series of such a check falls to 0 instead of ending. A check without input gets no 0, because the 0
    would claim that all is well.
    """
    reported_ids = {tally["id"] for tally in tallies}
    return [
        empty_tally(check.id, str(check.urgency), str(check.severity), str(Confidence.CONFIRMED))
        for check in ALL_CHECKS
        if check.id not in reported_ids and check.id in partly_skipped_ids
    ]


def _escape_label(value: str) -> str:
    """Escape the value of a label as both text formats require.

    >>> print(_escape_label('a"b\\\\c' + chr(10)))
    a\\"b\\\\c\\n
    """
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

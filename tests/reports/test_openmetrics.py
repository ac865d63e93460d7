"""Tests of a report as metrics, read by Prometheus's own tool and by its Python client."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as untyped_openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from auditor.checks import ALL_CHECKS
from auditor.model.finding import Severity
from auditor.model.report import Cluster, Report
from auditor.model.report_source import OwnerTotal
from auditor.reports import openmetrics
from tests.reports.hostile import BOOKIE
from tests.reports.samples import NAMESPACES, coverage, report, space_gauges, tally

openmetrics_families: Callable[[str], Iterable[Metric]] = untyped_openmetrics_families
CLUSTER = "6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51"
HOSTILE = 'a"b\\c\nd{}=,#'


def values(
    report: Report, last_complete: int | None = None, namespaces: Sequence[OwnerTotal] | None = None
) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return each sample's value by metric and labels, without the label for the cluster."""
    sample_values = {}
    for family in openmetrics_families(openmetrics.render(report, last_complete, None, namespaces)):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "cluster"}
            assert sample.labels["cluster"] == CLUSTER
            assert sample.timestamp is None
            sample_values[sample.name, tuple(labels.values())] = sample.value
    return sample_values


def test_both_parsers_read_the_same_metric_families() -> None:
    text = openmetrics.render(report())
    read = [
        [(family.name, family.type, family.documentation, family.samples) for family in families(text)]
        for families in (openmetrics_families, prometheus_families)
    ]
    assert read[0] == read[1]
    assert [name for name, *_ in read[0]] == list(openmetrics.METRICS)
    assert {kind for _, kind, *_ in read[0]} == {"gauge"}
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("shown", [report(), report([], (), coverage(True), changes=None)])
def test_promtool_accepts_the_metrics(shown: Report) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    outcome = subprocess.run(
        ["promtool", "check", "metrics"],
        input=openmetrics.render(shown, namespaces=NAMESPACES),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


def test_metric_values_are_those_of_the_report() -> None:
    shown = values(report())
    assert shown["bkaudit_run_finished_timestamp_seconds", ()] == 1_795_237_689
    assert shown["bkaudit_run_duration_seconds", ()] == 20
    assert shown["bkaudit_run_complete", ()] == 0
    assert shown["bkaudit_verdict", ("not-healthy",)] == 1
    assert shown["bkaudit_verdict", ("healthy",)] == 0
    assert shown["bkaudit_ledgers", ("decided",)] == 118
    assert shown["bkaudit_replicas", ("undecided",)] == 20
    assert shown["bkaudit_bookies", ("unread",)] == 1
    assert shown["bkaudit_findings", ("orphan-ledger", "rest", "note", "confirmed")] == 12
    assert shown["bkaudit_findings_suppressed", ("orphan-ledger", "rest", "note", "confirmed")] == 4
    assert shown["bkaudit_findings", ("below-ack-quorum", "below-ack-quorum", "error", "suspect")] == 1
    assert shown["bkaudit_findings_new", ("below-ack-quorum", "below-ack-quorum", "error", "confirmed")] == 1
    assert (
        shown["bkaudit_findings_worse", ("below-ack-quorum", "below-ack-quorum", "error", "confirmed")] == 1
    )
    assert shown["bkaudit_findings_fixed", ()] == 2
    assert shown["bkaudit_findings_unseen", ()] == 3
    assert shown["bkaudit_at_risk_bytes", ("critical",)] == 4_200_000_000
    assert shown["bkaudit_at_risk_ledgers", ("warning",)] == 0
    assert shown["bkaudit_suppressions_expired", ()] == 1


def test_disk_samples_exist_only_for_bookies_and_runs_with_space_data() -> None:
    text = openmetrics.render(report(), None, space_gauges())
    shown = {
        (sample.name, *(value for name, value in sample.labels.items() if name != "cluster")): sample.value
        for family in openmetrics_families(text)
        for sample in family.samples
    }
    assert shown["bkaudit_space_bytes", "bk1:3181", "orphan"] == 100
    assert shown["bkaudit_space_bytes", "bk2:3181", "orphan"] == 0
    assert shown["bkaudit_space_reclaimable_bytes", "bk1:3181", "major"] == 7
    assert shown["bkaudit_space_beside_bytes", "bk1:3181", "journals"] == 64
    assert shown["bkaudit_disk_free_bytes", "bk1:3181"] == 40_000
    assert shown["bkaudit_disk_full_days", "bk1:3181"] == 2.5
    # Where nobody saw a file system nothing is said of it.
    assert ("bkaudit_disk_free_bytes", "bk2:3181") not in shown
    assert not [name for name, _ in values(report()) if "space" in name or "disk" in name]


def test_bookies_beyond_the_limit_are_summed_as_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(openmetrics, "MAX_BOOKIES", 1)
    samples = list(openmetrics.space_samples(space_gauges()))
    live = {labels["bookie"]: value for _, labels, value in samples if labels.get("class") == "live"}
    assert live == {"bk1:3181": 900, "(others)": 5}
    bookies = {labels["bookie"] for metric, labels, _ in samples if metric == "bkaudit_space_beside_bytes"}
    assert bookies == {"bk1:3181", "(others)"}


def test_check_without_findings_is_a_zero_sample() -> None:
    shown = values(report())
    assert shown["bkaudit_findings", ("segment-gap", "rest", "error", "confirmed")] == 0
    assert {labels[0] for name, labels in shown if name == "bkaudit_findings"} == {
        check.id for check in ALL_CHECKS
    }


def test_last_complete_run_is_this_run_an_earlier_run_or_absent() -> None:
    name = ("bkaudit_last_complete_run_timestamp_seconds", ())
    assert name not in values(report())
    assert values(report(), 1_795_000_000_000)[name] == 1_795_000_000
    complete = report([], (), coverage(True))
    assert values(complete, 1_795_000_000_000)[name] == 1_795_237_689


def test_fixed_findings_metric_is_absent_without_an_earlier_run() -> None:
    assert ("bkaudit_findings_fixed", ()) not in values(report(changes=None))


@pytest.mark.parametrize("name", [HOSTILE, BOOKIE])
def test_hostile_labels_are_escaped(name: str) -> None:
    hostile = replace(report(), cluster=Cluster(None, name, name))
    for families in (openmetrics_families, prometheus_families):
        labels = {
            sample.labels["cluster"]
            for family in families(openmetrics.render(hostile))
            for sample in family.samples
        }
        assert labels == {name}


def test_namespaces_have_ledger_leak_and_finding_samples() -> None:
    shown = values(report(), namespaces=NAMESPACES)
    assert shown["bkaudit_namespaces", ()] == 2
    assert shown["bkaudit_namespace_ledgers", ("shop/orders",)] == 9
    assert shown["bkaudit_namespace_bytes", ("shop/orders",)] == 4_000
    assert shown["bkaudit_namespace_entries", ("shop/orders",)] == 120
    assert shown["bkaudit_namespace_dangling", ("shop/orders",)] == 1
    assert shown["bkaudit_namespace_findings", ("shop/orders", "error")] == 2
    assert shown["bkaudit_namespace_findings", ("shop/orders", "critical")] == 0
    assert shown["bkaudit_namespace_leaked_ledgers", ("fleet/telemetry",)] == 2
    assert shown["bkaudit_namespace_leaked_bytes", ("(no known owner)",)] == 7
    assert not [name for name, _ in values(report()) if name.startswith("bkaudit_namespace")]


def test_worst_and_largest_namespaces_have_their_own_samples() -> None:
    many = [OwnerTotal(f"t/{number:04}", 1, number) for number in range(3_000)]
    many[7].findings["error"] = 5
    shown = values(report(), namespaces=[many[7], *many[:7], *many[8:]])
    names = {labels[0] for name, labels in shown if name == "bkaudit_namespace_bytes"}
    assert names == {"t/0007", *(f"t/{number:04}" for number in range(2_901, 3_000)), "(others)"}
    assert shown["bkaudit_namespace_ledgers", ("(others)",)] == 2_900
    assert shown["bkaudit_namespaces", ()] == 3_000
    total = sum(value for (name, _), value in shown.items() if name == "bkaudit_namespace_bytes")
    assert total == sum(range(3_000))


def test_number_of_samples_is_bounded_by_checks_not_by_the_cluster() -> None:
    tallies = [
        tally(check.id, str(severity), 10**12, confidence)
        for check in ALL_CHECKS
        for severity in Severity
        for confidence in ("confirmed", "suspect", "unknown")
    ]
    text = openmetrics.render(report(tallies, gaps=["/ledgers"] * 20))
    assert text.count("\n") < 4 * len(tallies) + len(ALL_CHECKS) + 122

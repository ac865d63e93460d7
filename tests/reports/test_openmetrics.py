"""A report as metrics, read by Prometheus's own tool and by its Python client."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as untyped_openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from auditor.checks import ALL
from auditor.model.finding import Severity
from auditor.model.report import Cluster, Report
from auditor.reports import openmetrics
from tests.reports.hostile import BOOKIE
from tests.reports.samples import coverage, report, tally

openmetrics_families: Callable[[str], Iterable[Metric]] = untyped_openmetrics_families
CLUSTER = "6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51"
HOSTILE = 'a"b\\c\nd{}=,#'


def values(report: Report, last_complete: int | None = None) -> dict[tuple[str, tuple[str, ...]], float]:
    """Each sample's value by metric and labels, the cluster's left out."""
    found = {}
    for family in openmetrics_families(openmetrics.render(report, last_complete)):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if name != "cluster"}
            assert sample.labels["cluster"] == CLUSTER
            assert sample.timestamp is None
            found[sample.name, tuple(labels.values())] = sample.value
    return found


def test_both_parsers_read_the_same() -> None:
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
def test_prometheus_has_nothing_to_say_against_it(shown: Report) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool")
    outcome = subprocess.run(
        ["promtool", "check", "metrics"],
        input=openmetrics.render(shown),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "", "")


def test_the_numbers_are_those_of_the_report() -> None:
    shown = values(report())
    assert shown["bkaudit_run_finished_timestamp_seconds", ()] == 1_795_237_689
    assert shown["bkaudit_run_duration_seconds", ()] == 20
    assert shown["bkaudit_run_complete", ()] == 0
    assert shown["bkaudit_verdict", ("not-healthy",)] == 1
    assert shown["bkaudit_verdict", ("healthy",)] == 0
    assert shown["bkaudit_ledgers", ("decided",)] == 118
    assert shown["bkaudit_replicas", ("undecided",)] == 20
    assert shown["bkaudit_bookies", ("unread",)] == 1
    assert shown["bkaudit_findings", ("orphan-ledger", "note", "confirmed")] == 12
    assert shown["bkaudit_findings_suppressed", ("orphan-ledger", "note", "confirmed")] == 4
    assert shown["bkaudit_findings", ("below-ack-quorum", "error", "suspect")] == 1
    assert shown["bkaudit_findings_new", ("below-ack-quorum", "error", "confirmed")] == 1
    assert shown["bkaudit_findings_worse", ("below-ack-quorum", "error", "confirmed")] == 1
    assert shown["bkaudit_findings_fixed", ()] == 2
    assert shown["bkaudit_findings_unseen", ()] == 3
    assert shown["bkaudit_at_risk_bytes", ("critical",)] == 4_200_000_000
    assert shown["bkaudit_at_risk_ledgers", ("warning",)] == 0
    assert shown["bkaudit_suppressions_expired", ()] == 1


def test_a_check_that_found_nothing_is_a_zero() -> None:
    shown = values(report())
    assert shown["bkaudit_findings", ("segment-gap", "error", "confirmed")] == 0
    assert {labels[0] for name, labels in shown if name == "bkaudit_findings"} == {each.id for each in ALL}


def test_the_last_complete_run_is_this_one_or_an_earlier_one_or_none() -> None:
    name = ("bkaudit_last_complete_run_timestamp_seconds", ())
    assert name not in values(report())
    assert values(report(), 1_795_000_000_000)[name] == 1_795_000_000
    complete = report([], (), coverage(True))
    assert values(complete, 1_795_000_000_000)[name] == 1_795_237_689


def test_without_an_earlier_run_nothing_is_said_of_what_was_fixed() -> None:
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


def test_how_much_is_written_does_not_follow_from_the_cluster() -> None:
    tallies = [
        tally(check.id, str(severity), 10**12, confidence)
        for check in ALL
        for severity in Severity
        for confidence in ("confirmed", "suspect", "unknown")
    ]
    text = openmetrics.render(report(tallies, gaps=["/ledgers"] * 20))
    assert text.count("\n") < 4 * len(tallies) + 100

"""Selectors of a PromQL text, and a check that a report's metrics have samples for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as untyped

from auditor.reports import openmetrics
from auditor.watch.rounds import MetricsPage
from tests.reports.samples import NAMESPACES, NEAR_LOSSES, TALLIES, report, space_gauges, tally

_families: Callable[[str], Iterable[Metric]] = untyped
_SELECTOR = re.compile(r"\b(bkaudit_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"')
_VARIABLE = "$cluster"


def metrics(text: str) -> set[str]:
    """Return the names of the metrics in a text."""
    return {name for name, _ in _SELECTOR.findall(text)}


def unanswered(text: str) -> list[str]:
    """Return the selectors of the text that no sample of a report matches.

    >>> unanswered('sum(bkaudit_findings{severity="critcal"}) / bkaudit_ledgers')
    ['bkaudit_findings{severity="critcal"}']
    """
    samples = list(_samples())
    missed = []
    for match in _SELECTOR.finditer(text):
        name, matchers = match[1], _MATCHER.findall(match[2] or "")
        if not any(name == sample and _matches(labels, matchers) for sample, labels in samples):
            missed.append(match[0])
    return missed


def _samples() -> Iterator[tuple[str, dict[str, str]]]:
    run = report([*TALLIES, tally("metadata-suspect", "critical", 1, "suspect")])
    text = openmetrics.render(run, 0, space_gauges(), NAMESPACES, NEAR_LOSSES)
    for family in _families(MetricsPage("zk://h1/ledgers", text).text()):
        for sample in family.samples:
            yield sample.name, sample.labels


def _matches(labels: dict[str, str], matchers: list[tuple[str, str, str]]) -> bool:
    for name, operator, value in matchers:
        # Which cluster is chosen on the page; that the label is there is what counts.
        pattern = ".+" if value == _VARIABLE else value if operator == "=~" else re.escape(value)
        if bool(re.fullmatch(pattern, labels.get(name, ""))) == (operator == "!="):
            return False
    return True

"""Gauges of owners by namespace: a bounded number of namespaces, and all others as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.finding import Severity
from auditor.model.owners import NO_OWNER, NOBODY, OwnerTotal
from auditor.reports.space_metrics import OTHERS

NAMESPACES = 100
"""So many namespaces have samples of their own: those with the worst findings, then the largest."""

METRICS = {
    "bkaudit_namespaces": "Namespaces that own a ledger or a finding; absent where no owners were read.",
    "bkaudit_namespace_ledgers": "Ledgers that an owner in it names; 100 namespaces, and the others as one.",
    "bkaudit_namespace_bytes": "Length of these ledgers, one copy of each.",
    "bkaudit_namespace_entries": "Entries of these ledgers, one copy of each.",
    "bkaudit_namespace_dangling": "References of the namespace to ledgers that are gone.",
    "bkaudit_namespace_leaked_ledgers": "Ledgers that were the namespace's, and that nobody names.",
    "bkaudit_namespace_leaked_bytes": "Length of these ledgers, one copy of each.",
    "bkaudit_namespace_findings": "Findings about ledgers of the namespace, suppressed ones among them.",
}
LABELS = {name: ("namespace",) for name in METRICS if name != "bkaudit_namespaces"} | {
    "bkaudit_namespace_findings": ("namespace", "severity")
}


def namespace_samples(
    namespaces: Sequence[OwnerTotal] | None,
) -> Iterator[tuple[str, dict[str, str], float]]:
    """Metric, labels and value; ``namespaces`` are all of them, those with the worst findings first.

    None stands for a run that read nobody's owners: it has no samples.
    """
    if namespaces is None:
        return
    yield "bkaudit_namespaces", {}, sum(each.name != NOBODY for each in namespaces)
    for total in _bounded(namespaces):
        of = {"namespace": NO_OWNER if total.name == NOBODY else total.name}
        yield "bkaudit_namespace_ledgers", of, total.ledgers
        yield "bkaudit_namespace_bytes", of, total.bytes
        yield "bkaudit_namespace_entries", of, total.entries
        yield "bkaudit_namespace_dangling", of, total.dangling
        yield "bkaudit_namespace_leaked_ledgers", of, total.unowned
        yield "bkaudit_namespace_leaked_bytes", of, total.leaked_bytes
        for severity in map(str, Severity):
            count = total.findings.get(severity, 0)
            yield "bkaudit_namespace_findings", {**of, "severity": severity}, count


def _bounded(namespaces: Sequence[OwnerTotal]) -> list[OwnerTotal]:
    """The namespaces that have samples of their own, by name, and the sum of the others."""
    nobodys = [each for each in namespaces if each.name == NOBODY]
    known = [each for each in namespaces if each.name != NOBODY]
    bad = [each for each in known if each.findings]
    large = sorted((each for each in known if not each.findings), key=lambda each: (-each.bytes, each.name))
    ordered = [*bad, *large]
    kept = sorted(ordered[:NAMESPACES], key=lambda each: each.name)
    others = OwnerTotal(OTHERS)
    for each in ordered[NAMESPACES:]:
        others.add(each)
    return [*kept, *([others] if ordered[NAMESPACES:] else []), *nobodys]

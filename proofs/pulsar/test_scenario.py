"""The comparison of an audit with the planted faults reports each kind of mistake."""

from __future__ import annotations

from typing import Any

from proofs.pulsar.faults import WAYS, Expected
from proofs.pulsar.scenario import wrong_findings, wrong_owners

LEAK, DANGLING = Expected("ledger-unowned", 7), Expected("owner-dangling", 8)
VIEW = {
    "shop/orders/a": {
        "ledgers": [{"ledger": 1, "entries": 10, "bytes": 90}, {"ledger": 4, "entries": 0, "bytes": 0}],
        "cursors": {"whole": 2, "closed": -1},
        "schemas": [3],
    }
}


def finding(id: str, ledger_id: int | None, severity: str = "note") -> dict[str, Any]:
    return {"id": id, "ledger_id": ledger_id, "severity": severity, "message": "said"}


def owner(kind: str, ledger_id: int | None) -> dict[str, Any]:
    return {"tenant": "shop", "namespace": "orders", "topic": "a", "kind": kind, "ledger_id": ledger_id}


def test_overlooked_fault_and_finding_without_a_fault_are_reported() -> None:
    right = [finding(*LEAK), finding(*DANGLING, "error"), finding("orphan-ledger", 8)]
    assert wrong_findings(right, {LEAK, DANGLING}) == []
    assert wrong_findings(right[1:], {LEAK, DANGLING}) == ["not found: ledger-unowned of ledger 7"]
    assert wrong_findings(right, {DANGLING}) == ["found without a fault: ledger-unowned of ledger 7"]
    assert wrong_findings([*right, finding("offload-incomplete", 9)], {LEAK, DANGLING}) == [
        "found without a fault: offload-incomplete of ledger 9"
    ]
    assert wrong_findings([*right, finding("entry-lost", 1, "critical")], {LEAK, DANGLING}) == [
        "found without a fault: critical entry-lost: said"
    ]


def test_owners_that_differ_from_the_brokers_view_are_reported() -> None:
    right = [
        owner("data", 1),
        owner("data", 4),
        owner("cursor", 2),
        owner("cursor", None),
        owner("schema", 3),
    ]
    assert wrong_owners(right, VIEW, set()) == []
    assert wrong_owners(right[1:], VIEW, set()) == ["shop/orders/a: data is [4], the broker says [1, 4]"]
    assert wrong_owners([], VIEW, {Expected("owner-dangling", 3)}) == [], "a fault is about this topic"


def test_smallest_cluster_has_a_topic_for_each_kind_of_damage() -> None:
    assert len(WAYS) <= 9

"""Handmade reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from auditor.actions.action_list import ActionList, PermittedLedgers, build_action_list
from auditor.actions.gate import HoldBook, UnfinishedRun
from auditor.checks import CHECK_BY_ID
from auditor.findings.table import FindingCount, next_steps
from auditor.model.finding import Confidence, Finding, Missing, Severity, Urgency
from auditor.model.placement import PlacementFacts, PlacementSettings, Policy
from auditor.model.repair import RepairFacts, RepairState, repair_facts
from auditor.model.report import BookiesRead, Cluster, Coverage, DecidedCount, ReplicaCount, Report
from auditor.model.report_source import NOBODY, OwnerTotal
from auditor.model.run_facts import (
    AcceptedGaps,
    Changes,
    Impact,
    Remark,
    RemarkKind,
    Reuse,
    RunFacts,
    Suppression,
    Tally,
    remark,
)
from auditor.model.simulation import Amount, NearLoss
from auditor.model.space import DiskTotal, FileSystem, FillForecast, SpaceGauges, SpaceTotal

LOST = Finding(
    "entry-lost",
    Severity.CRITICAL,
    Confidence.CONFIRMED,
    0,
    9223372036854770002,
    missing=(
        Missing("bk-a:3181", ((4, 4, 1, 0), (10, 2998, 2, 3)), 1995),
        Missing("bk-b:3181", ((1, 1, 2, 0), (4, 4, 5, 0)), 7),
    ),
    message="entry 4 has no copy left",
    evidence={"write_quorum": 2},
    fingerprint="0123456789abcdef",
    urgency=Urgency.LOST,
)
BELOW = Finding(
    "below-ack-quorum",
    Severity.ERROR,
    Confidence.SUSPECT,
    0,
    7,
    missing=(Missing("bk-a:3181", ((0, 0, 1, 0),), 1),),
    unknown=("bk-c:3181",),
    message="1 of 2 acknowledged copies is left",
    urgency=Urgency.BELOW_ACK_QUORUM,
)
ORPHAN = Finding(
    "orphan-ledger", Severity.NOTE, Confidence.CONFIRMED, 0, 36, "bk-b:3181", message="5 entries"
)
UNREAD = Finding(
    "bookie-unread",
    Severity.NOTE,
    Confidence.UNKNOWN,
    bookie_id="bk-c:3181",
    message="no source covers this bookie",
    urgency=Urgency.UNCHECKED,
)


def tally(
    id: str,
    severity: str,
    count: int = 1,
    confidence: str = "confirmed",
    new: int = 0,
    worse: int = 0,
    suppressed: int = 0,
    urgency: str | None = None,
) -> Tally:
    check_urgency = CHECK_BY_ID[id].urgency if id in CHECK_BY_ID else "rest"
    return {
        "id": id,
        "urgency": str(urgency or check_urgency),
        "severity": severity,
        "confidence": confidence,
        "count": count,
        "new": new,
        "worse": worse,
        "suppressed": suppressed,
    }


NO_HOLDS = UnfinishedRun(
    HoldBook(
        lambda *_: [],
        has_holds_table=True,
        oldest_data_time=0,
        has_earlier_run=True,
        are_logs_read=True,
        current_time=0,
    )
)
"""The holds of a run that has none."""


def counts_of(tallies: list[Any], findings: tuple[Finding, ...]) -> list[FindingCount]:
    """Return counts of unsuppressed findings. The first finding of each check stands for its objects."""
    first_findings = {entry.id: entry for entry in reversed(findings)}
    nothing = Finding("", Severity.NOTE, Confidence.CONFIRMED)
    return [
        FindingCount(
            "new",
            entry["urgency"],
            entry["severity"],
            entry["id"],
            entry["confidence"],
            None,
            first_findings.get(entry["id"], nothing).bookie_id,
            entry["count"] - entry["suppressed"],
            first_findings.get(entry["id"], nothing).scope_id,
            first_findings.get(entry["id"], nothing).ledger_id,
        )
        for entry in tallies
        if entry["count"] > entry["suppressed"]
    ]


def action_list(counts: list[FindingCount]) -> ActionList:
    """Return the actions that an audit without holds would list for these findings."""
    permitted = {
        count.id: PermittedLedgers(count.findings, count.scope_id or 0, count.ledger_id)
        for count in counts
        if count.ledger_id is not None
    }
    return build_action_list(NO_HOLDS, counts, permitted)


def coverage(complete: bool = True) -> Coverage:
    unread = () if complete else ("bk-c:3181",)
    return Coverage(
        DecidedCount(120, 120 if complete else 118),
        BookiesRead(3, 3 - len(unread), unread),
        ReplicaCount(360, 360 if complete else 340),
    )


TALLIES = [
    tally("orphan-ledger", "note", 12, suppressed=4),
    tally("below-ack-quorum", "error", 2, new=1, worse=1),
    tally("below-ack-quorum", "error", 1, "suspect"),
    tally("entry-lost", "critical"),
]


IMPACT: list[Impact] = [
    {"severity": "critical", "ledgers": 1, "bytes": 4_200_000_000},
    {"severity": "error", "ledgers": 3, "bytes": 1_024},
    {"severity": "note", "ledgers": 12, "bytes": 0},
]
CHANGES: Changes = {
    "previous": "20261120T050000Z",
    "finished": 1_795_151_269_000,
    "new": 1,
    "fixed": 2,
    "worse": 1,
    "better": 0,
    "same": 14,
    "unseen": 3,
}
SUPPRESSIONS: list[Suppression] = [
    {"reason": "bk-b is being emptied", "until": "2026-12-31", "count": 4, "expired": False},
    {"reason": "known since the move", "until": "2026-10-31", "count": 0, "expired": True},
]


PLACEMENT: PlacementFacts = {
    "policy": "rack",
    "settings": PlacementSettings(Policy.RACK).to_json(),
    "policy_origin": "--placement rack",
    "mapping_origin": "--racks racks.toml",
    "located": 3,
    "unlocated": 0,
    "own_groups": 0,
}


REPAIR = repair_facts(
    RepairState(
        sees_autorecovery=True,
        auditor="bk-a:3181",
        votes=2,
        registered=3,
        writable=3,
        knows_registrations=True,
    ),
    1_795_237_669_000,
    None,
)


def report(
    tallies: list[Any] | None = None,
    findings: tuple[Finding, ...] = (LOST, BELOW, ORPHAN, UNREAD),
    coverage: Coverage = coverage(False),  # noqa: B008
    gaps: list[str] | None = None,
    notes: Sequence[str] = (),
    remarks: Sequence[Remark] = (),
    changes: Changes | None = CHANGES,
    suppressions: list[Suppression] = SUPPRESSIONS,
    impact: list[Impact] = IMPACT,
    reused: Reuse | None = None,
    resumed: int | None = None,
    accepted: AcceptedGaps | None = None,
    entry_logs: bool = True,
    deep: bool = True,
    owners: bool = True,
    offload_listing: bool = True,
    placement: bool = True,
    repair: RepairFacts | None = REPAIR,
) -> Report:
    counts = counts_of(TALLIES if tallies is None else tallies, findings)
    actions = action_list(counts)
    return Report.make(
        RunFacts(
            version="0.1.0",
            started=1_795_237_669_000,
            finished=1_795_237_689_000,
            scan_time=1_795_237_669_000,
            live=True,
            positions=["0x16f", "0x171"],
            bookie_sources=["/mnt/bookies"],
            entry_logs=entry_logs,
            owners=owners,
            offload_listing=offload_listing,
            operations={"getChildren": 210, "multiRead": 3, "open": 340}
            | ({"entries read whole": 99} if deep else {}),
            gaps=gaps or [],
            in_doubt=None,
            resumed=resumed,
            remarks=[*remarks, *(remark(RemarkKind.EARLIER_VERSION, note) for note in notes)],
            tally=TALLIES if tallies is None else tallies,
            impact=impact,
            changes=changes,
            suppressions=suppressions,
            accepted=accepted or {"bookies": [], "ledgers": 0, "replicas": 0},
            reused=reused,
            repair=repair,
            keeps_marks=True,
            keeps_times=True,
            marks_listed=True,
            bookies_listed={"hidden": None, "unclear": []},
            directories_read=9,
            witness_asked=True,
            blind=[],
            placement=PLACEMENT if placement else None,
            steps=next_steps(counts, actions.texts),
            holds={"total": 0, "urgent": 0, "carried": 0, "earlier_run": "before"},
            actions=list(actions.actions),
            forbidden=list(actions.forbidden_actions),
        ),
        Cluster("6c1a2a5e-1c1f-4f0e-8a51-1b8a2f7a6f51", "zk://h1:2181;h2:2181/ledgers", "hierarchical"),
        coverage,
        findings,
    )


def space_gauges() -> SpaceGauges:
    """Return disk metrics of two bookies, of which no garbage collector saw the second."""
    disk = FileSystem(7, 1_000_000, 40_000, 1_795_237_669_000)
    return SpaceGauges(
        (SpaceTotal("bk1:3181", {"live": 900, "orphan": 100}), SpaceTotal("bk2:3181", {"live": 5})),
        (DiskTotal("bk1:3181", 64, 0, 32, 1, (disk,)), DiskTotal("bk2:3181", 0, 8, 0, 1, ())),
        {"bk1:3181": {"delete": 100, "minor": 0, "major": 7}},
        (FillForecast("bk1:3181", 2.5, 16_000, 3),),
    )


NAMESPACES = [
    OwnerTotal("shop/orders", 9, 4_000, 1, entries=120, findings={"error": 2, "note": 1}),
    OwnerTotal("fleet/telemetry", 3, 700, unowned=2, leaked_bytes=60, leaked_entries=4),
    OwnerTotal(NOBODY, unowned=1, leaked_bytes=7),
]

NEAR_LOSSES = [
    NearLoss("bookie", Amount(), 0, (), 2),
    NearLoss("rack", Amount(3, 40, 900), 1, ("/r2",), 0),
]

"""Handmade pages: one of a small cluster, and one of a cluster larger and worse than any real one."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from auditor.codecs.availability.groups import GROUP
from auditor.model.finding import ChangeStatus, Confidence, Finding, Missing, Severity, StatusLookup
from auditor.model.history import RunSummary
from auditor.model.ledger_metadata import Segment
from auditor.model.report import BookiesRead, Report
from auditor.model.report_source import (
    OWNER_LEVELS,
    Bar,
    BookieFigure,
    Figures,
    Histogram,
    Leak,
    LeakTotals,
    OwnerFigures,
    OwnerTotal,
)
from auditor.model.run_facts import FindingCause
from auditor.model.space import DiskTotal, FileSystem, SpaceTotal
from auditor.model.views import LedgerView, ReplicaView
from auditor.reports.html import render
from auditor.reports.owners import MAX_HTML_LEAKS, MAX_HTML_OWNERS
from tests.reports.hostile import HOSTILE
from tests.reports.samples import LOST, coverage, report, tally
from tests.reports.test_ledger import LEDGER

MARKUP = "</script></style></td><img src='http://evil.example/x' onerror='document.title=1'>"
LOUD = "<script>document.title = 'executed'</script>"
DAY = 24 * 60 * 60 * 1000

FIGURES = Figures(
    (
        BookieFigure("bk-a:3181", registered="writable", replicas=40, missing=9, missing_entries=2002),
        BookieFigure(MARKUP, "unread", LOUD, replicas=4, unknown=4),
        BookieFigure(
            "bk-b:3181", registered="readonly", replicas=40, surplus=2, surplus_entries=7, orphans=12
        ),
        BookieFigure("bk-c:3181", registered="writable", replicas=40),
    ),
    4,
    (
        Histogram("Ledgers by size", "ledgers", (Bar("under 1 kB", 3), Bar("1 to 50 kB", 1)), "One copy."),
        Histogram("Ledgers by quorum", "ledgers", (Bar(LOUD, 3),)),
    ),
    (SpaceTotal("bk-a:3181", {"live": 900, "orphan": 100}), SpaceTotal(LOUD, {"owner-unknown": 500})),
    (
        DiskTotal("bk-a:3181", 1048576, 0, 2048, 40, (FileSystem(1, 50 * 10**9, 2 * 10**9, 0),)),
        DiskTotal(LOUD, 0, 0, 0, 0, (), unread=1),
    ),
    OwnerFigures(
        {
            "tenant": (OwnerTotal("shop", 12, 4_200_000, findings={"error": 2, "note": 1}),),
            "namespace": (
                OwnerTotal("shop/orders", 9, 4_000_000, 1, entries=120, findings={"error": 2}),
                OwnerTotal(LOUD, 3, 200_000),
                OwnerTotal("", unowned=2, leaked_bytes=6_000_000, leaked_entries=31),
            ),
            "topic": (OwnerTotal(f"shop/orders/{MARKUP}", 9, 4_000_000, entries=120),),
        },
        {"tenant": 1, "namespace": 3, "topic": 700},
        (
            Leak(110, "confirmed", "topic shop/orders/returns", "/managed-ledgers/shop", 1_795_000_000_000,
                 6_000_000, 31, "CLOSED", "/managed-ledgers/shop does not name it", None),
            Leak(2**62, "suspect", LOUD, MARKUP, None, None, None, None, LOUD, MARKUP),
        ),
        LeakTotals(2, 1, 6_000_000, 6_000_000, 31),
        1_795_237_669_000,
    ),
)  # fmt: skip


def history(last_report: Report, runs: int) -> list[RunSummary]:
    """Return ``runs`` runs, a day apart. The last is the run itself; the others get better and worse."""
    this = RunSummary.from_report("/runs/last", last_report)
    earlier = [
        replace(
            this,
            path=f"/runs/{number:03}{LOUD}",
            finished=this.finished - (runs - number) * DAY,
            severities={"critical": number % 3, "error": number, "warning": 4, "note": 10**9},
        )
        for number in range(runs - 1)
    ]
    return [*earlier, this]


CAUSE: FindingCause = {
    "number": 1,
    "kind": "disk",
    "bookies": [LOUD],
    "sentence": f"the disks of {LOUD} are gone",
    "count": 40,
    "findings": [{"id": "orphan-ledger", "urgency": "rest", "severity": "note", "count": 40}],
    "evidence": [],
}


def finding(number: int) -> Finding:
    """Return one of many findings, with its own ids to sort by and to search for."""
    return Finding(
        "orphan-ledger",
        Severity.NOTE,
        Confidence.CONFIRMED,
        0,
        2**62 + number,
        f"bk-{number}:3181",
        message=f"finding number {number}",
        fingerprint=f"{number:016x}",
        cause=1,
    )


def pairs(full_report: Report, statuses: StatusLookup) -> list[tuple[Finding, ChangeStatus | None]]:
    """Return the findings listed in a report with their statuses, as if the run had no others."""
    return [(entry, statuses(entry.fingerprint)) for entry in full_report.findings]


@cache
def small() -> str:
    """Return a page with every section, and with hostile text in every field that the cluster can fill."""
    base = report()
    tallies = [*base.run.tally, tally("ghost-bookie", "error", 1)]
    many = (*base.findings, replace(HOSTILE, message=MARKUP + LOUD), *map(finding, range(40)))
    order = sorted(many, key=lambda entry: entry.severity.rank)
    page_report = replace(report(tallies, tuple(order)), cluster=replace(base.cluster, metadata_uri=MARKUP))
    page_report = replace(page_report, run=replace(page_report.run, causes=[CAUSE]))
    hostile = replace(
        LEDGER,
        custom_metadata=((MARKUP, LOUD),),
        replicas=(*LEDGER.replicas, ReplicaView(MARKUP, True, b"", b"", False, LOUD, LOUD)),
    )
    drawn = replace(LEDGER, ledger_id=7)
    change_status = ChangeStatus("worse", page_report.run.finished - DAY, LOUD)

    def statuses(fingerprint: str) -> ChangeStatus | None:
        return change_status if fingerprint == LOST.fingerprint else None

    return "".join(
        render(
            page_report,
            FIGURES,
            [hostile, drawn],
            history(page_report, 5),
            statuses,
            "/runs/last",
            [LOUD],
            pairs(page_report, statuses),
        )
    )


@cache
def giant() -> str:
    """Return a page of thousands of long-named bookies, excess samples, irregular ledgers, years of runs."""
    long = "<&\"'>" * 60
    bookies = tuple(
        BookieFigure(f"{number:05}{long}", "unread", long, long[:20], 10**15, number, 10**17, 5, 5, 10**17, 9)
        for number in range(5_000)
    )
    bars = tuple(Bar(long, 10**15) for _ in range(13))
    page_report = report(
        [
            tally(f"check-{'abcdefghijklmnopqrst'[number % 20]}{'x' * (number // 20)}", "error", 10**12)
            for number in range(80)
        ],
        tuple(_long_finding(number, long) for number in range(3_000)),
        coverage=replace(
            coverage(False), bookies=BookiesRead(5_000, 0, tuple(figure.bookie_id for figure in bookies))
        ),
        gaps=[long * 10] * 1_000,
        notes=[long * 10] * 1_000,
    )
    change_status = ChangeStatus("worse", 0, long * 10)
    ledgers = [_long_ledger(number, long) for number in range(20)]
    histograms = tuple(Histogram(long, "ledgers", bars, long) for _ in range(5))
    figures = Figures(bookies, 9_000, histograms, owners=_many_owners(long))
    parts = render(
        page_report,
        figures,
        ledgers,
        history(page_report, 2_000),
        lambda _: change_status,
        long * 10,
        [long * 10] * 1_000,
        pairs(page_report, lambda _: change_status),
    )
    return "".join(parts)


def _many_owners(long: str) -> OwnerFigures:
    most = 10**17
    levels = {
        level: tuple(
            OwnerTotal(f"{number}{long}", most, most, most, most, most, most, most, {"error": most})
            for number in range(MAX_HTML_OWNERS[level])
        )
        for level in OWNER_LEVELS
    }
    leak = Leak(2**62, "confirmed", long, long, 0, most, most, "CLOSED", long, long)
    return OwnerFigures(
        levels,
        dict.fromkeys(OWNER_LEVELS, most),
        (leak,) * MAX_HTML_LEAKS,
        LeakTotals(most, most, most, most, most),
        0,
    )


def _long_finding(number: int, long: str) -> Finding:
    # Every second entry of many is a group that no other run joins.
    groups = tuple((entry * entry, entry * entry, 1, 0) for entry in range(3, 50))
    missing = tuple(Missing(f"{part}{long}", groups, 47) for part in range(20))
    return Finding(
        f"check-{'abcdefghijklmnopqrst'[number % 20]}{'x' * (number // 20 % 4)}",
        Severity.ERROR,
        Confidence.SUSPECT,
        2**62,
        number,
        long * 5,
        missing,
        (long,) * 20,
        long * 20,
        {"said": long * 100},
        f"{number:016x}",
    )


def _long_ledger(number: int, long: str) -> LedgerView:
    """Return a ledger on forty bookies whose drawing has no two equal neighbours."""
    last = 119
    whole = np.array([(0, 0, last + 1, 0)], GROUP).tobytes()
    half = np.array([(0, last // 2 * 2, 1, 2)], GROUP).tobytes()
    return LedgerView(
        number,
        status="ok",
        path=long,
        state="CLOSED",
        last_entry_id=last,
        segments=tuple(Segment(first, (long,)) for first in range(last)),
        rules=(long * 5,) * 9,
        damage=long * 5,
        custom_metadata=((long * 5, long * 5),) * 9,
        replicas=tuple(ReplicaView(f"{row}{long}", True, whole, half, True, "ok", long) for row in range(40)),
    )

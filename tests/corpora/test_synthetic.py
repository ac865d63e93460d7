"""Findings that no corpus has, and conditions that must not be findings, in one small cluster.

Every call below adds one thing to the cluster, with the findings that it gives.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.corpora.audited import FindingKey, FinishedRun, audit, missing
from tests.corpora.cluster import (
    DAY,
    HOUR,
    NOW_MS,
    Cluster,
    cookie_bytes,
    index_bytes,
    index_path,
    metadata_bytes,
)
from tests.corpora.plain_readers import PlainLedger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKIES = A, B, C, D, E, F, G = tuple(f"bk{letter}.example:3181" for letter in "abcdefg")
OTHER_CLUSTER = "99999999-8888-7777-6666-555555555555"


@dataclass
class Oddities:
    """A cluster, and the findings expected in it."""

    cluster: Cluster = field(default_factory=Cluster)
    expected: list[FindingKey] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)  # index files that are newer than the scan
    flushed: dict[str, int] = field(default_factory=dict)  # bookies that were flushed at another time, ms

    def find(
        self,
        id: str,
        severity: str,
        ledger: int | None = None,
        bookie: str | None = None,
        confidence: str = "confirmed",
    ) -> None:
        self.expected.append(FindingKey(id, ledger, bookie, severity, confidence))


def storage(odd: Oddities) -> None:
    cluster = odd.cluster
    # Entries of a segment that the bookie had left.
    cluster.ledger(1, {0: [A, B, C], 10: [A, B, D]}, (3, 2), 19, extra={C: [12, 13]})
    odd.find("stale-segment", "note", bookie=C)
    # A copy in no ensemble: in flight where a mark or a lock says so.
    cluster.ledger(2, {0: [A, B, C]}, (3, 2), 9, without={C: [4]}, extra={D: range(10)})
    cluster.mark(2, C)
    odd.find("copy-in-flight", "note", 2, None)
    odd.find("below-write-quorum", "warning", 2)
    cluster.ledger(3, {0: [A, B, C]}, (3, 2), 9, extra={D: range(10)})
    cluster.lock(3)
    odd.find("copy-in-flight", "note", 3, None)
    # Over-replicated, while a member is read-only: the copy may be one that an operator is making.
    cluster.bookie("readonly.example:3181", registered="readonly")
    cluster.ledger(4, {0: [A, B, "readonly.example:3181"]}, (3, 2), 9, extra={D: range(10)})
    odd.find("over-replicated-ledger", "note", 4, D, "suspect")
    # Orphans: one older than the scan, one whose index was written after it.
    cluster.hold(5, A, range(3))
    odd.find("orphan-ledger", "note", 5, A)
    cluster.hold(6, A, range(3))
    odd.newer.append(f"bka.example_3181/ledgers0/current/{index_path(6)}")
    odd.find("orphan-ledger", "note", 6, A, "suspect")
    # A relocation that was interrupted: where there is no .idx, the .rloc is the index.
    cluster.ledger(7, {0: [A, B, C]}, (3, 2), 9, without={B: range(10)})
    cluster.files[f"bkb.example_3181/ledgers0/current/{index_path(7)}.rloc"] = index_bytes(range(10))
    # A bookie's own files are not stray; those of somebody else are.
    for name in ("0.log", "1a.log", "lastId", "BOOKIE_STATUS", "DIRTY"):
        cluster.files[f"bka.example_3181/ledgers0/current/{name}"] = b"1"
    cluster.files["bkb.example_3181/ledgers0/current/core.1234"] = b"1"
    odd.find("stray-file", "note", None, B)


def replication(odd: Oddities) -> None:
    cluster = odd.cluster
    # The server's own check calls these lost: E - Qw is 2 or more.
    for ledger, (size, quorum) in {20: (5, 3), 21: (7, 2), 22: (7, 5), 23: (6, 1)}.items():
        cluster.ledger(ledger, {0: [A, B, C, D, E, F, G][:size]}, (quorum, quorum), 49)
    # The index of H was last flushed before this ledger changed.
    late = cluster.bookie("bkh.example:3181")
    odd.flushed["bkh.example_3181"] = NOW_MS - 30 * DAY
    cluster.ledger(24, {0: [A, B, late]}, (3, 2), 9, without={late: [9]})
    odd.find("below-write-quorum", "warning", 24, confidence="suspect")
    # An open ledger's earlier segment, but for the entries that its writer may still be sending; never lost.
    gaps = {A: [3, 9], B: [3, 9], C: [3, 9]}
    cluster.ledger(25, {0: [A, B, C], 10: [A, B, D]}, (2, 2), None, state="OPEN", written=20, without=gaps)
    odd.find("below-ack-quorum", "error", 25, confidence="suspect")
    # An open ledger whose bookies were replaced at every entry.
    one_entry_each = {first: [A, B, (C, D)[first % 2]] for first in range(61)}
    cluster.ledger(27, one_entry_each, (3, 2), None, state="OPEN", written=61, without={A: range(10, 50)})
    odd.find("below-write-quorum", "warning", 27, confidence="suspect")
    # An open ledger of which a writer may still be sending every entry.
    cluster.ledger(28, {0: [A, B, C], 2: [A, B, D]}, (3, 2), None, state="OPEN", written=4)
    # Two segments after the last entry: nothing is striped there.
    cluster.ledger(26, {0: [A, B, C], 10: [B, C, D], 20: [A, C, D]}, (2, 2), 9)


def metadata(odd: Oddities) -> None:
    cluster = odd.cluster
    cluster.node("/ledgers/00/0000/L0040", b"BookieMetadataFormatVersion\t3\n\x05spam")
    cluster.hold(40, A, range(10))
    odd.find("metadata-unreadable", "error", 40)
    # Not at its own place: what bookies hold of the ledger that it could be the record of is suspected only.
    plain = PlainLedger("CLOSED", 3, 3, 2, 9, ((0, (A, B, C)),))
    cluster.node("/ledgers/00/0000/L00041", metadata_bytes(plain))
    cluster.hold(41, A, range(10))
    odd.find("metadata-misplaced", "error", 41)
    odd.find("orphan-ledger", "note", 41, A, "suspect")
    # The hierarchical layout keeps small ids on the short path.
    cluster.node("/ledgers/000/0000/0000/0000/L0042", metadata_bytes(plain))
    cluster.hold(42, A, range(10))
    odd.find("metadata-misplaced", "error", 42)
    odd.find("orphan-ledger", "note", 42, A, "suspect")
    # Broken rules; only the gap leaves replication to be judged.
    cluster.ledger(43, {3: [A, B, C]}, (3, 2), 9)
    odd.find("segment-gap", "error", 43)
    cluster.ledger(44, {0: [A, A, B]}, (2, 2), 9)
    odd.find("ensemble-duplicate", "error", 44)
    cluster.ledger(45, {0: [A, B]}, (2, 2), 9, ensemble_size=3)
    odd.find("ensemble-size", "error", 45)
    cluster.ledger(46, {0: [A, B, C]}, (2, 3), 9)
    odd.find("quorum-invalid", "error", 46)
    cluster.ledger(47, {0: [A, B, "bk,h.example:3181"]}, (2, 2), 9)
    odd.find("bookie-id-invalid", "error", 47)
    # In recovery for long, and since an hour.
    cluster.ledger(48, {0: [A, B, C]}, (2, 2), None, state="IN_RECOVERY", written=5, time=NOW_MS - 2 * DAY)
    odd.find("recovery-stuck", "warning", 48)
    cluster.ledger(49, {0: [A, B, C]}, (2, 2), None, state="IN_RECOVERY", written=5, time=NOW_MS - HOUR)
    # What else may lie below the root.
    for node in ("idgen", "idgen-long", "idgen-long/HOB-0000000001", "disableHealthCheck"):
        cluster.node(f"/ledgers/{node}")


def marks(odd: Oddities) -> None:
    cluster = odd.cluster
    # For longer than a day without a lock; with one; and since an hour.
    for ledger in (60, 61, 62):
        cluster.ledger(ledger, {0: [A, B, C]}, (3, 2), 9, without={C: [4]})
        cluster.mark(ledger, C, age=HOUR if ledger == 62 else 30 * HOUR)
        odd.find("below-write-quorum", "warning", ledger)
    cluster.lock(61)
    odd.find("mark-stuck", "warning", 60)
    # The only copy is on a bookie that is down: no replication worker can ever clear this mark.
    cluster.ledger(63, {0: ["down.example:3181"]}, (1, 1), 9)
    cluster.mark(63, "down.example:3181", age=30 * HOUR)
    odd.find("mark-stuck", "error", 63)
    odd.find("ledger-unavailable", "error", 63)
    # There are marks, and no vote of an auditor.
    odd.find("no-auditor", "warning")
    # A replica that nobody knows; as no ensemble names it any more, and all is there, the mark is stale too.
    cluster.ledger(64, {0: [A, B, C]}, (3, 2), 9)
    cluster.mark(64, "nobody.example:3181")
    odd.find("mark-unknown-replica", "note", bookie="nobody.example:3181")
    odd.find("mark-stale", "note", bookie="nobody.example:3181")
    # An empty list is a placement mark.
    cluster.ledger(65, {0: [A, B, C]}, (3, 2), 9)
    cluster.mark(65)
    # Nothing of it can be copied, and it stays in the queue.
    cluster.ledger(66, {0: [A, B, "down.example:3181"]}, (3, 2), -1)
    cluster.mark(66, "down.example:3181", age=30 * HOUR)
    odd.find("mark-of-empty-ledger", "note", bookie="down.example:3181")
    # What workers leave behind.
    cluster.ledger(67, {0: [A, B, C]}, (3, 2), 9)
    cluster.lock(67, age=2 * HOUR)
    odd.find("lock-without-mark", "note", 67, confidence="suspect")
    cluster.empty_directories(100)
    odd.find("mark-directory-empty", "note")


def identity(odd: Oddities) -> None:
    cluster = odd.cluster
    cluster.bookie("nocookie.example:3181", cookie=None)
    odd.find("cookie-missing", "error", bookie="nocookie.example:3181")
    cluster.bookie("retired.example:3181", registered=None, disk=False)
    odd.find("cookie-unused", "note", bookie="retired.example:3181")
    renamed = cookie_bytes("renamed.example:3181", "renamed", ["ledgers0"], cluster.instance)
    cluster.bookie("key.example:3181", cookie=renamed)
    odd.find("cookie-key-mismatch", "error", bookie="key.example:3181")
    odd.find("start-refused", "error", bookie="key.example:3181")
    cluster.bookie("garbled.example:3181", cookie=b"5\nbookieHost: 7\n")
    odd.find("cookie-unreadable", "error", bookie="garbled.example:3181")
    odd.find("start-refused", "error", bookie="garbled.example:3181")
    # A copied tree left its registration, and nobody marked its ledger.
    cluster.bookie("copied.example:3181", registered=None)
    cluster.node("/ledgers/available/copied.example:3181")
    cluster.ledger(89, {0: [A, B, "copied.example:3181"]}, (3, 2), 9)
    odd.find("registration-not-ephemeral", "error", bookie="copied.example:3181")
    odd.find("bookie-down", "warning", bookie="copied.example:3181")
    odd.find("on-unregistered-bookie", "warning", bookie="copied.example:3181")
    odd.find("mark-missing", "note", bookie="copied.example:3181")
    # Two swapped disks: nothing is lost, and both say so.
    swapped = {"left.example:3181": "right.example:3181", "right.example:3181": "left.example:3181"}
    for place, owner in swapped.items():
        version = cookie_bytes(owner, owner.replace(":", "_"), ["ledgers0"], cluster.instance)
        cluster.bookie(place, on_disk={"ledgers0": version})
        odd.find("disk-id-mismatch", "error", bookie=owner)
        odd.find("start-refused", "error", bookie=owner)
    cluster.ledger(80, {0: [A, "left.example:3181", "right.example:3181"]}, (2, 2), 9)
    left_copy, right_copy = ((80, bookie) for bookie in swapped)
    cluster.copies[left_copy], cluster.copies[right_copy] = (
        cluster.copies[right_copy],
        cluster.copies[left_copy],
    )
    # A bookie whose disks carry another cluster's instance id: what they hold is unknown.
    foreign = cookie_bytes("foreign.example:3181", "foreign.example_3181", ["ledgers0"], OTHER_CLUSTER)
    cluster.bookie("foreign.example:3181", on_disk={"journal": foreign, "ledgers0": foreign})
    cluster.ledger(81, {0: [A, B, "foreign.example:3181"]}, (3, 2), 9)
    odd.find("instance-mismatch", "critical", bookie="foreign.example:3181")
    odd.find("start-refused", "error", bookie="foreign.example:3181")
    odd.find("metadata-suspect", "critical", bookie="foreign.example:3181")
    odd.find("bookie-unread", "note", bookie="foreign.example:3181", confidence="unknown")
    # Down: it has a cookie and is in ensembles. Ledger 63 is marked, this one is not.
    cluster.bookie("down.example:3181", registered=None)
    cluster.ledger(82, {0: [A, B, "down.example:3181"]}, (3, 2), 9)
    odd.find("bookie-down", "warning", bookie="down.example:3181")
    odd.find("on-unregistered-bookie", "warning", bookie="down.example:3181")
    odd.find("mark-missing", "note", bookie="down.example:3181")
    # A ghost that nothing depends on: only an empty last segment names it.
    cluster.ledger(83, {0: [A, B, C], 10: [A, B, "ghost.example:3181"]}, (3, 2), 9)
    odd.find("ghost-bookie", "note", bookie="ghost.example:3181")
    odd.find("bookie-unread", "note", bookie="ghost.example:3181", confidence="unknown")


def suspicion(odd: Oddities) -> None:
    """Add bookies whose metadata may be lost while the ledgers are still needed: orphans are suspect."""
    cluster = odd.cluster

    def orphan(bookie: str, ledgers: range) -> None:
        for ledger in ledgers:
            cluster.hold(ledger, bookie, [0])
            odd.find("orphan-ledger", "note", ledger, bookie, "suspect")
        odd.find("metadata-suspect", "critical", bookie=bookie)

    # More than 5 % of its ledgers, and at least 100.
    many = cluster.bookie("many.example:3181")
    for ledger in range(200_000, 200_030):
        cluster.ledger(ledger, {0: [many]}, (1, 1), 0)
    orphan(many, range(200_100, 200_201))
    # All of its ledgers.
    orphan(cluster.bookie("all.example:3181"), range(210_000, 210_100))
    # All of them too, and a handful: made and deleted within one interval of garbage collection.
    handful = cluster.bookie("handful.example:3181")
    for ledger in range(211_000, 211_003):
        cluster.hold(ledger, handful, [0])
        odd.find("orphan-ledger", "note", ledger, handful)
    # A whole range of ids, though these are few among all that it has.
    vanished = cluster.bookie("range.example:3181")
    for ledger in range(300_000, 302_100):
        cluster.ledger(ledger, {0: [vanished]}, (1, 1), 0)
    orphan(vanished, range(310_000, 310_100))
    # More than 20 % of its ledgers, though fewer than 100: nobody can be sure.
    share = cluster.bookie("share.example:3181")
    for ledger in range(220_000, 220_030):
        cluster.ledger(ledger, {0: [share]}, (1, 1), 0)
    for ledger in range(220_100, 220_199):
        cluster.hold(ledger, share, [0])
        odd.find("orphan-ledger", "note", ledger, share, "suspect")
    odd.find("metadata-suspect", "critical", bookie=share, confidence="suspect")
    # 99 of 599 are fewer than 100, and less than 20 %.
    few = cluster.bookie("few.example:3181")
    for ledger in range(230_000, 230_500):
        cluster.ledger(ledger, {0: [few]}, (1, 1), 0)
    for ledger in range(230_600, 230_699):
        cluster.hold(ledger, few, [0])
        odd.find("orphan-ledger", "note", ledger, few)


@dataclass(frozen=True)
class Synthetic:
    odd: Oddities
    run: FinishedRun


@pytest.fixture(scope="module")
def synthetic(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Synthetic:
    odd = Oddities()
    for bookie in BOOKIES:
        odd.cluster.bookie(bookie)
    for add in (storage, replication, metadata, identity, marks, suspicion):
        add(odd)
    # The journal file that lastMark names, which ends within its header: without it no bookie would start.
    for mark in [name for name in odd.cluster.files if name.endswith("/ledgers0/current/lastMark")]:
        odd.cluster.files[f"{mark.partition('/')[0]}/journal/current/1.txn"] = b"1"
    root = odd.cluster.write(tmp_path_factory.mktemp("synthetic"))
    after = (NOW_MS + HOUR) / 1000
    for name in odd.newer:
        os.utime(root / "bookies" / name, (after, after))
    for bookie, time in odd.flushed.items():
        os.utime(root / "bookies" / bookie / "ledgers0/current/lastMark", (time / 1000, time / 1000))
    return Synthetic(odd, audit(spark, f"dump://{root}/metadata.jsonl", root / "bookies", root / "run"))


def test_findings_are_exactly_the_planted_faults(synthetic: Synthetic) -> None:
    # Those of suspicion are hundreds: what differs is shown alone.
    findings, expected = Counter(synthetic.run.finding_keys()), Counter(synthetic.odd.expected)
    assert findings - expected == Counter()
    assert expected - findings == Counter()


def test_two_swapped_disks_lose_nothing(synthetic: Synthetic) -> None:
    row = synthetic.run.verdicts()[80]
    assert (row["class"], row["potential_class"]) == ("healthy", "healthy")


def test_unreadable_record_is_no_orphan_and_misplaced_records_explain_the_doubt(synthetic: Synthetic) -> None:
    verdicts = synthetic.run.verdicts()
    assert 40 in verdicts
    assert verdicts[40]["class"] == "undecided"
    doubts = {
        row["ledger_id"]: json.loads(row["evidence"])["doubt"]
        for row in synthetic.run.findings_of("orphan-ledger")
        if row["ledger_id"] in (40, 41, 42)
    }
    assert doubts == {
        41: "/ledgers/00/0000/L00041: not at the path of a ledger",
        42: "/ledgers/000/0000/0000/0000/L0042: a path of layout longhierarchical",
    }


def test_invalid_metadata_leaves_ledgers_undecided_except_for_a_segment_gap(synthetic: Synthetic) -> None:
    verdicts = synthetic.run.verdicts()
    classes = {ledger: verdicts[ledger]["class"] for ledger in range(43, 48)}
    assert classes == {43: "healthy", **dict.fromkeys(range(44, 48), "undecided")}


def test_earlier_segment_of_open_ledger_is_judged_except_its_last_write_quorum(synthetic: Synthetic) -> None:
    (row,) = (row for row in synthetic.run.findings_of("below-ack-quorum") if row["ledger_id"] == 25)
    # Entry 3 is striped to A and B of three; entry 9 lies within the final write quorum.
    assert missing(row) == {A: frozenset({3}), B: frozenset({3})}


def test_open_ledger_with_61_one_entry_segments_reports_its_missing_entries(synthetic: Synthetic) -> None:
    (row,) = (row for row in synthetic.run.findings_of("below-write-quorum") if row["ledger_id"] == 27)
    assert missing(row) == {A: frozenset(range(10, 50))}


def test_open_ledger_without_judged_entries_counts_as_open_not_decided(synthetic: Synthetic) -> None:
    ids_with_groups = {
        row["ledger_id"]
        for row in synthetic.run.table("ledgers")
        if any(replica["groups"] for replica in row["replicas"] or ())
    }
    open_ledgers = {
        row["ledger_id"]
        for row in synthetic.run.table("verdicts")
        if row["state"] in ("OPEN", "IN_RECOVERY") and row["class"] != "undecided"
    }
    assert 28 in open_ledgers - ids_with_groups
    assert synthetic.run.report.coverage.ledgers.open == len(open_ledgers - ids_with_groups)


def test_copy_on_disks_of_another_cluster_is_unknown(synthetic: Synthetic) -> None:
    row = synthetic.run.verdicts()[81]
    assert (row["class"], row["potential_class"]) == ("healthy", "below-write-quorum")
    assert row["unread_bookies"] == ["foreign.example:3181"]


def test_findings_of_whole_bookies_count_their_ledgers(synthetic: Synthetic) -> None:
    by_bookie = {
        (row["id"], row["bookie_id"]): json.loads(row["evidence"]) for row in synthetic.run.findings()
    }
    # Ledgers 63 and 82 depend on the bookie that is down; 63 is marked.
    assert by_bookie["on-unregistered-bookie", "down.example:3181"]["depending"] == 2
    assert by_bookie["mark-missing", "down.example:3181"]["unmarked"] == 1
    assert by_bookie["bookie-unread", "foreign.example:3181"]["ledgers"] == 1


def test_the_run_is_not_healthy(synthetic: Synthetic, tmp_path: Path) -> None:
    assert json.loads((synthetic.run.out / "report.json").read_text())["verdict"] == "not-healthy"

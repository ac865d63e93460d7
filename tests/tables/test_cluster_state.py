"""The cluster's own facts, read from bytes in the formats that a 4.17.2 server wrote."""

from __future__ import annotations

from typing import Any

from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.tables.cluster_state import CLUSTER, autorecovery_facts, make_cluster_rows


def facts(nodes: dict[str, bytes]) -> list[tuple[str, str | None, bool]]:
    znodes = {path: Znode(f"/ledgers/{path}", data, 1, 1, 5, 6, 0, 0) for path, data in nodes.items()}
    rows = make_cluster_rows(ClusterNodes(znodes, 0, "0x1"))
    assert all(set(row) == set(CLUSTER.names) for row in rows)
    return [(row["fact"], row["value"], row["damage"] is not None) for row in rows]


def test_cluster_facts_are_read_from_znodes() -> None:
    assert facts(
        {
            "INSTANCEID": b"a77a8e0d-9cb6-4361-8771-ab58ad015219",
            "disableHealthCheck": b"",
            "idgen-long/HOB-0000000001": b"",
            "underreplication/LAYOUT": b'type: "BASIC"\nversion: 1\n',
            "underreplication/auditorelection": b'bookieId: "old:1"\n',
            "underreplication/auditorelection/V_0000000003": b'bookieId: "bk2:3181"\n',
            "underreplication/auditorelection/V_0000000002": b'bookieId: "bk1:3181"\n',
            "underreplication/checkallledgersctime": bytes.fromhex("088080babbc82e"),
            "underreplication/disable": b"",
            "underreplication/lostBookieRecoveryDelay": b"30",
            "cookies/bk1:3181": b"not of this table",
        }
    ) == [
        ("instance-id", "a77a8e0d-9cb6-4361-8771-ab58ad015219", False),
        ("health-check-disabled", "true", False),
        ("id-generator", "idgen-long/HOB-0000000001", False),
        ("replication-layout", "BASIC 1", False),
        ("auditor", "bk1:3181", False),
        ("auditor-candidate", "bk2:3181", False),
        ("check-all-ledgers-time-ms", "1600000000000", False),
        ("replication-disabled", "true", False),
        ("lost-bookie-recovery-delay-s", "30", False),
    ]


def test_unreadable_fact_is_damaged_and_unwritten_fact_is_null() -> None:
    assert facts(
        {"underreplication/replicascheckctime": b"", "underreplication/placementpolicycheckctime": b"\x08"}
    ) == [("placement-policy-check-time-ms", None, True), ("replicas-check-time-ms", None, False)]


VOTE = "underreplication/auditorelection/V_000000000"
READ_VOTE = {"auditor": "bk1:3181", "auditor_down": False, "votes": 2}


def scan(nodes: dict[str, bytes], owner: int = 7, **options: Any) -> ClusterNodes:
    znodes = {path: Znode(f"/ledgers/{path}", data, 1, 1, 5, 6, 0, owner) for path, data in nodes.items()}
    return ClusterNodes(znodes, 0, "0x1", **options)


def test_lowest_live_vote_is_the_auditor() -> None:
    votes = {f"{VOTE}3": b'bookieId: "bk2:3181"\n', f"{VOTE}2": b'bookieId: "bk1:3181"\n'}
    recovery_facts = autorecovery_facts([scan(votes)], 100, {"bk2:3181"})
    assert READ_VOTE.items() <= recovery_facts.items()
    assert recovery_facts["age_ms"] == 95
    assert autorecovery_facts([scan(votes)], 100, {"bk1:3181"})["auditor_down"]
    # A vote without a session is left behind by a process that is gone.
    assert autorecovery_facts([scan(votes, owner=0)], 100, ())["votes"] == 0
    # An auditor that is being replaced has no vote for a moment: one scan with a vote is enough.
    assert autorecovery_facts([scan(votes), scan({"underreplication": b""})], 100, ())["votes"] == 2


def test_settings_of_autorecovery_are_read_if_they_are_numbers() -> None:
    delay = "underreplication/lostBookieRecoveryDelay"
    assert autorecovery_facts([scan({delay: b"315360000"})], 0, ())["delay_s"] == 315_360_000
    assert autorecovery_facts([scan({delay: b"soon"})], 0, ())["delay_s"] is None
    checked = {"underreplication/checkallledgersctime": bytes.fromhex("088080babbc82e")}
    assert autorecovery_facts([scan(checked)], 0, ())["last_check"] == 1_600_000_000_000


def test_unread_autorecovery_gives_no_facts() -> None:
    assert autorecovery_facts([scan({"LAYOUT": b""})], 0, ()) == {}
    assert autorecovery_facts([scan({"underreplication": b""}, gaps=(("/ledgers/x", "cut"),))], 0, ()) == {}

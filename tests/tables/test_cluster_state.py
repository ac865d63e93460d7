"""The cluster's own facts; the bytes are those of formats written by a 4.17.2 server."""

from __future__ import annotations

from auditor.sources.metadata.store import ClusterNodes, Znode
from auditor.tables.cluster_state import CLUSTER, cluster_state


def facts(nodes: dict[str, bytes]) -> list[tuple[str, str | None, bool]]:
    znodes = {path: Znode(f"/ledgers/{path}", data, 1, 1, 5, 6, 0, 0) for path, data in nodes.items()}
    rows = cluster_state(ClusterNodes(znodes, 0, "0x1"))
    assert all(set(row) == set(CLUSTER.names) for row in rows)
    return [(row["fact"], row["value"], row["damage"] is not None) for row in rows]


def test_what_the_store_keeps_is_told() -> None:
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


def test_a_fact_that_cannot_be_read_says_so_and_one_never_written_is_null() -> None:
    assert facts(
        {"underreplication/replicascheckctime": b"", "underreplication/placementpolicycheckctime": b"\x08"}
    ) == [("placement-policy-check-time-ms", None, True), ("replicas-check-time-ms", None, False)]

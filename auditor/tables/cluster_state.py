"""cluster: what the metadata store says of the whole cluster, one fact a row.

Its identity, whether re-replication runs, when the server's own checks last ended, who audits, how far the id
generators are. A fact that cannot be read says why; one that is not kept has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from auditor.codecs.store import underreplication
from auditor.errors import DecodeError
from auditor.model.columns import schema_of
from auditor.sources.metadata.store import NO_TIME, ClusterNodes, Znode

CLUSTER = schema_of(
    ("fact", pa.string(), "which fact"),
    ("value", pa.string(), "what the store says; null where it is unreadable"),
    ("path", pa.string(), "the znode that says it"),
    ("mtime", pa.int64(), "when the znode last changed, ms; null where the store keeps no times"),
    ("damage", pa.string(), "why it could not be read"),
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").strip()


def _there(data: bytes) -> str:
    return "true"


def _replication_layout(data: bytes) -> str:
    layout = underreplication.decode_layout(data)
    return f"{layout.type} {layout.version}"


_READERS: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "INSTANCEID": ("instance-id", _text),
    "LAYOUT": ("layout", _text),
    # These two say what they say by being there.
    "disableHealthCheck": ("health-check-disabled", _there),
    "underreplication/disable": ("replication-disabled", _there),
    "underreplication/LAYOUT": ("replication-layout", _replication_layout),
    "underreplication/lostBookieRecoveryDelay": ("lost-bookie-recovery-delay-s", _text),
    "underreplication/checkallledgersctime": (
        "check-all-ledgers-time-ms",
        underreplication.decode_check_all_ledgers_time,
    ),
    "underreplication/placementpolicycheckctime": (
        "placement-policy-check-time-ms",
        underreplication.decode_placement_policy_check_time,
    ),
    "underreplication/replicascheckctime": (
        "replicas-check-time-ms",
        underreplication.decode_replicas_check_time,
    ),
}
UNLISTED_BOOKIES = "unlisted-bookies"
"""Cookies or registrations could not be read: of the one bookie that is the value, or of any."""

_VOTES = "underreplication/auditorelection/"
_GENERATORS = ("idgen/", "idgen-long/")


def cluster_state(cluster: ClusterNodes) -> list[dict[str, Any]]:
    """Rows of `CLUSTER`, in the order of their paths.

    The auditor is the candidate with the lowest vote; the znode above the votes may be old, and is not
    asked.
    """
    rows = []
    votes = sorted(path for path in cluster.nodes if path.startswith(_VOTES))
    for path, znode in sorted(cluster.nodes.items()):
        if path in _READERS:
            fact, read = _READERS[path]
            rows.append(_row(fact, znode, read))
        elif path in votes:
            fact = "auditor" if path == votes[0] else "auditor-candidate"
            rows.append(_row(fact, znode, underreplication.decode_vote))
        elif path.startswith(_GENERATORS):
            # Its name is what it says: the high bits of ids, or a number that was just drawn.
            rows.append(_row("id-generator", znode, _there) | {"value": path})
    return rows


def unlisted_bookies(hidden: tuple[str, str] | None, unclear: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows of `CLUSTER` for cookies and registrations that could not be read.

    ``hidden`` is a place where any bookie's could be, and why; ``unclear`` has the paths of one's own.
    """
    fact = {"fact": UNLISTED_BOOKIES, "mtime": None, "damage": None}
    rows = [fact | {"value": name, "path": path} for name, path in sorted(unclear.items())]
    if hidden is None:
        return rows
    path, reason = hidden
    return [*rows, fact | {"value": None, "path": path, "damage": reason}]


def _row(fact: str, znode: Znode, read: Callable[[bytes], object]) -> dict[str, Any]:
    value, damage = None, None
    try:
        value = read(znode.data)
    except DecodeError as error:
        damage = str(error)
    return {
        "fact": fact,
        "value": None if value is None else str(value),
        "path": znode.path,
        "mtime": None if znode.mtime == NO_TIME else znode.mtime,
        "damage": damage,
    }

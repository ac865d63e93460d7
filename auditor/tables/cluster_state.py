"""cluster: facts about the whole cluster in the metadata store, and the cluster's next ledger ids.

Each row is one fact. The facts are the cluster's identity, the elected auditor, and the id generators. Two
more are whether re-replication is enabled, and when AutoRecovery finished its last checks. A fact that cannot
be read has a row with the reason. A fact that the store does not keep has no row.

    <root>/idgen                 one child was made and deleted for each id: the next id is their count
    <root>/idgen-long/HOB-n      beyond 31 bits: the next id is n << 32 | their count; the highest n counts
    buckets/<b> (etcd)           b << 56 | n, where n is how often the key was written (1 for the first id)

A store may be a restored backup that is older than the data on its bookies. Or it may belong to another
cluster. In both cases, bookies hold ledgers with ids that the store's generator has not given out. In the
flat layout, the count would include all other children of the root, so it is not used. Source:
ZkLedgerIdGenerator, LongZkLedgerIdGenerator, EtcdIdGenerator.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from auditor.codecs.store import underreplication
from auditor.errors import DecodeError
from auditor.keys import etcd
from auditor.model.columns import make_schema
from auditor.model.ledger_id import MAX_LEDGER_ID, LayoutKind
from auditor.sources.metadata.store import NO_TIME, UNKNOWN_COUNT, ClusterNodes, Znode
from auditor.spark import functions as F
from auditor.spark.batches import arrow_frame
from auditor.spark.types import DataFrame

CLUSTER = make_schema(
    ("fact", pa.string(), "name of the fact"),
    ("value", pa.string(), "value in the store; null: it could not be read"),
    ("path", pa.string(), "path of the znode with the value"),
    (
        "mtime",
        pa.int64(),
        "time of the znode's last change (ms since 1970, UTC); null: the store keeps no times",
    ),
    ("damage", pa.string(), "reason why the value could not be read; null: it was read"),
)


def _read_text(encoded_text: bytes) -> str:
    return encoded_text.decode("utf-8", "replace").strip()


def _describe_presence(data: bytes) -> str:
    return "true"


def _replication_layout(data: bytes) -> str:
    layout = underreplication.decode_layout(data)
    return f"{layout.type} {layout.version}"


_READER_BY_PATH: dict[str, tuple[str, Callable[[bytes], object]]] = {
    "INSTANCEID": ("instance-id", _read_text),
    "LAYOUT": ("layout", _read_text),
    # Only the presence of these two znodes matters.
    "disableHealthCheck": ("health-check-disabled", _describe_presence),
    "underreplication/disable": ("replication-disabled", _describe_presence),
    "underreplication/LAYOUT": ("replication-layout", _replication_layout),
    "underreplication/lostBookieRecoveryDelay": ("lost-bookie-recovery-delay-s", _read_text),
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
"""Name of the fact that cookies or registrations could not be read.

The fact's value is their bookie, or null if they may be those of any bookie.
"""

_VOTES_DIRECTORY = "underreplication/auditorelection/"
_GENERATOR_PREFIXES = ("idgen/", "idgen-long/")


def make_cluster_rows(cluster: ClusterNodes) -> list[dict[str, Any]]:
    """Return the rows of `CLUSTER`, ordered by path.

    The auditor of AutoRecovery is the candidate with the lowest vote. The znode above the votes may be
    outdated and is not read.
    """
    rows = []
    votes = sorted(path for path in cluster.nodes if path.startswith(_VOTES_DIRECTORY))
    for path, znode in sorted(cluster.nodes.items()):
        if path in _READER_BY_PATH:
            fact, read_value = _READER_BY_PATH[path]
            rows.append(_fact_row(fact, znode, read_value))
        elif path in votes:
            fact = "auditor" if path == votes[0] else "auditor-candidate"
            rows.append(_fact_row(fact, znode, underreplication.decode_vote))
        elif path.startswith(_GENERATOR_PREFIXES):
            # Only the name matters: it has the high bits of ids, or a number that was just given out.
            rows.append(_fact_row("id-generator", znode, _describe_presence) | {"value": path})
    return rows


_REPLICATION_ROOT = "underreplication"
_CHECK_TIME_FACTS = (
    "check-all-ledgers-time-ms",
    "placement-policy-check-time-ms",
    "replicas-check-time-ms",
)


def autorecovery_facts(
    scans: Sequence[ClusterNodes], scan_time: int, down_bookies: Collection[str]
) -> dict[str, Any]:
    """Return the fields of `RepairState` from the store's znodes, or an empty dict if they were not read.

    Args:
        scans: Znodes of the cluster from both scans, the later scan last. The votes of the auditor election
            are taken from the later scan, or from the first scan if the later scan has none.
        scan_time: Time of the first scan, in ms.
        down_bookies: Bookies that have a cookie but are not registered.
    """
    newest_scan = scans[-1]
    # Without this parent znode, AutoRecovery was never started here, or the dump left it out.
    if any(nodes.gaps for nodes in scans) or not any(_is_replication(path) for path in newest_scan.nodes):
        return {}
    election_votes = next((votes for votes in map(_find_live_votes, reversed(scans)) if votes), [])
    fact_by_name = {row["fact"]: row for row in make_cluster_rows(newest_scan)}
    disabled_fact, check_times = (
        fact_by_name.get("replication-disabled"),
        [_read_number(fact_by_name.get(name)) for name in _CHECK_TIME_FACTS],
    )
    auditor = _decode_vote(election_votes[0]) if election_votes else None
    creation_times = [node.ctime for node in newest_scan.nodes.values() if node.ctime > 0]
    return {
        "sees_autorecovery": True,
        "auditor": auditor,
        "auditor_down": auditor in down_bookies,
        "votes": len(election_votes),
        "disabled": disabled_fact is not None,
        "disabled_since": disabled_fact["mtime"] if disabled_fact else None,
        "delay_s": _read_number(fact_by_name.get("lost-bookie-recovery-delay-s")),
        "last_check": max(
            (check_time for check_time in check_times if check_time is not None and check_time > 0),
            default=None,
        ),
        "age_ms": scan_time - min(creation_times) if creation_times else None,
    }


def _is_replication(path: str) -> bool:
    return path == _REPLICATION_ROOT or path.startswith(f"{_REPLICATION_ROOT}/")


def _find_live_votes(nodes: ClusterNodes) -> list[Znode]:
    """Return the votes of the auditor election that belong to live sessions, the auditor's vote first.

    A vote without a session is outdated.
    """
    paths = sorted(path for path in nodes.nodes if path.startswith(_VOTES_DIRECTORY))
    return [nodes.nodes[path] for path in paths if nodes.nodes[path].ephemeral_owner != 0]


def _decode_vote(znode: Znode) -> str | None:
    try:
        return underreplication.decode_vote(znode.data)
    except DecodeError:
        return None


def _read_number(fact: Mapping[str, Any] | None) -> int | None:
    """Return the value of a fact as a number, or None if the fact is absent or not a number."""
    fact_value = None if fact is None else fact["value"]
    return int(fact_value) if fact_value is not None and re.fullmatch("-?[0-9]{1,18}", fact_value) else None


def make_unlisted_rows(
    unread_path_and_reason: tuple[str, str] | None, path_by_bookie: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of `CLUSTER` for cookies and registrations that could not be read.

    Args:
        unread_path_and_reason: A path that could not be listed, and the reason. The path may contain
            cookies or registrations of any bookie. None if there is no such path.
        path_by_bookie: Paths of cookies and registrations that could not be read, by bookie.
    """
    fact = {"fact": UNLISTED_BOOKIES, "mtime": None, "damage": None}
    rows = [fact | {"value": name, "path": path} for name, path in sorted(path_by_bookie.items())]
    if unread_path_and_reason is None:
        return rows
    path, reason = unread_path_and_reason
    return [*rows, fact | {"value": None, "path": path, "damage": reason}]


def _fact_row(fact: str, znode: Znode, read_value: Callable[[bytes], object]) -> dict[str, Any]:
    fact_value, damage = None, None
    try:
        fact_value = read_value(znode.data)
    except DecodeError as error:
        damage = str(error)
    return {
        "fact": fact,
        "value": None if fact_value is None else str(fact_value),
        "path": znode.path,
        "mtime": None if znode.mtime == NO_TIME else znode.mtime,
        "damage": damage,
    }


GENERATOR_NAMES = ("idgen", "idgen-long", "ms-idgen", "buckets")
_HOB_NODE_PATTERN = re.compile(r"idgen-long/HOB-([0-9]{10})")
_GENERATOR_SHIFT = 32
_BUCKET_SHIFT = 56
_NEXT_ID_SCHEMA = pa.schema([("generator", pa.int64()), ("next", pa.int64())])


class IdRange(NamedTuple):
    """The range of ledger ids of one generator, from ``low`` to ``high``.

    The generator has given out all ids below ``next`` and no others.
    """

    low: int
    high: int
    next: int


def find_id_ranges(cluster: ClusterNodes, layout: LayoutKind) -> tuple[IdRange, ...]:
    """Return the id ranges of a store's generators.

    The result is empty if the store does not show the next ids of its generators.

    >>> idgen = Znode("/ledgers/idgen", b"", 1, 1, 5, 5, 0, 0, made=70)
    >>> find_id_ranges(ClusterNodes({"idgen": idgen}, 5, "0x1"), LayoutKind.HIERARCHICAL)
    (IdRange(low=0, high=9223372036854775807, next=70),)
    """
    if cluster.gaps:
        return ()  # the part that could not be read may have the generator
    if layout is LayoutKind.ETCD:
        return _bucket_id_ranges(cluster)
    if layout is LayoutKind.FLAT:
        return ()
    if "idgen-long" in cluster.nodes:
        next_id = _read_next_long_id(cluster)
    else:
        next_id = cluster.nodes["idgen"].made if "idgen" in cluster.nodes else UNKNOWN_COUNT
    return () if next_id == UNKNOWN_COUNT else (IdRange(0, MAX_LEDGER_ID, next_id),)


def is_unused_store(cluster: ClusterNodes) -> bool:
    """Return whether the store certainly has neither a LAYOUT nor an id generator, as if it was never used.

    >>> is_unused_store(ClusterNodes({}, 5, "0x1"))
    True
    >>> is_unused_store(ClusterNodes({}, 5, "0x1", (("/ledgers", "cut"),)))
    False
    """
    top_names = {path.partition("/")[0] for path in cluster.nodes}
    return not cluster.gaps and top_names.isdisjoint(("LAYOUT", *GENERATOR_NAMES))


def _read_next_long_id(cluster: ClusterNodes) -> int:
    """Return the next id of the generator for ids beyond 31 bits, or `UNKNOWN_COUNT` if it is unknown."""
    path_matches = ((path, _HOB_NODE_PATTERN.fullmatch(path)) for path in cluster.nodes)
    highest_generator = max(
        ((int(path_match[1]), path) for path, path_match in path_matches if path_match), default=None
    )
    if highest_generator is None:
        return UNKNOWN_COUNT
    generator_number, path = highest_generator
    created_children = cluster.nodes[path].made
    return (
        UNKNOWN_COUNT
        if created_children == UNKNOWN_COUNT
        else generator_number << _GENERATOR_SHIFT | created_children
    )


def _bucket_id_ranges(cluster: ClusterNodes) -> tuple[IdRange, ...]:
    """Return the id range of each etcd bucket. An unused bucket has not given out any id yet."""
    id_ranges = []
    for bucket in range(etcd.BUCKET_COUNT):
        node = cluster.nodes.get(f"{etcd.BUCKETS_KEY}/{bucket:03d}")
        if node is not None and node.made == UNKNOWN_COUNT:
            return ()
        lowest_id = bucket << _BUCKET_SHIFT
        id_ranges.append(
            IdRange(
                lowest_id, lowest_id + (1 << _BUCKET_SHIFT) - 1, lowest_id + (node.made if node else 0) + 1
            )
        )
    return tuple(id_ranges)


def find_unissued_ids(orphans: DataFrame, ledgers: DataFrame, id_ranges: Sequence[IdRange]) -> DataFrame:
    """Count by bookie the orphans whose ids the store's generator has not issued: rows of `UNISSUED_IDS`.

    An orphan is a ledger on a bookie that the metadata does not list. An application can also choose ids
    itself. So the result has rows only if two conditions are true. The store lists its ledgers without gaps,
    and the generator has given out the ids of all listed ledgers. Orphans whose index is newer than a saved
    scan are left out.
    """
    spark = orphans.sparkSession
    rows = {"generator": list(range(len(id_ranges))), "next": [generator.next for generator in id_ranges]}
    generators = F.broadcast(arrow_frame(spark, pa.table(rows, _NEXT_ID_SCHEMA)))
    # The bucket is the top byte of the id, including the sign bit.
    generator_number = F.lit(0) if len(id_ranges) == 1 else F.shiftrightunsigned("ledger_id", _BUCKET_SHIFT)

    def add_next_id(rows: DataFrame) -> DataFrame:
        return (
            rows.where("scope_id = 0")
            .withColumn("generator", generator_number.cast("long"))
            .join(generators, "generator")
        )

    is_unissued = F.col("ledger_id") >= F.col("next")
    listed_counts = add_next_id(ledgers.where("ledger_id is not null")).agg(
        F.count("*").alias("listed"), F.count_if(is_unissued).alias("by_hand")
    )
    gap_count = ledgers.where("status = 'gap'").agg(F.count("*").alias("gaps"))
    # At most one row. If the generator is not trusted, there is none, and the join drops every bookie.
    trusted_generators = listed_counts.crossJoin(gap_count).where("listed > 0 and by_hand = 0 and gaps = 0")
    unissued_orphans = add_next_id(orphans.where("not in_m0 and not newer_than_scan")).where(is_unissued)
    counts_by_bookie = unissued_orphans.groupBy("bookie_id").agg(
        F.count("*").alias("undrawn"), F.min("ledger_id").alias("lowest"), F.max("ledger_id").alias("highest")
    )
    return counts_by_bookie.crossJoin(F.broadcast(trusted_generators)).select(*UNISSUED_IDS.names)


UNISSUED_IDS = make_schema(
    (
        "bookie_id",
        pa.string(),
        "a bookie with ledgers that the metadata does not list and whose ids the id generator has "
        "not given out",
    ),
    (
        "undrawn",
        pa.int64(),
        "number of the bookie's ledgers that the metadata does not list and whose ids are not given out",
    ),
    ("lowest", pa.int64(), "lowest id of the ledgers counted in undrawn"),
    ("highest", pa.int64(), "highest id of the ledgers counted in undrawn"),
)

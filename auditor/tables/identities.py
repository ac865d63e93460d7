"""identities, identity_edges: the ids that belong to the same bookie, and the pairs of ids that rules join.

    bookies, registrations, cookies, directories  --id-->            the facts about each id: `collect_facts`
    ledgers (of ids that are gone)                --scope, ledger--> their copies on live bookies that no
                                                                     ensemble names: `count_shared_ledgers`
    facts and copies                              --rules-->         edges, and one identity for each id

Spark joins the tables that grow with the number of ledgers. The results have a few rows per bookie. The
rules in `auditor.model.bookie_alias` are applied to them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from auditor.model.alias_evidence import BookieFacts, ContentComparison, Edge, PairContents
from auditor.model.columns import LEDGER, make_schema
from auditor.model.cookie import Cookie
from auditor.model.states import BookieRead
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

IDENTITY_EDGES = make_schema(
    ("one", pa.string(), "a bookie id"),
    ("other", pa.string(), "another bookie id, which sorts after the first"),
    ("rule", pa.string(), "rule that suggests that both ids belong to the same bookie"),
    (
        "joins",
        pa.bool_(),
        "whether the rule alone proves that both ids belong to the same bookie; false: a second rule "
        "is needed",
    ),
    ("evidence", pa.string(), "observation that the rule is based on"),
    ("against", pa.string(), "evidence against the rule; null: there is none"),
    (
        "apart",
        pa.bool_(),
        "whether the ledgers show that the ids belong to two different bookies, regardless of all rules",
    ),
)
IDENTITIES = make_schema(
    ("bookie_id", pa.string(), "a bookie id of the table bookies"),
    ("identity", pa.string(), "first of all ids of this bookie; the id itself if the bookie has no other id"),
    ("aliases", pa.list_(pa.string()), "other ids of the same bookie"),
    (
        "stranded",
        pa.bool_(),
        "whether an ensemble contains an unregistered id of this bookie, while the bookie uses another id",
    ),
    ("named", pa.bool_(), "whether an ensemble contains the id"),
    ("marked", pa.bool_(), "whether an under-replication mark mentions the id"),
    ("registered", pa.bool_(), "whether the id is registered"),
    ("host", pa.string(), "host that clients connect to; null: clients have no address for the bookie"),
    ("port", pa.int32(), "port that clients connect to; null: clients have no address for the bookie"),
    ("hosts", pa.list_(pa.string()), "hosts of all endpoints in the bookie's registration"),
    (
        "cookie_names",
        pa.string(),
        "bookie id inside the cookie that the store keeps under this id; null: the cookie is absent "
        "or damaged",
    ),
    (
        "disks",
        pa.list_(pa.string()),
        "bookie ids in the VERSION files of the directories at this bookie's path, one for each file",
    ),
)

Rows = Iterable[Mapping[str, Any]]


def collect_facts(
    bookies: Rows, registrations: Rows, cookies: Rows, directories: Rows
) -> list[dict[str, Any]]:
    """Collect the facts about each bookie id from four tables, with one row per id.

    ``cookie`` is the decoded cookie of the bookie. It is None if the bookie has no cookie, or if the cookie
    could not be read. ``disks`` has the bookie ids in the VERSION files at the bookie's paths, or is None.

    >>> bookie = dict.fromkeys(("named", "marked", "registered", "found", "read")) | {"bookie_id": "b"}
    >>> [fact] = collect_facts([bookie], [], [], [{"place": "b", "cookie_bookie_id": "a"}])
    >>> fact["registered"], fact["host"], fact["cookie"], fact["disks"]
    (False, None, None, ['a'])
    """
    used_registrations = {row["bookie_id"]: row for row in registrations if row["used"]}
    cookie_by_bookie = {row["bookie_id"]: _cookie_of(row) for row in cookies if row["damage"] is None}
    disk_ids_by_place: dict[str, list[str]] = {}
    for row in directories:
        if row["cookie_bookie_id"] is not None and row["place"] is not None:
            disk_ids_by_place.setdefault(row["place"], []).append(row["cookie_bookie_id"])
    return [
        {name: row[name] for name in ("bookie_id", "named", "marked", "found", "read")}
        | {"registered": row["registered"] is not None}
        | _address_columns(used_registrations.get(row["bookie_id"]))
        | {
            "cookie": cookie_by_bookie.get(row["bookie_id"]),
            "disks": sorted(disk_ids_by_place.get(row["bookie_id"], ())) or None,
        }
        for row in bookies
    ]


def _cookie_of(row: Mapping[str, Any]) -> Cookie:
    index_directories = tuple(row["index_dirs"]) if row["index_dirs"] else None
    directory_lists = (row["journal_dirs"], tuple(row["ledger_dirs"]), index_directories)
    return Cookie(row["layout"], row["bookie_host"], *directory_lists, row["instance_id"])


def _address_columns(registration: Mapping[str, Any] | None) -> dict[str, Any]:
    if registration is None:
        return {"host": None, "port": None, "hosts": None}
    hosts = [endpoint["host"] for endpoint in registration["endpoints"]]
    return {"host": registration["host"], "port": registration["port"], "hosts": hosts}


def count_shared_ledgers(ledgers: DataFrame, differing_replicas: DataFrame, bookies: DataFrame) -> DataFrame:
    """Count the ledgers that vanished ids share with live bookies: one row of `PairContents` per pair.

    ``gone`` is a vanished id: ensembles name it, but it is neither registered nor on any disk.
    ``bookie_id`` is a live bookie. A ledger is shared in two cases: (1) Its ensembles also name the live
    bookie. (2) The live bookie holds a copy, although no ensemble names that bookie. ``due`` is the number
    of ledgers of which the vanished id should hold entries. A vanished id that shares no ledger with any
    live bookie has one row, with a null ``bookie_id``.
    """
    # An id in a VERSION file is of a bookie that is down, not of one with another id.
    vanished_ids = bookies.where("named and registered is null and not found").select(
        F.col("bookie_id").alias("gone")
    )
    live_bookies = bookies.where("registered is not null and not foreign_instance").select("bookie_id")
    # Only ledgers with entries that the id should hold are evidence.
    expected_replicas = (
        ledgers.where("undecidable = false")
        .select(
            *LEDGER, "segments", F.col("replicas.bookie_id").alias("members"), F.expr("explode(replicas) r")
        )
        .where("length(r.groups) > 0")
        .withColumn("gone", F.col("r.bookie_id"))
        .join(F.broadcast(vanished_ids), "gone")
    )
    foreign_copies = differing_replicas.where(
        "expected is null and index_state = 'ok' and length(held) > 0"
    ).select(*LEDGER, "bookie_id", "held")
    copies_by_id_pair = (
        expected_replicas.select(*LEDGER, "gone", "members", F.col("r.groups").alias("should"))
        .join(foreign_copies, [*LEDGER])
        .where("not array_contains(members, bookie_id)")
        .groupBy("gone", "bookie_id")
        .agg(F.count("*").alias("held"), F.expr("count_if(held = should)").alias("exact"))
    )
    # Only members of the id's own segments: a member of another segment may be the same bookie's new id.
    segment_members = F.expr(
        "flatten(transform(filter(segments, s -> array_contains(s.ensemble, gone)), s -> s.ensemble))"
    )
    shared_ledgers = (
        expected_replicas.select(
            "gone", segment_members.alias("beside"), F.explode("members").alias("bookie_id")
        )
        .where("bookie_id <> gone")
        .groupBy("gone", "bookie_id")
        .agg(
            F.count("*").alias("shared"),
            F.expr("count_if(array_contains(beside, bookie_id))").alias("together"),
        )
    )
    id_pairs = shared_ledgers.join(copies_by_id_pair, ["gone", "bookie_id"], "full").join(
        F.broadcast(live_bookies), "bookie_id"
    )
    # A left join, so that an id that shares no ledger still has a row.
    return (
        expected_replicas.groupBy("gone")
        .agg(F.count("*").alias("due"))
        .join(id_pairs, "gone", "left")
        .fillna(0)
    )


def facts_by_id(rows: Iterable[Mapping[str, Any]]) -> dict[str, BookieFacts]:
    """Convert the rows of `collect_facts` to the input of `auditor.model.bookie_alias`, by id."""
    return {
        row["bookie_id"]: BookieFacts(
            registered=row["registered"],
            address=None if row["host"] is None else (row["host"], row["port"]),
            hosts=tuple(row["hosts"] or ()),
            cookie=row["cookie"],
            disk_ids=tuple(row["disks"] or ()),
        )
        for row in rows
    }


def compare_contents(
    id_pair_rows: Iterable[Mapping[str, Any]], facts: Iterable[Mapping[str, Any]]
) -> ContentComparison:
    """Convert the rows of `count_shared_ledgers` to the input of `auditor.model.bookie_alias`.

    ``facts`` are the rows of `collect_facts`, which show whose indexes were read completely.
    """
    fully_read_bookies = frozenset(
        row["bookie_id"] for row in facts if row["registered"] and row["read"] == BookieRead.READ
    )
    expected_counts: dict[str, int] = {}
    id_pairs: dict[tuple[str, str], PairContents] = {}
    for row in id_pair_rows:
        vanished_id, live_id = row["gone"], row["bookie_id"]
        expected_counts[vanished_id] = row["due"]
        if live_id is not None:
            id_pairs[vanished_id, live_id] = PairContents(
                expected_ledgers=row["due"],
                shared_ledgers=row["shared"],
                same_ensemble_ledgers=row["together"],
                held_ledgers=row["held"],
                matching_ledgers=row["exact"],
                is_fully_read=live_id in fully_read_bookies,
            )
    return ContentComparison(expected_counts, id_pairs, fully_read_bookies)


def edge_rows(edges: Iterable[Edge]) -> list[dict[str, Any]]:
    """Return the rows of `IDENTITY_EDGES`, one for each edge.

    An edge is a pair of ids that, according to a rule, may belong to the same bookie.
    """
    return [asdict(identity_edge) | {"rule": identity_edge.rule.value} for identity_edge in edges]


def identity_rows(
    facts: Iterable[Mapping[str, Any]], identity_by_id: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of `IDENTITIES`, ordered by id.

    ``facts`` are the rows of `collect_facts`. Ids of one bookie have the same value in ``identity_by_id``.
    """
    rows_by_identity: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(facts, key=lambda row: str(row["bookie_id"])):
        rows_by_identity.setdefault(identity_by_id[row["bookie_id"]], []).append(row)
    rows = [
        {
            first_id: row[first_id]
            for first_id in ("bookie_id", "named", "marked", "registered", "host", "port", "hosts", "disks")
        }
        | {"identity": name, "stranded": _is_stranded(identity_group)}
        | {"aliases": [alias_row["bookie_id"] for alias_row in identity_group if alias_row is not row]}
        | {"cookie_names": row["cookie"].bookie_id if row["cookie"] else None}
        for name, identity_group in rows_by_identity.items()
        for row in identity_group
    ]
    return sorted(rows, key=lambda row: str(row["bookie_id"]))


def _is_stranded(identity_group: Sequence[Mapping[str, Any]]) -> bool:
    has_unregistered_name = any(row["named"] and not row["registered"] for row in identity_group)
    return has_unregistered_name and sum(row["named"] or row["registered"] for row in identity_group) > 1

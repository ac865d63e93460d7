"""contents: the bookie to which the ledgers in a directory belong, determined without its VERSION file.

    availability  --scope, ledger-->  members of the ledger, and the entries that each should hold
                  --directory, id-->  number of ledgers there that this id explains

A bookie id in a ledger's ensembles proves little. If a cluster has only as many bookies as an ensemble,
every ledger names every bookie. The striping proves more. An id explains a ledger *exactly* if the
directory holds exactly the entries that the striping assigns to the id. If two ids explain a ledger, the
ledger does not show which id is right. Each id in the ledgers' ensembles is a candidate. The program compares
each candidate with the directory's owner, the bookie to which the audit attributes the directory. It counts
the ledgers that only one of the two explains:

    better  Only the candidate explains the ledger, and the candidate's own directories lack entries that it
            should hold. If its directories lack no entry, none of its disks is missing, and the copy in
            this directory is a left-over. A candidate with more entries than its stripe lacks nothing:
            replication workers copy whole segments. After a decommissioning, new members of large ensembles
            therefore hold more than their stripe.
    worse   Only the owner explains the ledger.

Nearly every directory belongs to its owner. To see this, no join of all replicas is needed. The unequal pairs
(`auditor.tables.unequal`) are the pairs of ledger and bookie whose expected and held entries differ. A
replica that is not among them matches its owner exactly. Only the directories of ``doubted`` bookies
(`find_bookies_to_compare`) are compared with every id. In a directory of another bookie, no candidate can be
better. Suppose that one were better for a ledger. The owner would then hold exactly the entries that the
candidate should hold but lacks. Both bookies would have an unequal pair, and the owner would be doubted.

The result consists of counts. Entry sets are therefore compared by a 64-bit hash. Bookie ids are also
hashed until they are counted. Only the counts, one for each directory and id, are sorted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from auditor.model.columns import LEDGER, REPLICA, make_schema
from auditor.model.states import DISK_STATES, BookieRead, IndexState
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

CONTENTS = make_schema(
    ("directory", pa.string(), "path of a directory with an index, as in the table directories"),
    ("place", pa.string(), "the bookie that should use the directory, according to the directory's path"),
    ("owner", pa.string(), "the bookie to which the audit attributes the directory's data"),
    ("ledgers", pa.int64(), "number of ledgers in the directory that are also in the metadata"),
    ("candidate", pa.string(), "a bookie id that is in an ensemble of the directory's ledgers"),
    ("named", pa.int64(), "number of the directory's ledgers that have the candidate in an ensemble"),
    (
        "exact",
        pa.int64(),
        "number of the directory's ledgers for which it has exactly the entries that the candidate should "
        "hold",
    ),
    (
        "better",
        pa.int64(),
        "number of ledgers that match the candidate exactly, but not the owner. The candidate's own "
        "directories lack entries of these ledgers",
    ),
    ("worse", pa.int64(), "number of ledgers that match the owner exactly, but not the candidate"),
    (
        "rank",
        pa.int32(),
        "rank of the candidate: 1 is the best match for the directory. The table has the three best "
        "candidates and the owner. It has only the owner if the directory has no entries that "
        "another id lacks",
    ),
)


class LargeTables(NamedTuple):
    """Some rows of the tables ``ledgers`` and ``availability``, and counts, so that not all rows are read.

    ``ledgers`` and ``availability`` have at least the rows of ledgers with an unequal replica. In such a
    replica, the expected and the held entries differ. ``counts`` has the number of index rows of each kind
    (`auditor.tables.index_counts`). ``single_directory_bookies`` have exactly one directory apart from
    journals, which contains all their ledgers. ``several_directory_bookies`` have several such directories.
    """

    ledgers: DataFrame
    availability: DataFrame
    counts: DataFrame
    single_directory_bookies: Sequence[str]
    several_directory_bookies: Sequence[str]


_SAMPLE_SIZE = 3


def find_incomplete_replicas(judged_ledgers: DataFrame, bookies: DataFrame) -> DataFrame:
    """Return the replicas that lack entries, as rows of scope_id, ledger_id and bookie_id.

    ``judged_ledgers`` is the table ``judged`` (`auditor.tables.judged`). It takes unread data and
    the bookies' answers into account. ``bookies`` shows which bookies were read only partly. On these
    bookies, entries that the audit did not see count as lacking. The reason is that a disk in the wrong place
    is often a disk that cannot be read. Bookies that were not read at all are left out.
    """
    partial_bookies = bookies.where(F.col("read") == BookieRead.PARTIAL).select("bookie_id")
    unknown_replicas = judged_ledgers.where("size(unknown) > 0").select(
        *LEDGER, F.explode("unknown.bookie_id").alias("bookie_id")
    )
    unknown_replicas = unknown_replicas.join(F.broadcast(partial_bookies), "bookie_id", "left_semi").select(
        *REPLICA
    )
    missing_replicas = judged_ledgers.where("size(missing) > 0").select(
        *LEDGER, F.explode("missing.bookie_id").alias("bookie_id")
    )
    return missing_replicas.unionByName(unknown_replicas).distinct()


def find_bookies_to_compare(differing_replicas: DataFrame, incomplete_replicas: DataFrame) -> DataFrame:
    """Return the bookies that hold copies which exactly match the stripe of another bookie.

    Such a copy has exactly the entries that the other bookie should hold but lacks. ``differing_replicas``
    has the replicas whose expected and held entries differ. ``incomplete_replicas`` are the rows of
    `find_incomplete_replicas`. The result has only the column ``bookie_id``, and each bookie once.
    """
    incomplete_bookies = (
        differing_replicas.where("length(expected) > 0")
        .join(incomplete_replicas, [*REPLICA], "left_semi")
        .select(*LEDGER, F.col("bookie_id").alias("other"), "expected")
    )
    differing_holders = differing_replicas.where("length(held) > 0 and not (expected <=> held)").select(
        *LEDGER, "bookie_id", "held"
    )
    has_equal_replica = (F.col("held") == F.col("expected")) & (F.col("bookie_id") != F.col("other"))
    return (
        differing_holders.join(incomplete_bookies, [*LEDGER])
        .where(has_equal_replica)
        .select("bookie_id")
        .distinct()
    )


def contents(
    availability: DataFrame,
    ledgers: DataFrame,
    differing_replicas: DataFrame,
    incomplete_replicas: DataFrame,
    directories: DataFrame,
    bookies: DataFrame,
    compared_bookies: Sequence[str],
    large_tables: LargeTables,
) -> DataFrame:
    """Rank the bookie ids that explain each directory's ledgers: rows of `CONTENTS`.

    An id explains a ledger if the directory holds exactly the entries that the id should hold.

    Args:
        availability: The table of that name.
        ledgers: The table of that name.
        differing_replicas: The table of that name.
        incomplete_replicas: Rows of `find_incomplete_replicas`.
        directories: The table of that name. Directories of another cluster's bookies are left out, because
            their ledger ids mean nothing here.
        bookies: The table of that name.
        compared_bookies: Bookies whose directories are compared with every id. They are the bookies of
            `find_bookies_to_compare`, and bookies with several index rows for the same ledger. For the
            latter, ``differing_replicas`` does not show the entries in a single directory.
        large_tables: Parts and counts of tables, so that not all rows are read.
    """
    directory_rows = _directory_rows(directories, bookies)
    is_compared = F.col("bookie_id").isin(list(compared_bookies))
    trusted_index_rows = availability.where(~is_compared)
    owned_directories = directory_rows.where(~F.col("owner").isin(list(compared_bookies)))
    ledger_counts = _count_located_ledgers(
        trusted_index_rows, owned_directories, large_tables, compared_bookies
    )
    owner_counts = _count_by_owner(
        ledger_counts,
        large_tables.availability.where(~is_compared),
        large_tables.ledgers,
        differing_replicas,
        owned_directories,
    )
    if not compared_bookies:
        return owner_counts
    # For bookies that are not doubted, counting replicas is enough; members are not compared.
    explained_counts = _count_explained_ledgers(
        _locate_ledgers(availability.where(is_compared), directory_rows).join(
            _expected_entries_of_members(ledgers, incomplete_replicas), [*LEDGER]
        )
    )
    return owner_counts.unionByName(_rank_bookies(explained_counts, directory_rows, bookies))


def _count_by_owner(
    ledger_counts: DataFrame,
    availability: DataFrame,
    ledgers: DataFrame,
    differing_replicas: DataFrame,
    directory_rows: DataFrame,
) -> DataFrame:
    """Count, for each directory, the ledgers that its owner explains (see `contents`).

    The owner is the bookie to which the audit attributes the directory. It explains every replica in the
    directory that is not in ``differing_replicas``, the replicas whose expected and held entries differ.
    ``ledger_counts`` has the number of ledgers (``all``) in each directory (``key``). The function reads
    ``availability`` and ``ledgers`` only for the ledgers in ``differing_replicas``.
    """
    differing_ids = differing_replicas.select(*LEDGER, "bookie_id")
    decided_ledgers = (
        ledgers.where("undecidable = false")
        .join(differing_ids.select(*LEDGER), [*LEDGER], "left_semi")
        .select(*LEDGER, F.expr(_MEMBERS_EXPRESSION.format(lacks="false")).alias("members"))
    )
    owner_condition = "exists(members, m -> m.id = owner{})"
    # Only rows of unequal pairs are matched with directories again.
    differing_index_rows = availability.join(differing_ids, [*LEDGER, "bookie_id"], "left_semi")
    differing_counts = (
        _locate_ledgers(differing_index_rows, directory_rows)
        .join(decided_ledgers, [*LEDGER], "left")
        .groupBy("key")
        .agg(
            F.count("*").alias("odd"),
            F.count("members").alias("known"),
            F.count_if(F.expr(owner_condition.format(""))).alias("known_named"),
            F.count_if(F.expr(owner_condition.format(" and m.should = held"))).alias("known_exact"),
        )
    )
    # All ledgers minus the unequal ones: a pair without a row in `unequal` holds exactly what it should.
    directory_counts = ledger_counts.join(differing_counts, "key", "left").fillna(0)
    healthy_count = F.col("all") - F.col("odd")
    return (
        directory_counts.join(F.broadcast(directory_rows), "key")
        .select(
            F.col("path").alias("directory"),
            "place",
            "owner",
            (healthy_count + F.col("known")).alias("ledgers"),
            F.col("owner").alias("candidate"),
            (healthy_count + F.col("known_named")).alias("named"),
            (healthy_count + F.col("known_exact")).alias("exact"),
            F.lit(0).cast("long").alias("better"),
            F.lit(0).cast("long").alias("worse"),
            F.lit(1).alias("rank"),
        )
        .where("named > 0")
    )


def _count_located_ledgers(
    availability: DataFrame,
    directory_rows: DataFrame,
    large_tables: LargeTables,
    compared_bookies: Sequence[str],
) -> DataFrame:
    """Return the number of ledgers (``all``) in each directory (``key``).

    If a bookie has only one directory, the number comes from ``large_tables``. If it has several, the ledgers
    are counted by path in ``availability``. Of these bookies, ``compared_bookies`` are left out.
    """
    # The paths of these replicas need not be read, because each bookie has one directory.
    is_on_disk = F.col("state").isin(*DISK_STATES) & F.col("known")
    indexes_by_owner = large_tables.counts.where(is_on_disk).groupBy(F.col("bookie_id").alias("owner"))
    single_owners = F.broadcast(
        directory_rows.where(
            F.col("owner").isin(list(large_tables.single_directory_bookies))
            & ~F.col("role").eqNullSafe("journal")
        )
    )
    counts_by_key = (
        indexes_by_owner.agg(F.sum("number").alias("all")).join(single_owners, "owner").select("key", "all")
    )
    several_directory_owners = sorted(
        set(large_tables.several_directory_bookies).difference(compared_bookies)
    )
    if not several_directory_owners:
        return counts_by_key
    located_ledgers = _locate_ledgers(
        availability.where(F.col("bookie_id").isin(several_directory_owners)), directory_rows
    )
    return counts_by_key.unionByName(located_ledgers.groupBy("key").agg(F.count("*").alias("all")))


def _count_explained_ledgers(located_ledgers: DataFrame) -> DataFrame:
    """Count, for each directory and bookie id, the ledgers in the directory that the id explains.

    `contents` says when an id explains a ledger. The row with a null id counts all ledgers in the directory.
    """
    # Each row also gets a member without an id. Its group counts all ledgers in the directory.
    null_member = F.struct(
        *(F.lit(None).cast(sql_type).alias(name) for name, sql_type in _MEMBER_TYPES.items())
    )
    member_rows = located_ledgers.withColumn(
        "mine", F.expr("exists(members, m -> m.id = owner and m.should = held)")
    ).select("key", "owner", "held", "mine", F.explode(F.concat(F.array(null_member), "members")).alias("m"))
    is_exact = F.col("m.should").isNotNull() & F.col("m.should").eqNullSafe(F.col("held"))
    return member_rows.groupBy("key", "m.id").agg(
        F.count("*").alias("named"),
        F.count_if(is_exact).alias("exact"),
        F.count_if(is_exact & ~F.col("mine") & F.col("m.lacks")).alias("better"),
        F.count_if(F.col("mine") & ~is_exact).alias("worse"),
    )


# Ids and groups are 64-bit hashes: rows are exploded by member, and narrow rows cost half as much to shuffle.
_MEMBER_TYPES = {"id": "bigint", "should": "bigint", "lacks": "boolean"}
_MEMBERS_EXPRESSION = (
    "transform(replicas, r -> named_struct('id', xxhash64(r.bookie_id),"
    " 'should', if(length(r.groups) > 0, xxhash64(r.groups), null), 'lacks', {lacks}))"
)


def _directory_rows(directories: DataFrame, bookies: DataFrame) -> DataFrame:
    """Return the directories that may have an index: key, path, role, owner, place and ``path_forms``.

    ``owner`` is the bookie to which the audit attributes the directory. ``place`` is the bookie that should
    use the path. ``path_forms`` are the forms that the path may have in ``availability``.
    """
    other_cluster_bookies = bookies.where("foreign_instance").select(F.col("bookie_id").alias("owner"))
    # A collected directory is named <collection>#<path>, but its rows of availability have only the path.
    path_forms = "transform(sequence(1, size(split(path, '#'))), n -> substring_index(path, '#', -n))"
    return (
        directories.where("owner is not null")
        .join(F.broadcast(other_cluster_bookies), "owner", "left_anti")
        .select(
            "owner",
            "place",
            "role",
            "path",
            F.xxhash64("path").alias("key"),
            F.expr(path_forms).alias("names"),
        )
    )


def _locate_ledgers(availability: DataFrame, directory_rows: DataFrame) -> DataFrame:
    """Return the ledgers in each directory.

    The columns are the directory's key, the ledger, bookie_id, ``owner`` (a hash of bookie_id), and ``held``
    (a hash of the held entries). ``held`` is null if the state is not ok or no entry is held.
    """
    current_path = F.concat("name", F.lit("/current")).alias("current")
    directory_names = directory_rows.select("owner", "key", F.explode("names").alias("name")).select(
        "owner", "key", current_path, F.concat(current_path, F.lit("/")).alias("below")
    )
    groups_hash = F.when((F.col("state") == IndexState.OK) & (F.length("groups") > 0), F.xxhash64("groups"))
    indexed_rows = availability.where(F.col("state").isin(*DISK_STATES) & F.col("ledger_id").isNotNull())
    rows = indexed_rows.select(*LEDGER, "bookie_id", "path", groups_hash.alias("held"))
    # A bookie has few directories, so trying each prefix is faster than parsing paths.
    path = F.col("path")
    is_owner_directory = (F.col("bookie_id") == F.col("owner")) & (
        path.startswith(F.col("below")) | (path == F.col("current"))
    )
    return rows.join(F.broadcast(directory_names), is_owner_directory).select(
        *LEDGER, "key", "bookie_id", F.xxhash64("bookie_id").alias("owner"), "held"
    )


def _expected_entries_of_members(ledgers: DataFrame, incomplete_replicas: DataFrame) -> DataFrame:
    """Return, for each ledger, its members with two facts about each member.

    The facts are the entries that the member should hold, and whether the member lacks some of them.
    """
    incomplete_members = incomplete_replicas.groupBy(*LEDGER).agg(
        F.collect_set(F.xxhash64("bookie_id")).alias("lacking")
    )
    members_expression = _MEMBERS_EXPRESSION.format(
        lacks="coalesce(array_contains(lacking, xxhash64(r.bookie_id)), false)"
    )
    decided_ledgers = ledgers.where("undecidable = false").select(*LEDGER, "replicas")
    return decided_ledgers.join(incomplete_members, [*LEDGER], "left").select(
        *LEDGER, F.expr(members_expression).alias("members")
    )


def _rank_bookies(explained_counts: DataFrame, directory_rows: DataFrame, bookies: DataFrame) -> DataFrame:
    """Return the best candidates of each directory with their rank, and bookie ids instead of hashes.

    The best candidate has rank 1. The owner of the directory keeps its row, whatever its rank.
    """
    ledger_totals = explained_counts.where("id is null").select("key", F.col("named").alias("ledgers"))
    candidate_ids = bookies.select(F.col("bookie_id").alias("candidate"), F.xxhash64("bookie_id").alias("id"))
    rank_window = F.Window.partitionBy("key").orderBy(
        F.desc("exact"), F.desc("better"), F.desc("named"), F.asc("candidate")
    )
    return (
        explained_counts.join(F.broadcast(candidate_ids), "id")
        .join(ledger_totals, "key")
        .join(F.broadcast(directory_rows.withColumnRenamed("path", "directory").drop("names")), "key")
        .withColumn("rank", F.row_number().over(rank_window))
        .where((F.col("rank") <= _SAMPLE_SIZE) | (F.col("candidate") == F.col("owner")))
        .select(*CONTENTS.names)
    )

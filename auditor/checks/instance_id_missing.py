"""A cluster without an identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import counted, finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.WARNING, group="identity", rests_on=Basis.METADATA)
def instance_id_missing(tables: Tables) -> DataFrame:
    """The store keeps no instance id of the cluster.

    What it finds:
        A metadata store without an INSTANCEID, or with an empty one: one finding for the cluster. Its
        evidence counts the cookies, of the store and on disks, that carry an instance id all the same, and
        lists these ids: their bookies had them from an INSTANCEID that is gone. A note where none does: such
        a cluster never had one, as a standalone Pulsar's.

    Why it matters:
        Nothing then tells a bookie that its disks belong to another cluster, or that the metadata was
        formatted anew: it starts, sees no ledger of its own, and its collector deletes them all. Bookies
        whose cookies do carry an instance id refuse to start.

    How sure:
        Confirmed: all of the cluster's own znodes could be read; nothing is said otherwise.

    What to do:
        If cookies carry an instance id, find out who removed the INSTANCEID, and put that id back with
        ZooKeeper's own client before a bookie restarts. Clusters formatted before 4.3, and a standalone
        Pulsar's, never had one: there is nothing to do.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.

    Limits:
        Nothing is said where not all of the cluster's own znodes could be read. What each bookie's start
        would say of it is not repeated as start-refused.
    """
    from pyspark.sql import functions as F

    stored = tables.cookies.select("instance_id", F.lit(True).alias("stored"))
    on_disk = tables.directories.select("instance_id", F.lit(False).alias("stored"))
    carried = (
        stored.unionByName(on_disk)
        .where("instance_id is not null")
        .agg(
            F.expr("count_if(stored)").alias("cookies"),
            F.expr("count_if(not stored)").alias("versions"),
            F.array_sort(F.collect_set("instance_id")).alias("instance_ids"),
        )
    )
    return finding_rows(
        carried.where(F.lit(tables.cluster.instance_id_missing)),
        severity=F.when(F.size("instance_ids") == 0, F.lit(Severity.NOTE.value)),
        message=words(
            "the cluster has no INSTANCEID; an instance id is carried by ",
            counted(F.col("cookies"), "cookie", "cookies"),
            " of its store and ",
            counted(F.col("versions"), "VERSION file", "VERSION files"),
            " on disks",
        ),
        evidence={"cookies": "cookies", "versions": "versions", "instance_ids": "instance_ids"},
    )

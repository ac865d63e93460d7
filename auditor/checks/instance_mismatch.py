"""Bookies that belong to another cluster, or say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, Need, check
from auditor.checks.finding_rows import finding_rows, listed, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(
    Severity.CRITICAL, group="identity", rests_on=Basis.DISKS, needs={Need.INSTANCE_ID, Need.DISKS}, urgency=6
)
def instance_mismatch(tables: Tables) -> DataFrame:
    """A cookie of a bookie carries another instance id than the cluster, or none.

    What it finds:
        Bookies whose cookie in the store, or whose VERSION file in any directory, does not carry the
        INSTANCEID of the cluster. One finding a bookie; its evidence lists every such cookie. Nothing is
        said where the cluster itself has no INSTANCEID.

    Why it matters:
        The metadata was formatted anew, or the bookie is of another cluster. Its ledgers are not in this
        store, so its garbage collector sees only orphans and deletes everything it has. A cookie protects
        only at start: a bookie that was already running when the metadata changed goes on.

    How sure:
        Confirmed: both ids were read.

    What to do:
        Stop the bookie before anything else; its collector must not run. Then find the right metadata.

    Commands:
        - `bookkeeper shell whatisinstanceid`.
        - `bookkeeper shell cookie_get BOOKIE`.
        - `bookkeeper shell bookieformat -deleteCookie`
          Do it only for disks whose data is wanted nowhere any more.

    Limits:
        Cookies that cannot be read are another finding. Layouts before 4 have no instance id, and are
        reported.
    """
    from pyspark.sql import functions as F

    cluster = F.lit(tables.cluster.instance_id).cast("string")
    stored = tables.cookies.select(
        "bookie_id", F.lit("metadata store").alias("place"), "instance_id", "damage"
    )
    on_disk = tables.directories.where("cookie_bookie_id is not null").select(
        F.col("place").alias("bookie_id"), F.col("path").alias("place"), "instance_id", "damage"
    )
    odd = (
        stored.unionByName(on_disk)
        .where("damage is null")
        .where(cluster.isNotNull() & ~F.col("instance_id").eqNullSafe(cluster))
    )
    rows = odd.groupBy("bookie_id").agg(
        F.array_sort(F.collect_list(F.struct("place", "instance_id"))).alias("cookies"),
        F.array_sort(F.collect_set(F.coalesce("instance_id", F.lit("none")))).alias("instances"),
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            "instance id on ",
            F.col("bookie_id"),
            " is ",
            listed(F.col("instances")),
            ", that of the cluster is ",
            cluster,
        ),
        evidence={"cluster_instance_id": cluster, "cookies": "cookies"},
    )

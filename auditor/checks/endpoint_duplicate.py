"""Bookies that answer at one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import counted, finding_rows, listed, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables


@check(Severity.ERROR, group="identity", rests_on=Basis.METADATA)
def endpoint_duplicate(tables: Tables) -> DataFrame:
    """Two registered bookies are to be found at one address.

    What it finds:
        Addresses at which clients look for more than one registered bookie. Host names are compared without
        letter case. One finding an address, under the first of its bookies; its evidence lists all.

    Why it matters:
        One process answers for all of them: entries that should lie on two bookies lie on one, and reads of
        the other's ledgers fail. A configuration or a whole machine was copied, or a bookie was started
        again under a new id while its old registration still stands.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Find out which bookie runs there, and give each its own address and disks before it writes more.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          Ask for each of the bookies.
        - `bookkeeper shell cookie_get BOOKIE`
          Compare the directories of the bookies.

    Limits:
        Names are not resolved: a host name and its IP are two addresses here. A proxy in front of several
        bookies looks the same. Ids of which all are registered are reported here and not as bookie-alias.
    """
    from pyspark.sql import functions as F

    host = F.regexp_replace(F.lower("host"), r"\.$", "")
    rows = (
        tables.registrations.where("used and host is not null")
        .groupBy(host.alias("at_host"), "port")
        .agg(F.array_sort(F.collect_set("bookie_id")).alias("bookies"))
        .where(F.size("bookies") > 1)
    )
    address = words(F.col("at_host"), ":", F.col("port"))
    return finding_rows(
        rows,
        bookie_id=F.col("bookies")[0],
        message=words(
            "clients look for ",
            counted(F.size("bookies"), "bookie", "bookies"),
            " at ",
            address,
            ": ",
            listed(F.col("bookies")),
        ),
        evidence={"address": address, "bookies": "bookies"},
    )

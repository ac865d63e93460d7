"""Bookies whose id is another address than theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.checks.check import Basis, check
from auditor.checks.finding_rows import finding_rows, words
from auditor.model.finding import Severity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from auditor.tables import Tables

# Such as dc1:1:bookie-7 are custom ids, whatever the server would make of them.
_ADDRESS = "^[^:]+:[0-9]{1,5}$"


@check(Severity.NOTE, group="identity", rests_on=Basis.METADATA)
def endpoint_drift(tables: Tables) -> DataFrame:
    """The id of a bookie looks like an address, and the bookie is at another one.

    What it finds:
        Registered bookies whose id is host:port and whose endpoint of the protocol bookie-rpc is not there.
        Host names are compared without letter case.

    Why it matters:
        It is allowed: an id is a name, and a bookie may move and keep it (BP-41). But clients that do not
        read registrations (bookieAddressResolverEnabled=false, versions before 4.13) take the id for the
        address and talk to nobody, or to another bookie that has that address now.

    How sure:
        Confirmed: what is there is told as it was read.

    What to do:
        Write it down where operators look for the machine, and see that all clients resolve ids.

    Commands:
        - `bookkeeper shell endpointinfo -b BOOKIE`
          This is where it really is.

    Limits:
        Names are not resolved: an id with a host name and an endpoint with its IP are reported.
    """
    from pyspark.sql import functions as F

    address = words(F.lower(F.regexp_replace("host", r"\.$", "")), ":", F.col("port"))
    own = F.regexp_replace(F.lower("bookie_id"), r"\.:", ":")
    rows = tables.registrations.where("used and host is not null and not empty").where(
        F.col("bookie_id").rlike(_ADDRESS) & (own != address)
    )
    return finding_rows(
        rows,
        bookie_id="bookie_id",
        message=words(
            F.col("bookie_id"), " is at ", F.col("host"), ":", F.col("port"), ", not where its id says"
        ),
        evidence={"host": "host", "port": "port", "mode": "mode"},
    )

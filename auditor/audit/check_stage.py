"""The checks of a run: their findings, confirmed and with fingerprints, and the causes of findings.

A finding about a ledger that changed between the two metadata scans stays suspect. A finding that two runs
make is confirmed. Causes come from findings about bookies. The consequences of a cause are counted over all
findings.
"""

from collections.abc import Collection, Sequence
from functools import reduce

from auditor import checks
from auditor.audit.changes import RunsBefore
from auditor.audit.table_cache import TableCache
from auditor.checks import TableCheck, check_order
from auditor.findings.causes import COPY_CHECKS, PROVING_CHECKS, Claim, find_claims, uneven_directories
from auditor.findings.confirm import add_owners, confirm, doubt_unproved
from auditor.findings.table import FOUND_SCHEMA, add_fingerprints, ask_roster_checks, ask_table_checks
from auditor.model.finding import Confidence
from auditor.model.options import AuditOptions
from auditor.model.run_facts import CauseCount, CauseEvidence, FindingCause
from auditor.spark import functions as F
from auditor.spark.table_queries import asks_tables, collect_query, queries_with_input
from auditor.spark.types import DataFrame
from auditor.tables import Tables


def claim_causes(findings: DataFrame, tables: Tables) -> list[Claim]:
    """Return the causes that findings about bookies prove. Collects at most a few rows per bookie.

    ``findings`` are all findings of the run, without the columns ``cause`` and ``fingerprint``.
    """
    proving_rows = findings.where(F.col("id").isin(*PROVING_CHECKS)).select(
        "id", "bookie_id", "confidence", "evidence"
    )
    rows = [row.asDict() for row in proving_rows.collect()]
    return find_claims(rows, tables.roster, _lacking(findings, tables))


def _lacking(findings: DataFrame, tables: Tables) -> dict[str, dict[int, int]]:
    """Count findings of missing copies by bookie, and by the position of the ledger's directory."""

    @asks_tables(*(id.replace("-", "_") for id in COPY_CHECKS))
    def counts(tables: Tables) -> DataFrame:
        of_copies = findings.where(
            F.col("id").isin(*COPY_CHECKS) & (F.col("confidence") != Confidence.SUSPECT)
        )
        bookies_with_uneven_disks = uneven_directories(tables.roster)
        directory_counts = [
            F.lit(part) for name, places in bookies_with_uneven_disks.items() for part in (name, len(places))
        ]
        number = F.create_map(*directory_counts)[F.col("bookie_id")] if directory_counts else F.lit(None)
        place = F.pmod("ledger_id", F.coalesce(number, F.lit(1)))
        bookies = of_copies.withColumn("bookie_id", F.explode(F.col("missing.bookie_id")))
        return bookies.groupBy("bookie_id", place.alias("place")).count()

    missing_by_directory: dict[str, dict[int, int]] = {}
    for row in collect_query(counts, tables):
        missing_by_directory.setdefault(row["bookie_id"], {})[row["place"]] = row["count"]
    return missing_by_directory


def count_causes(findings: DataFrame, claims: Sequence[Claim]) -> list[FindingCause]:
    """Return the consequences of each cause, the most urgent first. Causes without findings are left out."""
    if not claims:
        return []
    counted = findings.where("cause is not null").groupBy("cause", "urgency", "severity", "id").count()
    counts_of: dict[int, list[CauseCount]] = {}
    for row in counted.collect():
        count = CauseCount(id=row["id"], urgency=row["urgency"], severity=row["severity"], count=row["count"])
        counts_of.setdefault(row["cause"], []).append(count)
    causes = [_cause(number, claims[number - 1], counts) for number, counts in counts_of.items()]
    return sorted(
        causes, key=lambda cause: (_sort_key(cause["findings"][0]), -cause["count"], cause["number"])
    )


def _cause(number: int, claim: Claim, counts: list[CauseCount]) -> FindingCause:
    return FindingCause(
        number=number,
        kind=claim.kind,
        bookies=list(claim.bookies),
        sentence=claim.sentence,
        count=sum(count["count"] for count in counts),
        findings=sorted(counts, key=_sort_key),
        evidence=[CauseEvidence(id=id, bookie_id=bookie) for id, bookie in claim.evidence],
    )


def _sort_key(count: CauseCount) -> tuple[int, int, int, str]:
    return check_order(count["urgency"], count["severity"], count["id"])


def run_checks(
    cache: TableCache, tables: Tables, not_run: Collection[str] = ()
) -> tuple[DataFrame, list[Claim]]:
    """Run all checks except ``not_run``. Return the unconfirmed findings and their causes."""
    unconfirmed = _rows_of_checks(cache, tables, not_run)
    return unconfirmed, claim_causes(unconfirmed, tables)


def confirm_findings(
    cache: TableCache,
    unconfirmed: DataFrame,
    claims: list[Claim],
    tables: Tables,
    before: RunsBefore,
    options: AuditOptions,
) -> DataFrame:
    """Write the table findings. A finding that an earlier run has too becomes confirmed."""

    def findings() -> DataFrame:
        confirmed_rows = before.confirm(cache, unconfirmed, tables, options.grace)
        # Without owners no finding names any, not even unknown ones.
        has_owners = "ownership" in cache.frames and cache.count("ownership") > 0
        owned_findings = add_owners(confirmed_rows, tables.ownership) if has_owners else confirmed_rows
        return add_fingerprints(owned_findings, tables.cluster.instance_id, claims)

    return cache.write_table("findings", findings, below="")


def _rows_of_checks(cache: TableCache, tables: Tables, not_run: Collection[str]) -> DataFrame:
    """Write the rows of all checks without sorting them. A sort would read the rows twice."""
    groups: dict[str, list[TableCheck]] = {}
    for check in queries_with_input(checks.TABLE_CHECKS, tables):
        if check.id not in not_run:
            groups.setdefault(checks.GROUP_OF[check.id], []).append(check)
    parts = cache.execution.write_groups(
        groups,
        lambda table_checks: confirm(ask_table_checks(table_checks, tables), tables.moved),
        lambda group, make: cache.write_table(group, make, "tables/checks"),
    )
    of_bookies = [check for check in checks.ROSTER_CHECKS if check.id not in not_run]
    rows = ask_roster_checks(of_bookies, tables.roster)
    parts.append(cache.write_rows("roster", rows, FOUND_SCHEMA, "tables/checks"))
    all_rows = reduce(lambda rows, part: rows.unionByName(part), parts)
    return doubt_unproved(all_rows, tables.cluster.unproved_bookies)

"""The checks of a run, the confirmation and fingerprints of their findings, and the causes of findings.

A finding about a ledger that changed between the two metadata scans stays unconfirmed ("suspect"). A finding
that two runs have is confirmed. A cause is one event that explains several findings. The run counts the
findings that each cause explains.
"""

from collections.abc import Collection, Sequence
from functools import partial, reduce

from auditor import checks
from auditor.audit.changes import RunsBefore
from auditor.audit.table_cache import TableCache
from auditor.checks import TableCheck, check_order
from auditor.findings.causes import COPY_CHECKS, PROVING_CHECKS, Claim, find_claims, uneven_directories
from auditor.findings.confirm import add_owners, confirm, doubt_unproved_data
from auditor.findings.table import CHECK_RESULT_SCHEMA, add_fingerprints, ask_roster_checks, ask_table_checks
from auditor.model.finding import Confidence
from auditor.model.options import AuditOptions
from auditor.model.run_facts import CauseCount, CauseEvidence, FindingCause
from auditor.spark import functions as F
from auditor.spark.table_queries import asks_tables, collect_query, drop_empty_queries
from auditor.spark.types import DataFrame
from auditor.tables import Tables


def find_cause_claims(findings: DataFrame, tables: Tables) -> list[Claim]:
    """Return the causes (events that explain several findings) that findings about bookies prove.

    ``findings`` are all findings of the run, without the columns ``cause`` and ``fingerprint``. The driver
    reads a few rows per bookie.
    """
    proving_rows = findings.where(F.col("id").isin(*PROVING_CHECKS)).select(
        "id", "bookie_id", "confidence", "evidence"
    )
    rows = [row.asDict() for row in proving_rows.collect()]
    return find_claims(rows, tables.roster, _count_missing_copies(findings, tables))


def _count_missing_copies(findings: DataFrame, tables: Tables) -> dict[str, dict[int, int]]:
    """Return by bookie the number of missing-copy findings in each of its ledger directories.

    The inner keys are the numbers of the bookie's ledger directories.
    """

    @asks_tables(*(id.replace("-", "_") for id in COPY_CHECKS))
    def query_counts(tables: Tables) -> DataFrame:
        missing_copy_findings = findings.where(
            F.col("id").isin(*COPY_CHECKS) & (F.col("confidence") != Confidence.SUSPECT)
        )
        bookies_with_uneven_disks = uneven_directories(tables.roster)
        directory_counts = [
            F.lit(map_key_or_value)
            for name, index_directories in bookies_with_uneven_disks.items()
            for map_key_or_value in (name, len(index_directories))
        ]
        directory_count = (
            F.create_map(*directory_counts)[F.col("bookie_id")] if directory_counts else F.lit(None)
        )
        directory_number = F.pmod("ledger_id", F.coalesce(directory_count, F.lit(1)))
        bookies = missing_copy_findings.withColumn("bookie_id", F.explode(F.col("missing.bookie_id")))
        return bookies.groupBy("bookie_id", directory_number.alias("place")).count()

    missing_by_directory: dict[str, dict[int, int]] = {}
    for row in collect_query(query_counts, tables):
        missing_by_directory.setdefault(row["bookie_id"], {})[row["place"]] = row["count"]
    return missing_by_directory


def count_causes(findings: DataFrame, claims: Sequence[Claim]) -> list[FindingCause]:
    """Return each cause with the numbers of findings that it explains, most urgent cause first.

    A cause (``claims``) is an event that explains findings. Causes that explain no finding are left out.
    """
    if not claims:
        return []
    finding_counts = findings.where("cause is not null").groupBy("cause", "urgency", "severity", "id").count()
    counts_by_cause: dict[int, list[CauseCount]] = {}
    for row in finding_counts.collect():
        count = CauseCount(id=row["id"], urgency=row["urgency"], severity=row["severity"], count=row["count"])
        counts_by_cause.setdefault(row["cause"], []).append(count)
    causes = [
        _make_cause(claim_number, claims[claim_number - 1], counts)
        for claim_number, counts in counts_by_cause.items()
    ]
    return sorted(
        causes, key=lambda cause: (_sort_key(cause["findings"][0]), -cause["count"], cause["number"])
    )


def _make_cause(cause_number: int, claim: Claim, counts: list[CauseCount]) -> FindingCause:
    return FindingCause(
        number=cause_number,
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
    cache: TableCache, tables: Tables, checks_not_run: Collection[str] = ()
) -> tuple[DataFrame, list[Claim]]:
    """Run checks except ``checks_not_run``. Return unconfirmed findings, and causes (events) of several."""
    unconfirmed_findings = _write_check_rows(cache, tables, checks_not_run)
    return unconfirmed_findings, find_cause_claims(unconfirmed_findings, tables)


def confirm_findings(
    cache: TableCache,
    unconfirmed: DataFrame,
    claims: list[Claim],
    tables: Tables,
    before: RunsBefore,
    options: AuditOptions,
) -> DataFrame:
    """Write the table ``findings``. A finding becomes confirmed if the previous run has it too."""

    def findings() -> DataFrame:
        confirmed_rows = before.confirm(cache, unconfirmed, tables, options.grace)
        # If no owner store was read, findings get no owner, not even an unknown one.
        has_owners = "ownership" in cache.frames and cache.count("ownership") > 0
        owned_findings = add_owners(confirmed_rows, tables.ownership) if has_owners else confirmed_rows
        return add_fingerprints(owned_findings, tables.cluster.instance_id, claims)

    return cache.write_table("findings", findings, directory="")


def _write_check_rows(cache: TableCache, tables: Tables, checks_not_run: Collection[str]) -> DataFrame:
    """Write the rows of all checks without sorting them. A sort would read the rows twice."""
    check_groups: dict[str, list[TableCheck]] = {}
    for check in drop_empty_queries(checks.TABLE_CHECKS, tables):
        if check.id not in checks_not_run:
            check_groups.setdefault(checks.GROUP_BY_ID[check.id], []).append(check)

    def group_rows(table_checks: Sequence[TableCheck]) -> DataFrame:
        confirmed_rows = confirm(ask_table_checks(table_checks, tables), tables.moved_ledgers)
        return cache.execution.merge_tasks(confirmed_rows)

    # Spark would plan a single query of all checks for longer than it runs the queries of the groups.
    group_frames = [
        cache.write_table(check_group, partial(group_rows, table_checks), "tables/checks")
        for check_group, table_checks in check_groups.items()
    ]
    bookie_checks = [check for check in checks.ROSTER_CHECKS if check.id not in checks_not_run]
    rows = ask_roster_checks(bookie_checks, tables.roster)
    group_frames.append(cache.write_rows("roster", rows, CHECK_RESULT_SCHEMA, "tables/checks"))
    all_rows = reduce(lambda united_rows, frame: united_rows.unionByName(frame), group_frames)
    return doubt_unproved_data(all_rows, tables.cluster.unproved_bookies)

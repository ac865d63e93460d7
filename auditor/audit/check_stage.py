"""Every check asks its question of the tables: the findings of a run, confirmed, named, and landed.

What did not stand still between the two scans is no more than suspect; what an earlier run saw too is sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from auditor import checks
from auditor.audit.causes import claim_causes
from auditor.audit.landing import Landing
from auditor.audit.runs_before import RunsBefore
from auditor.checks import TableCheck
from auditor.findings.causes import Claim
from auditor.findings.confirm import confirm
from auditor.findings.owners import with_owners
from auditor.findings.table import FOUND, add_fingerprints, ask_roster_checks, ask_table_checks
from auditor.model.options import AuditOptions
from auditor.spark.query_plans import in_one_task, partitions
from auditor.spark.types import DataFrame
from auditor.tables import Tables

TOGETHER = "checks"
"""The stage at which the checks of small tables are asked, all groups of them in two queries."""


def run_checks(
    landing: Landing, tables: Tables, before: RunsBefore, options: AuditOptions
) -> tuple[DataFrame, list[Claim]]:
    """Ask all checks, and land the table findings; with the causes that it numbers."""
    unsorted = _rows_of_checks(landing, tables)
    claims = claim_causes(unsorted, tables)

    def findings() -> DataFrame:
        sure = before.confirm(landing, unsorted, tables, options.grace)
        named = sure if "ownership" in tables.known_empty else with_owners(sure, tables.ownership)
        return add_fingerprints(named, tables.cluster.instance_id, claims)

    landed = landing.land("findings", findings, below="")
    landing.run.remove("tables/checks")
    return landed, claims


def _rows_of_checks(landing: Landing, tables: Tables) -> DataFrame:
    """What all checks say; landed before it is sorted, for a sort looks at its input twice.

    Each group of checks of large tables lands by itself: whenever a part of a query ends, Spark plans all
    the rest of it anew, and for one query of all checks that takes longer than the checks.
    """

    def of(asked: Sequence[TableCheck]) -> DataFrame:
        rows = confirm(ask_table_checks(asked, tables), tables.moved)
        return rows.coalesce(partitions(landing.spark))  # each check has tasks of its own, most of them idle

    concerned = [check for check in checks.OF_TABLES if check.asks not in tables.known_empty]

    def land(group: str, asked: Sequence[TableCheck]) -> DataFrame:
        return landing.land(group, partial(of, asked), "tables/checks")

    if in_one_task(landing.spark):
        # Every second one, so that neither half has all that is long.
        others = landing.beside(partial(land, "others", concerned[1::2])) if concerned[1:] else None
        parts = [land(TOGETHER, concerned[::2])] if concerned else []
        parts += [others()] if others else []
    else:
        groups: dict[str, list[TableCheck]] = {}
        for check in concerned:
            groups.setdefault(check.group, []).append(check)
        parts = [land(group, asked) for group, asked in groups.items()]
    rows = ask_roster_checks(checks.OF_BOOKIES, tables.roster)
    parts.append(landing.rows("roster", rows, FOUND, "tables/checks"))
    return reduce(lambda some, more: some.unionByName(more), parts)

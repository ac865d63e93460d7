"""Holds that come from findings, as their checks declare them (`auditor.model.holds.HoldRule`).

Unconfirmed findings hold too. A finding that is milder than its check's severity places no hold, because it
reports no danger to data. There is one hold for each pair of object (bookie, ledger or source) and check.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from auditor.checks import ALL, Check
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.holds import METADATA_SOURCE, OWNERS_SOURCE, HoldObject, HoldRule, HoldTarget
from auditor.model.states import FOUND
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.holds import HOLDS

NEW_COLUMNS = tuple(name for name in HOLDS.names if name not in ("first_seen", "carried"))
"""Columns of a hold that do not depend on the holds of the earlier run."""

_IDS = {HoldTarget.IDENTITY: "$.ids[*].bookie_id", HoldTarget.COPIES: "$.bookies"}
"""JSON paths, in the evidence of a finding, to the bookies on which it places holds."""


def holds_of_findings(
    findings: DataFrame, changes: DataFrame, tables: Tables, found: Mapping[str, int]
) -> list[DataFrame]:
    """Return rows of holds in `NEW_COLUMNS`, one DataFrame for each `HoldTarget` with findings.

    Args:
        findings: the table findings of the run.
        changes: its table changes, which has the accepted findings.
        tables: its other tables; orphans has the bookies with ledgers that the metadata does not list.
        found: the number of findings of each check; checks without findings are skipped.
    """
    declared = [(check, rule) for check in ALL if found.get(check.id) for rule in check.holds]
    if not declared:
        return []
    ids = sorted({check.id for check, _ in declared})
    rows = _findings_with_acceptance(findings.where(F.col("id").isin(*ids)), changes)
    parts = []
    for target, make in _TARGETS.items():
        rules = {check.id: (check, rule) for check, rule in declared if rule.on is target}
        if rules:
            concerned = rows.where(_is_severe(rules))
            parts.append(_as_holds(make(concerned, tables), target, rules))
    return parts


def _findings_with_acceptance(findings: DataFrame, changes: DataFrame) -> DataFrame:
    known = changes.where(F.col("change").isin(*FOUND) & F.col("suppression").isNotNull())
    accepted = known.select("fingerprint", F.lit(True).alias("accepted"))
    return findings.join(accepted, "fingerprint", "left")


def _is_severe(rules: Mapping[str, tuple[Check, HoldRule]]) -> Column:
    severe = F.lit(False)
    for id, (check, _) in rules.items():
        names = [str(severity) for severity in Severity if severity.at_least(check.severity)]
        severe = severe | ((F.col("id") == id) & F.col("severity").isin(*names))
    return severe


def _of_bookie(rows: DataFrame, tables: Tables) -> DataFrame:
    return rows.where("bookie_id is not null").withColumn("key", F.col("bookie_id"))


def _of_ledger(rows: DataFrame, tables: Tables) -> DataFrame:
    return rows.where("ledger_id is not null").withColumn("key", F.concat_ws("/", *LEDGER))


def _of_lacking(rows: DataFrame, tables: Tables) -> DataFrame:
    lacking = F.array_union(F.col("missing.bookie_id"), F.col("unknown"))
    return rows.withColumn("key", F.explode(lacking))


def _of_holders(rows: DataFrame, tables: Tables) -> DataFrame:
    unlisted = tables.orphans.select(*LEDGER, F.col("bookie_id").alias("key"))
    foreign = tables.over_replicated.select(*LEDGER, F.col("bookie_id").alias("key"))
    return rows.where("ledger_id is not null").join(unlisted.unionByName(foreign).distinct(), [*LEDGER])


def _of_evidence(target: HoldTarget) -> Callable[[DataFrame, Tables], DataFrame]:
    names = F.from_json(F.get_json_object("evidence", _IDS[target]), "array<string>")
    return lambda rows, tables: rows.withColumn("key", F.explode(names))


def _of_source(key: str) -> Callable[[DataFrame, Tables], DataFrame]:
    return lambda rows, tables: rows.withColumn("key", F.lit(key))


_TARGETS: Mapping[HoldTarget, Callable[[DataFrame, Tables], DataFrame]] = {
    HoldTarget.BOOKIE: _of_bookie,
    HoldTarget.LEDGER: _of_ledger,
    HoldTarget.LACKING: _of_lacking,
    HoldTarget.HOLDERS: _of_holders,
    HoldTarget.IDENTITY: lambda rows, tables: _of_evidence(HoldTarget.IDENTITY)(rows, tables),
    HoldTarget.COPIES: lambda rows, tables: _of_evidence(HoldTarget.COPIES)(rows, tables),
    HoldTarget.METADATA: _of_source(METADATA_SOURCE),
    HoldTarget.OWNERS: _of_source(OWNERS_SOURCE),
}
_OBJECTS = {
    HoldTarget.LEDGER: HoldObject.LEDGER,
    HoldTarget.METADATA: HoldObject.SOURCE,
    HoldTarget.OWNERS: HoldObject.SOURCE,
}
"""Kind of object of each target; targets that are not in it are bookies."""


def _as_holds(rows: DataFrame, target: HoldTarget, rules: Mapping[str, tuple[Check, HoldRule]]) -> DataFrame:
    """Aggregate findings to one hold for each key and check."""
    # All findings of one key are about the same ledger, where they are about ledgers at all.
    named = [F.first(name).alias(name) for name in LEDGER]
    nothing = [F.lit(None).cast("bigint").alias(name) for name in LEDGER]
    grouped = rows.groupBy("key", "id").agg(
        *(named if target is HoldTarget.LEDGER else nothing),
        F.max(F.col("confidence") == Confidence.CONFIRMED).alias("certain"),
        F.min(_rank_of_urgency()).alias("rank"),
        F.count("*").alias("count"),
        F.min(F.coalesce("accepted", F.lit(False))).alias("accepted"),
        F.min("message").alias("message"),
    )
    forbids = _by_check(rules, lambda rule: F.array(*(F.lit(str(kind)) for kind in rule.forbids)))
    urgencies = F.array(*(F.lit(str(urgency)) for urgency in Urgency))
    lift = _by_check(rules, lambda rule: F.lit(str(rule.lift)))
    return grouped.select(
        F.lit(str(_OBJECTS.get(target, HoldObject.BOOKIE))).alias("object"),
        "key",
        "scope_id",
        "ledger_id",
        forbids.alias("forbids"),
        F.col("id").alias("reason"),
        "certain",
        F.element_at(urgencies, F.col("rank") + 1).alias("urgency"),
        "count",
        "accepted",
        lift.alias("lift"),
        "message",
    )


def _rank_of_urgency() -> Column:
    names = [F.lit(part) for urgency in Urgency for part in (str(urgency), urgency.rank)]
    return F.create_map(*names)[F.col("urgency")]


def _by_check(rules: Mapping[str, tuple[Check, HoldRule]], value: Callable[[HoldRule], Column]) -> Column:
    cases = [F.when(F.col("id") == id, value(rule)) for id, (_, rule) in rules.items()]
    return F.coalesce(*cases)


def union_of(parts: Sequence[DataFrame]) -> DataFrame:
    """Return the union of DataFrames of one schema; there must be at least one."""
    return reduce(lambda some, more: some.unionByName(more), parts)

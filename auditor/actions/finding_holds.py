"""Holds that come from findings, as their checks declare them (`auditor.model.holds.HoldRule`).

Unconfirmed findings place holds too. A finding whose severity is below the severity of its check places no
hold, because it reports no danger to data. All findings of one check about one object (bookie, ledger or
source) place one hold together.
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

NEW_HOLD_COLUMNS = tuple(name for name in HOLDS.names if name not in ("first_seen", "carried"))
"""Columns of a hold whose values do not depend on the holds of the earlier run."""

_EVIDENCE_PATH_BY_TARGET = {HoldTarget.IDENTITY: "$.ids[*].bookie_id", HoldTarget.COPIES: "$.bookies"}
"""JSON paths, in the evidence of a finding, to the bookies on which it places holds."""


def holds_of_findings(
    findings: DataFrame, change_rows: DataFrame, tables: Tables, finding_counts: Mapping[str, int]
) -> list[DataFrame]:
    """Return rows of holds in `NEW_HOLD_COLUMNS`, one DataFrame for each `HoldTarget` with findings.

    The list is empty if no check with findings places holds.

    Args:
        findings: the table findings of the run.
        change_rows: the table changes of the run, which shows the accepted findings.
        tables: the other tables of the run.
        finding_counts: the number of findings of each check; checks without findings are skipped.
    """
    declared_rules = [(check, rule) for check in ALL if finding_counts.get(check.id) for rule in check.holds]
    if not declared_rules:
        return []
    check_ids = sorted({check.id for check, _ in declared_rules})
    rows = _findings_with_acceptance(findings.where(F.col("id").isin(*check_ids)), change_rows)
    hold_frames = []
    for hold_target, add_key in _ADD_KEY_BY_TARGET.items():
        rules = {check.id: (check, rule) for check, rule in declared_rules if rule.target is hold_target}
        if rules:
            severe_rows = rows.where(_is_severe(rules))
            hold_frames.append(_aggregate_holds(add_key(severe_rows, tables), hold_target, rules))
    return hold_frames


def _findings_with_acceptance(findings: DataFrame, change_rows: DataFrame) -> DataFrame:
    suppressed_changes = change_rows.where(F.col("change").isin(*FOUND) & F.col("suppression").isNotNull())
    acceptances = suppressed_changes.select("fingerprint", F.lit(True).alias("accepted"))
    return findings.join(acceptances, "fingerprint", "left")


def _is_severe(rules: Mapping[str, tuple[Check, HoldRule]]) -> Column:
    is_severe = F.lit(False)
    for check_id, (check, _) in rules.items():
        severity_names = [str(severity) for severity in Severity if severity.at_least(check.severity)]
        is_severe = is_severe | ((F.col("id") == check_id) & F.col("severity").isin(*severity_names))
    return is_severe


def _add_bookie_key(rows: DataFrame, tables: Tables) -> DataFrame:
    return rows.where("bookie_id is not null").withColumn("key", F.col("bookie_id"))


def _add_ledger_key(rows: DataFrame, tables: Tables) -> DataFrame:
    return rows.where("ledger_id is not null").withColumn("key", F.concat_ws("/", *LEDGER))


def _add_lacking_bookie_key(rows: DataFrame, tables: Tables) -> DataFrame:
    lacking_bookies = F.array_union(F.col("missing.bookie_id"), F.col("unknown"))
    return rows.withColumn("key", F.explode(lacking_bookies))


def _add_holder_key(rows: DataFrame, tables: Tables) -> DataFrame:
    orphan_holders = tables.orphans.select(*LEDGER, F.col("bookie_id").alias("key"))
    surplus_holders = tables.over_replicated.select(*LEDGER, F.col("bookie_id").alias("key"))
    return rows.where("ledger_id is not null").join(
        orphan_holders.unionByName(surplus_holders).distinct(), [*LEDGER]
    )


def _make_evidence_key_adder(hold_target: HoldTarget) -> Callable[[DataFrame, Tables], DataFrame]:
    bookie_names = F.from_json(
        F.get_json_object("evidence", _EVIDENCE_PATH_BY_TARGET[hold_target]), "array<string>"
    )
    return lambda rows, tables: rows.withColumn("key", F.explode(bookie_names))


def _make_source_key_adder(key: str) -> Callable[[DataFrame, Tables], DataFrame]:
    return lambda rows, tables: rows.withColumn("key", F.lit(key))


_ADD_KEY_BY_TARGET: Mapping[HoldTarget, Callable[[DataFrame, Tables], DataFrame]] = {
    HoldTarget.BOOKIE: _add_bookie_key,
    HoldTarget.LEDGER: _add_ledger_key,
    HoldTarget.LACKING: _add_lacking_bookie_key,
    HoldTarget.HOLDERS: _add_holder_key,
    HoldTarget.IDENTITY: lambda rows, tables: _make_evidence_key_adder(HoldTarget.IDENTITY)(rows, tables),
    HoldTarget.COPIES: lambda rows, tables: _make_evidence_key_adder(HoldTarget.COPIES)(rows, tables),
    HoldTarget.METADATA: _make_source_key_adder(METADATA_SOURCE),
    HoldTarget.OWNERS: _make_source_key_adder(OWNERS_SOURCE),
}
_OBJECT_KIND_BY_TARGET = {
    HoldTarget.LEDGER: HoldObject.LEDGER,
    HoldTarget.METADATA: HoldObject.SOURCE,
    HoldTarget.OWNERS: HoldObject.SOURCE,
}
"""Kind of object of each target. Targets that are not listed are bookies."""


def _aggregate_holds(
    rows: DataFrame, hold_target: HoldTarget, rules: Mapping[str, tuple[Check, HoldRule]]
) -> DataFrame:
    """Aggregate findings to one hold for each key and check."""
    # All findings of one key are about the same ledger, or about none.
    ledger_columns = [F.first(name).alias(name) for name in LEDGER]
    null_columns = [F.lit(None).cast("bigint").alias(name) for name in LEDGER]
    grouped_rows = rows.groupBy("key", "id").agg(
        *(ledger_columns if hold_target is HoldTarget.LEDGER else null_columns),
        F.max(F.col("confidence") == Confidence.CONFIRMED).alias("certain"),
        F.min(_rank_of_urgency()).alias("rank"),
        F.count("*").alias("count"),
        F.min(F.coalesce("accepted", F.lit(False))).alias("accepted"),
        F.min("message").alias("message"),
    )
    forbidden_kinds = _case_by_check(
        rules, lambda rule: F.array(*(F.lit(str(kind)) for kind in rule.forbids))
    )
    urgencies = F.array(*(F.lit(str(urgency)) for urgency in Urgency))
    lift_column = _case_by_check(rules, lambda rule: F.lit(str(rule.lift)))
    return grouped_rows.select(
        F.lit(str(_OBJECT_KIND_BY_TARGET.get(hold_target, HoldObject.BOOKIE))).alias("object"),
        "key",
        "scope_id",
        "ledger_id",
        forbidden_kinds.alias("forbids"),
        F.col("id").alias("reason"),
        "certain",
        F.element_at(urgencies, F.col("rank") + 1).alias("urgency"),
        "count",
        "accepted",
        lift_column.alias("lift"),
        "message",
    )


def _rank_of_urgency() -> Column:
    map_arguments = [
        F.lit(map_argument) for urgency in Urgency for map_argument in (str(urgency), urgency.rank)
    ]
    return F.create_map(*map_arguments)[F.col("urgency")]


def _case_by_check(
    rules: Mapping[str, tuple[Check, HoldRule]], rule_column: Callable[[HoldRule], Column]
) -> Column:
    rule_cases = [F.when(F.col("id") == check_id, rule_column(rule)) for check_id, (_, rule) in rules.items()]
    return F.coalesce(*rule_cases)


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of DataFrames of one schema; there must be at least one."""
    return reduce(lambda merged_frame, frame: merged_frame.unionByName(frame), frames)

"""Holds (bans on actions) that follow from findings, by the rules of checks (`auditor.model.holds.HoldRule`).

Unconfirmed findings place holds too. Each check declares a severity. A finding with a lower severity
places no hold, because it reports no danger to data. All findings of the same check about the same object
(bookie, ledger or source) place one hold together.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from auditor.checks import ALL_CHECKS, Check
from auditor.model.columns import LEDGER
from auditor.model.finding import Confidence, Severity, Urgency
from auditor.model.holds import METADATA_SOURCE, OWNERS_SOURCE, HoldObject, HoldRule, HoldTarget
from auditor.model.states import FOUND_NOW
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables
from auditor.tables.holds import HOLDS

NEW_HOLD_COLUMNS = tuple(name for name in HOLDS.names if name not in ("first_seen", "carried"))
"""Columns of a hold whose values do not depend on the holds of the earlier run."""

_EVIDENCE_PATH_BY_TARGET = {
    HoldTarget.ALIAS_IDS: "$.ids[*].bookie_id",
    HoldTarget.UNEQUAL_COPIES: "$.bookies",
}
"""JSON paths, in the evidence of a finding, to the bookies on which it places holds."""


def holds_of_findings(
    findings: DataFrame, change_rows: DataFrame, tables: Tables, finding_counts: Mapping[str, int]
) -> list[DataFrame]:
    """Return holds (bans on actions) in `NEW_HOLD_COLUMNS`, one DataFrame per `HoldTarget` with findings.

    The list is empty if no check with findings places holds.

    Args:
        findings: the table ``findings`` of the run.
        change_rows: the table ``changes`` of the run, which shows the accepted findings.
        tables: the other tables of the run.
        finding_counts: the number of findings of each check; checks without findings are skipped.
    """
    checks_with_rules = [
        (check, hold_rule)
        for check in ALL_CHECKS
        if finding_counts.get(check.id)
        for hold_rule in check.holds
    ]
    if not checks_with_rules:
        return []
    check_ids = sorted({check.id for check, _ in checks_with_rules})
    finding_rows = _findings_with_acceptance(findings.where(F.col("id").isin(*check_ids)), change_rows)
    hold_frames = []
    for hold_target, add_hold_key in _KEY_ADDER_BY_TARGET.items():
        rules_by_check = {
            check.id: (check, hold_rule)
            for check, hold_rule in checks_with_rules
            if hold_rule.target is hold_target
        }
        if rules_by_check:
            severe_rows = finding_rows.where(_is_severe(rules_by_check))
            hold_frames.append(
                _aggregate_holds(add_hold_key(severe_rows, tables), hold_target, rules_by_check)
            )
    return hold_frames


def _findings_with_acceptance(findings: DataFrame, change_rows: DataFrame) -> DataFrame:
    suppressed_changes = change_rows.where(
        F.col("change").isin(*FOUND_NOW) & F.col("suppression").isNotNull()
    )
    accepted_fingerprints = suppressed_changes.select("fingerprint", F.lit(True).alias("accepted"))
    return findings.join(accepted_fingerprints, "fingerprint", "left")


def _is_severe(rules_by_check: Mapping[str, tuple[Check, HoldRule]]) -> Column:
    is_severe = F.lit(False)
    for check_id, (check, _) in rules_by_check.items():
        severity_names = [str(severity) for severity in Severity if severity.at_least(check.severity)]
        is_severe = is_severe | ((F.col("id") == check_id) & F.col("severity").isin(*severity_names))
    return is_severe


def _add_bookie_key(finding_rows: DataFrame, tables: Tables) -> DataFrame:
    return finding_rows.where("bookie_id is not null").withColumn("key", F.col("bookie_id"))


def _add_ledger_key(finding_rows: DataFrame, tables: Tables) -> DataFrame:
    return finding_rows.where("ledger_id is not null").withColumn("key", F.concat_ws("/", *LEDGER))


def _add_lacking_bookie_key(finding_rows: DataFrame, tables: Tables) -> DataFrame:
    lacking_bookies = F.array_union(F.col("missing.bookie_id"), F.col("unknown"))
    return finding_rows.withColumn("key", F.explode(lacking_bookies))


def _add_nonmember_key(finding_rows: DataFrame, tables: Tables) -> DataFrame:
    orphan_copies = tables.orphans.select(*LEDGER, F.col("bookie_id").alias("key"))
    surplus_copies = tables.over_replicated.select(*LEDGER, F.col("bookie_id").alias("key"))
    return finding_rows.where("ledger_id is not null").join(
        orphan_copies.unionByName(surplus_copies).distinct(), [*LEDGER]
    )


def _make_evidence_key_adder(hold_target: HoldTarget) -> Callable[[DataFrame, Tables], DataFrame]:
    bookie_names = F.from_json(
        F.get_json_object("evidence", _EVIDENCE_PATH_BY_TARGET[hold_target]), "array<string>"
    )
    return lambda finding_rows, tables: finding_rows.withColumn("key", F.explode(bookie_names))


def _make_source_key_adder(key: str) -> Callable[[DataFrame, Tables], DataFrame]:
    return lambda finding_rows, tables: finding_rows.withColumn("key", F.lit(key))


_KEY_ADDER_BY_TARGET: Mapping[HoldTarget, Callable[[DataFrame, Tables], DataFrame]] = {
    HoldTarget.BOOKIE: _add_bookie_key,
    HoldTarget.LEDGER: _add_ledger_key,
    HoldTarget.BOOKIES_LACKING_ENTRIES: _add_lacking_bookie_key,
    HoldTarget.NON_MEMBER_HOLDERS: _add_nonmember_key,
    HoldTarget.ALIAS_IDS: lambda finding_rows, tables: _make_evidence_key_adder(HoldTarget.ALIAS_IDS)(
        finding_rows, tables
    ),
    HoldTarget.UNEQUAL_COPIES: lambda finding_rows, tables: _make_evidence_key_adder(
        HoldTarget.UNEQUAL_COPIES
    )(finding_rows, tables),
    HoldTarget.METADATA_STORE: _make_source_key_adder(METADATA_SOURCE),
    HoldTarget.OWNER_STORES: _make_source_key_adder(OWNERS_SOURCE),
}
_OBJECT_KIND_BY_TARGET = {
    HoldTarget.LEDGER: HoldObject.LEDGER,
    HoldTarget.METADATA_STORE: HoldObject.SOURCE,
    HoldTarget.OWNER_STORES: HoldObject.SOURCE,
}
"""Kind of object of each target. Targets that are not listed are bookies."""


def _aggregate_holds(
    finding_rows: DataFrame, hold_target: HoldTarget, rules_by_check: Mapping[str, tuple[Check, HoldRule]]
) -> DataFrame:
    """Group findings by check and object key, and return one hold (a ban on actions) for each group."""
    # All findings of one key are about the same ledger, or about none.
    ledger_columns = [F.first(name).alias(name) for name in LEDGER]
    null_columns = [F.lit(None).cast("bigint").alias(name) for name in LEDGER]
    rows_by_key_and_check = finding_rows.groupBy("key", "id").agg(
        *(ledger_columns if hold_target is HoldTarget.LEDGER else null_columns),
        F.max(F.col("confidence") == Confidence.CONFIRMED).alias("certain"),
        F.min(_urgency_rank()).alias("rank"),
        F.count("*").alias("count"),
        F.min(F.coalesce("accepted", F.lit(False))).alias("accepted"),
        F.min("message").alias("message"),
    )
    forbidden_kinds = _case_by_check(
        rules_by_check,
        lambda hold_rule: F.array(*(F.lit(str(action_kind)) for action_kind in hold_rule.forbids)),
    )
    urgencies = F.array(*(F.lit(str(urgency)) for urgency in Urgency))
    end_condition = _case_by_check(rules_by_check, lambda hold_rule: F.lit(str(hold_rule.lift)))
    return rows_by_key_and_check.select(
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
        end_condition.alias("lift"),
        "message",
    )


def _urgency_rank() -> Column:
    rank_map_items = [
        F.lit(rank_map_item) for urgency in Urgency for rank_map_item in (str(urgency), urgency.rank)
    ]
    return F.create_map(*rank_map_items)[F.col("urgency")]


def _case_by_check(
    rules_by_check: Mapping[str, tuple[Check, HoldRule]], rule_column: Callable[[HoldRule], Column]
) -> Column:
    rule_cases = [
        F.when(F.col("id") == check_id, rule_column(hold_rule))
        for check_id, (_, hold_rule) in rules_by_check.items()
    ]
    return F.coalesce(*rule_cases)


def union_frames(hold_frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of ``hold_frames``, which have the same schema. There must be at least one frame."""
    return reduce(lambda union_of_holds, hold_frame: union_of_holds.unionByName(hold_frame), hold_frames)

"""Holds (rules that forbid actions) on ledgers with an entry that no running bookie can have."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.model.columns import LEDGER
from auditor.model.finding import Urgency
from auditor.model.holds import ActionKind, FactReason, HoldObject, LiftCondition
from auditor.model.states import DECODED
from auditor.spark import functions as F
from auditor.spark.types import DataFrame
from auditor.tables import Tables

_UNREACHABLE_REASONS: Mapping[FactReason, tuple[tuple[ActionKind, ...], str]] = {
    FactReason.NO_MEMBER_REGISTERED: (
        (ActionKind.RECOVER, ActionKind.WAIT, ActionKind.DELETE_LEDGER),
        "no bookie of the ledger's ensembles is registered",
    ),
    FactReason.COPIES_ON_DOWN_BOOKIES: (
        (ActionKind.RECOVER, ActionKind.DELETE_LEDGER),
        "every registered bookie of the ledger's ensembles lacks entries, and a bookie that is down may "
        "have them",
    ),
}


def unreachable_ledgers(tables: Tables) -> DataFrame | None:
    """Return holds (bans on actions) on ledgers with an entry that no running bookie can have.

    The columns are `auditor.actions.finding_holds.NEW_HOLD_COLUMNS`. Returns None if no bookie is down, or
    if no bookie is registered.
    """
    down_bookies = [row["bookie_id"] for row in tables.roster.unregistered]
    if not down_bookies or not any(row["registered"] for row in tables.roster.bookies):
        return None
    listed_ledgers = tables.ledgers.where(F.col("status").isin(*DECODED))
    ensemble_members = F.array_distinct(F.flatten("segments.ensemble"))
    registered_members = F.filter(ensemble_members, lambda bookie_id: ~bookie_id.isin(*down_bookies))
    ledger_rows = listed_ledgers.select(
        *LEDGER, F.size(ensemble_members).alias("members"), registered_members.alias("up")
    )
    ledger_rows = ledger_rows.where((F.size("up") < F.col("members")) & (F.col("members") > 0))
    lacking_bookies = tables.judged.select(*LEDGER, F.col("missing.bookie_id").alias("lacking"))
    ledger_rows = ledger_rows.join(lacking_bookies, [*LEDGER], "left")
    do_registered_members_lack_entries = (
        F.size(F.array_except("up", F.coalesce("lacking", F.array().cast("array<string>")))) == 0
    )
    reason_column = F.when(F.size("up") == 0, str(FactReason.NO_MEMBER_REGISTERED)).when(
        do_registered_members_lack_entries, str(FactReason.COPIES_ON_DOWN_BOOKIES)
    )
    ledgers_with_reason = ledger_rows.select(*LEDGER, reason_column.alias("reason")).where(
        "reason is not null"
    )
    forbidden_kinds = F.coalesce(
        *(
            F.when(F.col("reason") == reason_name, F.array(*(F.lit(str(kind)) for kind in kinds)))
            for reason_name, (kinds, _) in _UNREACHABLE_REASONS.items()
        )
    )
    hold_message = F.coalesce(
        *(
            F.when(F.col("reason") == reason_name, F.lit(reason_text))
            for reason_name, (_, reason_text) in _UNREACHABLE_REASONS.items()
        )
    )
    return ledgers_with_reason.select(
        F.lit(str(HoldObject.LEDGER)).alias("object"),
        F.concat_ws("/", *LEDGER).alias("key"),
        *LEDGER,
        forbidden_kinds.alias("forbids"),
        "reason",
        F.lit(True).alias("certain"),
        F.lit(str(Urgency.NOT_URGENT)).alias("urgency"),
        F.lit(1).cast("bigint").alias("count"),
        F.lit(False).alias("accepted"),
        F.lit(str(LiftCondition.FACT_GONE)).alias("lift"),
        F.concat(F.lit("ledger "), F.col("ledger_id").cast("string"), F.lit(": "), hold_message).alias(
            "message"
        ),
    )

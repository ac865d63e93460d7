"""Whose ledgers a finding is about: tenant, namespace, topic, cursor, in its evidence.

Every finding about a ledger that an owner names has it as ``owner``, of whatever group it is. A finding that
is one per bookie is about the ledgers of many topics: it has as ``owners`` those of the ledgers that its
sample names, and where these ledgers stand. What a shadow topic borrows is its source's.
"""

from __future__ import annotations

from auditor.model.columns import LEDGER
from auditor.spark import functions as F
from auditor.spark.types import DataFrame

OWNER = ("application", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path")
"""The keys of ``evidence.owner``; ``detail`` is the version of a schema, or the name of a bucket."""

SAMPLED = 10
"""So many of the ledgers that a sample names, the first, are looked up for ``evidence.owners``."""

_OF_LEDGERS = "sample array<string>, aliases array<struct<sample array<string>>>"
_OF_LOGS = "sample array<struct<keeps array<struct<ledger string>>>>"
"""Where evidence names ledgers: as text, those of an old id of the bookie, and what keeps an entry log."""


def with_owners(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """The findings, with ``owner`` in the evidence of one about a ledger, ``owners`` of one with a sample.

    ``ownership`` is the run's table. ``owners`` has an element for each owner of sampled ledgers; its keys
    are ``ledgers``, ``standing`` and those of `OWNER`, null where nobody names these ledgers. The standing of
    a ledger that the table does not have is ``unknown``.
    """
    wanted = findings.where("ledger_id is not null").select(*LEDGER).distinct()
    named = _owner_of_each(ownership, wanted).where("path is not null")
    text = F.to_json("owner", {"ignoreNullFields": "false"})
    rows = findings.join(named.select(*LEDGER, text.alias("owner")), [*LEDGER], "left")
    several = _owners_of_samples(findings, ownership).withColumnRenamed("evidence", "of")
    # A few for each bookie, so they are broadcast: findings of ledgers are not sorted for them.
    of_none = F.col("ledger_id").isNull() & (F.col("evidence") == F.col("of"))
    rows = rows.join(F.broadcast(several), of_none, "left")
    comma = F.when(F.col("evidence") == "{}", "").otherwise(",")
    key = F.when(F.col("owner").isNotNull(), '"owner":').otherwise('"owners":')
    parts = [F.expr("left(evidence, length(evidence) - 1)"), comma, key, F.coalesce("owner", "owners")]
    evidence = F.coalesce(F.concat(*parts, F.lit("}")), F.col("evidence"))
    return rows.withColumn("evidence", evidence).select(*findings.columns)


def _owner_of_each(ownership: DataFrame, wanted: DataFrame) -> DataFrame:
    """One row for each ledger of ``wanted`` that the table has: ``path``, ``standing``, ``owner``.

    The path is the first of those that name it; null: nobody does.
    """
    own = ownership.where("ledger_id is not null and not coalesce(borrowed, false)")
    owner = F.struct(*OWNER).alias("owner")
    first = own.join(wanted, [*LEDGER], "left_semi").groupBy(*LEDGER)
    return first.agg(F.min(F.struct("path", "standing", owner)).alias("first")).select(*LEDGER, "first.*")


def _owners_of_samples(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """``evidence`` of findings that name no ledger, as it is, and ``owners`` of its sampled ones, as JSON."""
    sampled = _sampled_ledgers(findings)
    known = _owner_of_each(ownership, F.broadcast(sampled.select(*LEDGER).distinct()))
    nobody = F.struct(*(F.lit(None).cast("string").alias(name) for name in OWNER))
    each = sampled.join(F.broadcast(known), [*LEDGER], "left").select(
        "evidence",
        *LEDGER,
        F.coalesce("standing", F.lit("unknown")).alias("standing"),
        F.coalesce("owner", nobody).alias("owner"),
    )
    by_owner = each.groupBy("evidence", "standing", "owner").agg(
        F.array_sort(F.collect_list("ledger_id")).alias("ledgers")
    )
    element = F.struct("ledgers", "standing", "owner.*")
    listed = by_owner.groupBy("evidence").agg(F.array_sort(F.collect_list(element)).alias("owners"))
    # As everywhere in JSON, ids are text.
    in_text = F.transform(
        "owners", lambda one: one.withField("ledgers", one["ledgers"].cast("array<string>"))
    )
    return listed.select("evidence", F.to_json(in_text, {"ignoreNullFields": "false"}).alias("owners"))


def _sampled_ledgers(findings: DataFrame) -> DataFrame:
    """``evidence`` of findings that name no ledger, and the ledgers of its samples, one a row.

    A sample of paths names none, and one of another scope ("7 of scope 1") has no owner that is known.
    """
    texts = F.from_json("evidence", _OF_LEDGERS)
    logs = F.from_json("evidence", _OF_LOGS)["sample"]
    lists = F.array(
        texts["sample"],
        F.flatten(texts["aliases"]["sample"]),
        F.flatten(F.transform(logs, lambda log: log["keeps"]["ledger"])),
    )
    names = F.flatten(F.transform(lists, lambda each: F.coalesce(each, F.array().cast("array<string>"))))
    ids = F.filter(F.transform(names, lambda name: name.try_cast("bigint")), lambda id: id.isNotNull())
    first = F.slice(F.array_distinct(ids), 1, SAMPLED)
    samples = findings.where("ledger_id is null").select("evidence").distinct()
    return samples.select(
        "evidence", F.lit(0).cast("bigint").alias(LEDGER[0]), F.explode(first).alias(LEDGER[1])
    )

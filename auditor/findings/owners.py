"""Whose ledger a finding is about: tenant, namespace, topic, cursor, in its evidence as ``owner``.

Every finding about a ledger that an owner names has it, of whatever group it is. What a shadow topic borrows
is its source's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.model.columns import LEDGER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OWNER = ("application", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path")
"""The keys of ``evidence.owner``; ``detail`` is the version of a schema, or the name of a bucket."""


def with_owners(findings: DataFrame, ownership: DataFrame) -> DataFrame:
    """The findings, with ``owner`` in the evidence of those whose ledger has one in the table ownership."""
    from pyspark.sql import functions as F

    names = [F.col(name) for name in OWNER]
    named = ownership.where("ledger_id is not null and path is not null and not borrowed")
    wanted = findings.where("ledger_id is not null").select(*LEDGER).distinct()
    first = named.join(wanted, [*LEDGER], "left_semi").groupBy(*LEDGER)
    owners = first.agg(F.min(F.struct("path", F.struct(*names).alias("owner"))).alias("first"))
    text = F.to_json("first.owner", {"ignoreNullFields": "false"})
    rows = findings.join(owners.select(*LEDGER, text.alias("owner")), [*LEDGER], "left")
    comma = F.when(F.col("evidence") == "{}", "").otherwise(",")
    parts = [F.expr("left(evidence, length(evidence) - 1)"), comma, F.lit('"owner":'), F.col("owner")]
    evidence = F.coalesce(F.concat(*parts, F.lit("}")), F.col("evidence"))
    return rows.withColumn("evidence", evidence).select(*findings.columns)

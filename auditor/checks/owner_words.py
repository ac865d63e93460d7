"""Owners as findings name them, and the facts that every finding about one has."""

from __future__ import annotations

from auditor.checks.finding_rows import words
from auditor.spark import functions as F
from auditor.spark.types import Column, DataFrame
from auditor.tables import Tables

EVIDENCE = (
    "application", "kind", "tenant", "namespace", "topic", "cursor", "detail", "path",
)  # fmt: skip


def with_fault(tables: Tables, fault: str) -> DataFrame:
    """The rows of the table ownership that one check finds."""
    return tables.ownership.where(F.col("fault") == fault)


def owner_evidence(*more: str) -> dict[str, Column | str]:
    """Who the owner is, and some more columns of the table ownership, as a finding's evidence."""
    return {name: name for name in (*EVIDENCE, *more)}


def owner_name() -> Column:
    """A row's owner: "topic shop/orders/returns", "subscription audit of shop/orders/returns"."""
    topic = F.concat_ws("/", "tenant", "namespace", "topic")
    return (
        F.when(F.col("topic").isNull(), words("what is kept at ", F.col("path")))
        .when(F.col("kind") == "schema", words("schema ", topic))
        .when(F.col("kind").startswith("log-"), words("log ", F.col("topic")))
        .when(F.col("cursor").isNotNull(), words("subscription ", F.col("cursor"), " of ", topic))
        .otherwise(words("topic ", topic))
    )

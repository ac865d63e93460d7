"""From tables to a report: counted numbers, bounded samples, and what was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from auditor.asking import Asked
from auditor.bookie_scan import BookieScan
from auditor.checks.check import LEDGER
from auditor.comparing import Compared
from auditor.findings.rows import finding_of
from auditor.findings.table import order
from auditor.model.finding import Finding, Severity
from auditor.model.options import AuditOptions
from auditor.model.report import (
    BookiesRead,
    Cluster,
    Coverage,
    Decided,
    Impact,
    Replicas,
    Report,
    Run,
    Taken,
)
from auditor.model.version import program_version
from auditor.scan import MetadataScan
from auditor.since import Since
from auditor.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GAPS_SHOWN = 20
"""So many gaps a report names; any gap at all makes it incomplete."""


def summarise(
    tables: Tables,
    findings: DataFrame,
    metadata: MetadataScan,
    bookies: BookieScan,
    asked: Asked | None,
    compared: Compared,
    gaps: list[str],
    options: AuditOptions,
    started: int,
    since: Since,
) -> Report:
    """Count, sample and cover: the report of an audit whose findings have landed. Times in ms.

    ``gaps`` are those of `gaps_shown`.
    """
    taken = _taken(tables.ledgers)
    run = Run(
        version=program_version(),
        started=started,
        finished=compared.finished,
        scan_time=metadata.scan_time,
        live=metadata.live,
        positions=metadata.positions(),
        bookie_sources=list(bookies.sources),
        operations=_operations(tables, metadata, bookies, asked, taken),
        gaps=gaps,
        notes=[*metadata.notes(), *bookies.notes(), *compared.notes, *([] if since.path else since.notes)],
        tally=compared.tally(),
        impact=impact(findings, tables.ledgers),
        changes=compared.counted(),
        suppressions=compared.suppressions(),
        reused=since.told(bookies.reused, taken),
    )
    return Report.make(run, cluster_of(metadata), _coverage(tables), _samples(findings, options.samples))


def _taken(ledgers: DataFrame) -> Taken:
    """How many ledgers were taken from an earlier run, and how many were read."""
    from pyspark.sql import functions as F

    again = F.coalesce("reused", F.lit(False))
    counted = (F.count_if(again).alias("reused"), F.count_if(~again).alias("read"))
    row = ledgers.where("status != 'gap'").agg(*counted).first()
    assert row is not None
    return Taken(reused=row["reused"], read=row["read"])


def cluster_of(metadata: MetadataScan) -> Cluster:
    """Which cluster it is that was read."""
    return Cluster(metadata.instance_id, metadata.uri, metadata.layout.value)


def _coverage(tables: Tables) -> Coverage:
    from pyspark.sql import functions as F

    ledgers = tables.verdicts.agg(
        F.count("*").alias("total"),
        F.count_if(F.expr("class = potential_class and class != 'undecided'")).alias("decided"),
    ).first()
    unknown = tables.judged.agg(F.coalesce(F.sum(F.size("unknown")), F.lit(0)).alias("pairs")).first()
    rows = tables.bookies.where("named or found").orderBy("bookie_id").collect()
    assert ledgers is not None
    assert unknown is not None
    unread = tuple(row["bookie_id"] for row in rows if row["read"] != "read")
    expected = sum(row["replicas"] for row in rows)
    return Coverage(
        Decided(ledgers["total"], ledgers["decided"]),
        BookiesRead(len(rows), len(rows) - len(unread), unread),
        Replicas(expected, expected - unknown["pairs"]),
    )


def _operations(
    tables: Tables, metadata: MetadataScan, bookies: BookieScan, asked: Asked | None, first: Taken
) -> dict[str, int]:
    """What was asked of the sources; all of it is reading. ``first`` is of the first scan of ledgers."""
    from pyspark.sql import functions as F

    counted = tables.availability.agg(F.count_if(F.expr("path is not null")).alias("files")).first()
    assert counted is not None
    scans = [first, *([_taken(again)] if (again := metadata.again()) is not None else [])]
    made = {
        **metadata.operations(),
        "ledger records read by tasks": sum(scan["read"] for scan in scans),
        "marks and locks read by tasks": metadata.marks().where("kind != 'gap'").count(),
        "indexes read": counted["files"] - bookies.reused["reused"],
        "listings asked of bookies": asked.rows.where("state != 'gap'").count() if asked else 0,
    }
    return {name: count for name, count in made.items() if count}


def gaps_shown(tables: Tables, metadata: MetadataScan) -> list[str]:
    """A bounded sample of what could not be listed, of any part of the metadata."""
    rows = tables.ledgers.where("status = 'gap'").select("path", "damage").limit(GAPS_SHOWN).collect()
    rows += metadata.marks().where("kind = 'gap'").select("path", "damage").limit(GAPS_SHOWN).collect()
    if (again := metadata.again()) is not None:
        rows += again.where("status = 'gap'").select("path", "damage").limit(GAPS_SHOWN).collect()
    named = {*metadata.gaps(), *((row["path"], row["damage"]) for row in rows)}
    return [f"{path}: {reason}" for path, reason in sorted(named)][:GAPS_SHOWN]


def impact(findings: DataFrame, ledgers: DataFrame) -> list[Impact]:
    """Ledgers and their bytes by severity. A ledger with several findings of one severity counts once."""
    from pyspark.sql import functions as F

    about = findings.where("ledger_id is not null").select("severity", *LEDGER)
    concerned = about.distinct()
    # Two znodes may say that they are one ledger; a damaged record may say any length.
    named = ledgers.where("length > 0").join(about.select(*LEDGER), [*LEDGER], "left_semi")
    lengths = named.groupBy(*LEDGER).agg(F.max("length").alias("length"))
    bytes = F.coalesce(F.sum(F.col("length").cast("decimal(20,0)")), F.lit(0))
    rows = (
        concerned.join(lengths, [*LEDGER], "left")
        .groupBy("severity")
        .agg(F.count("*").alias("ledgers"), bytes.alias("bytes"))
        .collect()
    )
    impacts = [Impact(severity=r["severity"], ledgers=r["ledgers"], bytes=int(r["bytes"])) for r in rows]
    return sorted(impacts, key=lambda impact: Severity(impact["severity"]).rank)


def _samples(findings: DataFrame, samples: int) -> tuple[Finding, ...]:
    """The first findings of each id: bounded by the number of checks."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    place = F.row_number().over(Window.partitionBy("id").orderBy(*order()))
    rows = findings.withColumn("place", place).where(F.col("place") <= samples).orderBy(*order())
    return tuple(finding_of(row.asDict(recursive=True)) for row in rows.collect())

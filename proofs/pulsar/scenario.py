"""One scenario with a real Pulsar: write, damage, stop, audit, and compare with the damage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from auditor import Audit
from auditor.model.options import AuditOptions
from auditor.model.states import Verdict
from proofs.pulsar.cluster import Pulsar
from proofs.pulsar.faults import Expected, plant
from proofs.pulsar.values import write_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAD = ("critical", "error", "warning")


def play(
    spark: SparkSession,
    cluster: Pulsar,
    run: Path,
    say: Callable[[str], None],
    *,
    spoil: bool = True,
    values: Path | None = None,
) -> list[str]:
    """Run one scenario; return a line for each wrong result of the audit.

    Args:
        spark: The session of the audit.
        cluster: The Pulsar to start.
        run: The run directory of the audit.
        say: Prints a line of progress.
        spoil: Whether to plant faults. Without faults the verdict must be healthy.
        values: A directory for the values that Pulsar wrote. None keeps none.
    """
    say(f"seed {cluster.seed}: starting Pulsar {cluster.release}, compression {cluster.compression}")
    with cluster as pulsar:
        ledgers = sum(len(record["ledgers"]) for record in pulsar.view.values())
        say(f"{len(pulsar.view)} topics of {ledgers} ledgers are there")
        if values is not None:
            say(f"kept: {write_values(pulsar, values)}")
        expected = {Expected(record["id"], record["ledger"]) for record in pulsar.expected}
        expected |= plant(pulsar.zookeeper, pulsar.view, pulsar.seed) if spoil else set()
    say(f"halted; auditing, with {len(expected)} faults to find")
    report = Audit(pulsar.metadata_uri, [str(pulsar.bookies)], str(run), AuditOptions(owner_grace=0.0)).run(
        spark
    )
    say(f"audited: {report.verdict}, {dict(report.counts)}")
    findings = pq.read_table(run / "findings").to_pylist()
    owners = pq.read_table(run / "tables" / "owners").to_pylist()
    wrong = [*wrong_findings(findings, expected), *wrong_owners(owners, pulsar.view, expected)]
    if not spoil and report.verdict != Verdict.HEALTHY:
        wrong.append(f"nothing was spoiled, and the verdict is {report.verdict}")
    if not report.complete:
        wrong.append(f"not all of it was decided: {report.coverage}, gaps {report.run.gaps}")
    return wrong


def wrong_findings(findings: list[dict[str, Any]], expected: set[Expected]) -> list[str]:
    """Return the faults that were not found, and the findings without a fault.

    Only findings about owners count, and those with the severity warning or worse.
    """
    of_owners = {pair.id for pair in expected}
    pairs = {
        Expected(row["id"], row["ledger_id"])
        for row in findings
        if row["id"] in of_owners or row["id"].startswith(("owner-", "offload-", "ledger-", "object-"))
    }
    wrong = [row for row in findings if row["severity"] in BAD and (row["id"], row["ledger_id"]) not in pairs]
    return [
        *(f"not found: {pair.id} of ledger {pair.ledger_id}" for pair in sorted(expected - pairs)),
        *(f"found without a fault: {pair.id} of ledger {pair.ledger_id}" for pair in pairs - expected),
        *(f"found without a fault: {row['severity']} {row['id']}: {row['message']}" for row in wrong),
    ]


def wrong_owners(owners: list[dict[str, Any]], view: Mapping[str, Any], expected: set[Expected]) -> list[str]:
    """Return the topics whose owners differ from the broker's view, except topics with a fault."""
    read: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in owners:
        topic = "/".join(str(row[name]) for name in ("tenant", "namespace", "topic"))
        if row["ledger_id"] is not None:
            read[topic][row["kind"]].add(row["ledger_id"])
    spoiled = {record.ledger_id for record in expected}
    wrong = []
    for topic, topic_view in view.items():
        ledgers_by_kind = {
            "data": {record["ledger"] for record in topic_view["ledgers"]},
            "cursor": {id for id in topic_view["cursors"].values() if id >= 0},
            "schema": set(topic_view["schemas"]),
        }
        for kind, ledgers in ledgers_by_kind.items():
            if not spoiled & set.union(*ledgers_by_kind.values()) and read[topic][kind] != ledgers:
                wrong.append(
                    f"{topic}: {kind} is {sorted(read[topic][kind])}, the broker says {sorted(ledgers)}"
                )
    return wrong

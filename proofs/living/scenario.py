"""The whole loop: load, audits under load, then faults.

The tests run a short form of it, and ``python -m proofs.living`` a long one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofs.living.chaos import Chaos
from proofs.living.faults import Fault, damage_bookies, damage_ledgers, settle_cluster
from proofs.living.loop import Loop
from proofs.living.ways import DISK, Way
from tests.clusters.living import living_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WARM_UP_S = 10.0
AUDITS_FOR_A_FAULT = 2
KEPT_LEDGERS = 1_000
"""Closed ledgers that each writer keeps, so many that few are deleted.

A hundred deleted ledgers that wait for garbage collection would make the metadata suspect by definition.
"""


@dataclass
class Outcome:
    """The result of one cluster. ``missed`` has the faults that no audit confirmed in time."""

    storage: str
    loop: Loop
    load: dict[str, int]
    deeds: list[str]
    faults: list[Fault] = field(default_factory=list)
    missed: list[Fault] = field(default_factory=list)

    def text(self) -> str:
        lines = [f"== {self.storage}: {len(self.loop.runs)} audits, load {self.load}", *self.deeds]
        lines += [run.summary() for run in self.loop.runs]
        lines += [self.loop.matrix.text()]
        lines += [f"ERROR lines in the bookies' logs: {dict(self.loop.errors_logged)}"]
        lines += [f"faults: {len(self.faults) - len(self.missed)} of {len(self.faults)} confirmed"]
        lines += [f"  missed: {fault}" for fault in self.missed]
        return "\n".join(lines)

    def wrong(self) -> list[str]:
        """Return a sentence for each violated expectation."""
        matrix = self.loop.matrix
        wrong = [
            f"false: {run}: {row['id']} {row['ledger_id']} {row['bookie_id']}: {row['message']}"
            for run, row in matrix.wrong
        ]
        wrong += [f"overlooked: {id} {count}" for id, count in matrix.overlooked.items()]
        wrong += [f"exit code: {summary}" for summary in self.loop.bad_exits()]
        return wrong + [f"missed: {fault}" for fault in self.missed]


def play(
    spark: SparkSession,
    root: Path,
    storage: str,
    *,
    seed: int,
    ways: Sequence[Way],
    audits: int,
    ledgers: int = 120,
    say: Callable[[str], None] = print,
    faults: bool = True,
    **options: Any,
) -> Outcome:
    """Run one cluster: audits under load, then the faults.

    Args:
        spark: The session of the audits.
        root: A new directory for the cluster.
        storage: The ledger storage class of the bookies.
        seed: The random seed of the load and the chaos.
        ways: The ways to read indexes, used in turn.
        audits: Number of audits under load.
        ledgers: Largest number of closed ledgers that each writer keeps. A larger one causes fewer deletions.
        say: Prints a line of progress.
        faults: Whether to make faults after the load.
        options: Further arguments of `living_cluster`.
    """
    with living_cluster(root, storage, **options) as cluster:
        loop = Loop(cluster, spark, say)
        cluster.load(seed, ledgers=ledgers)
        with Chaos(cluster, seed) as chaos:
            time.sleep(WARM_UP_S)
            loop.audit_under_load(ways, audits, chaos)
        outcome = Outcome(storage, loop, cluster.end_load(), chaos.log)
        if faults:
            settle_cluster(cluster)
            for name, damage in (("ledgers", damage_ledgers), ("bookies", damage_bookies)):
                new_faults = damage(cluster)
                outcome.faults += new_faults
                outcome.missed += _confirm_faults(loop, name, new_faults)
    return outcome


def _confirm_faults(loop: Loop, name: str, faults: list[Fault]) -> list[Fault]:
    """Audit at most twice until each fault is confirmed; return the unconfirmed faults."""
    open_faults = faults
    for number in range(AUDITS_FOR_A_FAULT):
        findings = loop.after_faults(DISK, f"9{number}-{name}")
        open_faults = [fault for fault in open_faults if not fault.is_confirmed_by(findings)]
        if not open_faults:
            break
    return open_faults

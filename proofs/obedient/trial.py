"""One round: audit a damaged cluster and carry out the printed instructions until no new one appears.

Every acknowledged entry that was on a disk before must still be on a disk afterwards. No instruction may
delete a ledger in use, and no active writer may be fenced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.audit import owner_scan
from auditor.runs.reader import RunReader
from auditor.tables import owner_stores, ownership
from proofs.obedient.cluster import TrialCluster, trial_cluster
from proofs.obedient.disks import Disks, entries_on_disks
from proofs.obedient.faults import FAULTS, order_of
from proofs.obedient.operator import Operator
from proofs.obedient.targets import TooFewBookiesError
from tests.clusters.idle import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_AUDITS = 3
"""Largest number of audits of one cluster whose instructions are carried out."""
FENCED = "LedgerFenced"


@dataclass
class RoundResult:
    """The result of a round.

    Args:
        seed: The random seed, which repeats the round.
        faults: Descriptions of the faults.
        counts: Numbers of carried out instructions, by group and kind.
        failed: Instructions that could not be carried out.
        wrong: Descriptions of violated expectations.
        judged: Number of acknowledged entries that were on a disk before.
        runs: Number of audits whose instructions were carried out.
    """

    seed: int
    faults: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    judged: int = 0
    runs: int = 0

    def text(self) -> str:
        """Return the result in one line."""
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        end = "; ".join(self.wrong) or "nothing lost"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return (
            f"seed {self.seed}: {'; '.join(self.faults)}: {self.counts.total()} instructions"
            f"{f' ({kinds})' if kinds else ''}{failed}, {self.runs} runs, {self.judged} entries judged: {end}"
        )


def play_round(
    spark: SparkSession,
    root: Path,
    seed: int,
    names: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> RoundResult:
    """Make a cluster, damage it, and carry out the instructions of its audits.

    Args:
        spark: The session of all audits.
        root: A new directory for the files of the cluster and the audits. It stays.
        seed: The random seed.
        names: The faults to make, from `FAULTS`. None chooses one to three at random.
        say: Gets a line for each instruction and failure.
    """
    with trial_cluster(root, seed) as cluster, pytest.MonkeyPatch.context() as patch:
        # A round cannot wait the hours of a ledger rollover, or the days after a list lost a ledger.
        patch.setattr(ownership, "ROLLOVER_MS", 0)
        patch.setattr(owner_scan, "ROLLOVER_MS", 0)
        names = names or cluster.random.sample(sorted(FAULTS), cluster.random.choice((1, 2, 2, 3)))
        # Only a deep audit compares payloads.
        is_deep = "payloads-differ" in names or cluster.random.random() < 0.4
        auditing = _Audits(spark, cluster, is_deep)
        if "owners-lost" in names or cluster.random.random() < 0.3:
            auditing.run()
        else:
            patch.setattr(owner_stores, "DROPPED_MEMORY_MS", 0)
        result = RoundResult(seed, _make_faults(cluster, names))
        say(f"faults: {'; '.join(result.faults)}")
        before = cluster.needed(entries_on_disks(cluster.bookies.directory))
        result.judged = len(before)
        operator = Operator(cluster)
        auditing.run()
        old_instructions: set[str] = set()
        for _ in range(MAX_AUDITS):
            run = auditing.run()
            result.runs += 1
            instructions = operator.obey(run)
            for instruction in instructions:
                say(f"  {result.runs}: {instruction}")
            if {*instructions} <= old_instructions:
                break  # no new instruction: the rest is done or waits for others
            old_instructions = {*instructions}
        for failed in operator.obeyed.failed:
            say(f"  failed: {failed}")
        result.counts, result.failed = operator.obeyed.counts, operator.obeyed.failed
        result.wrong = [*operator.obeyed.wrong, *find_losses(cluster, before), *_fenced(cluster)]
    return result


def _make_faults(cluster: TrialCluster, names: Sequence[str]) -> list[str]:
    descriptions = []
    for name in sorted(names, key=order_of):
        try:
            descriptions.append(f"{name} ({FAULTS[name](cluster)})")
        except TooFewBookiesError as error:
            descriptions.append(f"{name} (not made: {error})")
        cluster.write_on()
    return descriptions


def find_losses(cluster: TrialCluster, before: Disks) -> list[str]:
    """Return a description of each ledger with entries that are on no disk any more."""
    after = entries_on_disks(cluster.bookies.directory)
    lost: dict[int, list[int]] = {}
    for entry in cluster.needed(before):
        if entry not in after:
            lost.setdefault(entry.ledger, []).append(entry.entry)
    return [f"ledger {ledger} lost entries {sorted(entries)}" for ledger, entries in sorted(lost.items())]


def _fenced(cluster: TrialCluster) -> list[str]:
    return [
        f"the writer of ledger {ledger} was fenced"
        for ledger, error in cluster.lost_writers.items()
        if FENCED in error
    ]


class _Audits:
    """Audits of one cluster. Their runs are in one directory."""

    def __init__(self, spark: SparkSession, cluster: TrialCluster, is_deep: bool) -> None:
        self._spark = spark
        self._cluster = cluster
        self._is_deep = is_deep
        self._count = 0

    def run(self) -> RunReader:
        """Audit the cluster; return the finished run."""
        self._count += 1
        store, bookies = self._cluster.store, self._cluster.bookies
        hosts = store.uri.removeprefix("zk+hierarchical://").removesuffix("/ledgers")
        options: dict[str, Any] = {
            "owner_grace": 0.0,
            "owners_complete": f"pulsar:zk://{hosts}",
            "entry_logs": True,
            "deep": self._is_deep,
        }
        out = self._cluster.root / "runs" / f"{self._count}"
        return RunReader(str(audit(self._spark, store, [str(bookies.directory)], out, **options).out))

"""What a run could not have found, and why: no finding there means nothing.

A check that looks at what a store does not keep, or that no source showed, is silent and not satisfied.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.model.run_view import RunView

MARKS = (
    "mark-stale",
    "mark-stuck",
    "mark-missing",
    "mark-of-deleted-ledger",
    "mark-unknown-replica",
    "mark-unreadable",
    "copy-in-flight",
)
"""Checks that look at under-replication marks or locks."""

DISKS = (
    "orphan-ledger",
    "orphan-ledger-deleting",
    "over-replicated-ledger",
    "copy-in-flight",
    "index-unreadable",
    "ledger-not-indexed",
    "metadata-suspect",
    "stray-file",
    "disk-id-mismatch",
    "disk-content-mismatch",
    "disk-version-missing",
    "disk-dirs-disagree",
    "dirset-mismatch",
    "disk-shared",
    "start-refused",
    "alias-gc-danger",
)
"""Checks that look at what bookies' directories hold; bookies that are asked do not tell it."""

COPIES = (
    "entry-lost",
    "below-ack-quorum",
    "below-write-quorum",
    "copy-lagging",
    "stale-segment",
    "surplus-entries",
    *DISKS,
)
"""Checks that see nothing of a bookie whose index was not read."""


@dataclass(frozen=True, slots=True)
class BlindSpot:
    """Checks that saw nothing of what ``where`` names, and why; an empty ``where`` means nothing at all."""

    ids: tuple[str, ...]
    why: str
    where: str = ""


def blind_spots(run: RunView) -> list[BlindSpot]:
    """What this run could not see, what is blind altogether first."""
    report, seen = run.report, run.report.coverage
    found: list[BlindSpot] = []
    if report.cluster.layout == "etcd":
        found.append(BlindSpot(MARKS, "etcd keeps no under-replication marks and no locks"))
        found.append(BlindSpot(("recovery-stuck",), "etcd keeps no times, so no age is known"))
    elif not run.marks_listed:
        found.append(BlindSpot(("mark-missing",), "not all under-replication marks could be listed"))
    if not seen.bookies.read and not run.directories:
        found.append(BlindSpot(COPIES, "no bookie was read"))
    elif not run.directories:
        found.append(BlindSpot(DISKS, "bookies were only asked (rpc:), which tells nothing of their disks"))
    if report.cluster.instance_id is None:
        found.append(BlindSpot(("instance-mismatch",), "the cluster has no instance id to compare with"))
    if len(report.run["positions"]) < 2:
        found.append(
            BlindSpot(
                ("orphan-ledger-deleting", "registered-twice"),
                "one scan of saved metadata stands for both, so nothing can be seen to change",
                "what changed while the bookies were read",
            )
        )
    if run.unread and (seen.bookies.read or run.directories):
        left = len(seen.bookies.unread)
        where = f"{left:,} bookies that were not read whole" if left > 1 else run.unread[0].bookie_id
        found.append(BlindSpot(COPIES, "what is not in a readable index is neither there nor missing", where))
    if report.run["gaps"] or report.counts.get("metadata-misplaced"):
        found.append(
            BlindSpot(
                ("orphan-ledger", "mark-of-deleted-ledger"),
                "a part of the ledger tree could not be listed or read",
                "ids that it could stand for",
            )
        )
    return found

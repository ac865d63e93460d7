"""Facts of a run that a plan needs besides findings: bookies, cookies, AutoRecovery and marks.

The module also groups findings by step.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from auditor.actions.stop_set import DANGEROUS_CHECKS, StopSet
from auditor.decommission.rehearse import AutoRecoveryState, read_auto_recovery
from auditor.model.arrow import ds, pc
from auditor.model.finding import Confidence, Urgency, no_change_status
from auditor.model.plan import Condition, Fact, PlanFinding, UnplannedCount
from auditor.model.states import TAKES_WRITES, GcReason, MarkRow
from auditor.runs.change_status import statuses_in_order
from auditor.runs.reader import RunReader
from auditor.simulate.exposure import DependentLedger, find_dependent_ledgers, find_joint_holders
from auditor.simulate.windows import Longs

MAX_LEDGERS = 10_000
"""Largest number of ledgers in one step. Plan the others once these are done."""

_COOKIE_COLUMNS = (
    "layout", "bookie_host", "journal_dirs", "ledger_dirs", "index_dirs", "instance_id", "damage", "version",
)  # fmt: skip
MAX_FINGERPRINTS = 5
"""Largest number of fingerprints that a plan names for the findings of one check."""

EXCHANGE_CHECKS = ("disk-id-mismatch", "ledgers-in-wrong-directory")
"""Checks that find exchanged directories; a step stops the bookies and puts the directories back."""
INDEX_FAULTS = ("index-unreadable", "ledger-not-indexed")
"""Checks that find a damaged index; a step stops the bookie and rebuilds its index."""

FINDING_COLUMNS = (
    "id", "urgency", "confidence", "severity", "scope_id", "ledger_id", "bookie_id", "missing", "unknown",
    "evidence", "fingerprint",
)  # fmt: skip


@dataclass(slots=True)
class FindingGroup:
    """Findings of one check that one step is about; ``ledgers`` are their first `MAX_LEDGERS` ledgers."""

    id: str
    count: int = 0
    ledgers: list[int] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a finding; only the first finding's evidence is kept."""
        if not self.count:
            self.evidence = json.loads(row["evidence"] or "{}")
        self.count += 1
        if len(self.fingerprints) < MAX_FINGERPRINTS:
            self.fingerprints.append(row["fingerprint"])
        if row["ledger_id"] is not None and len(self.ledgers) < MAX_LEDGERS:
            self.ledgers.append(row["ledger_id"])


class FindingGroups(dict[str, FindingGroup]):
    """Findings that one step is about, by check id; ``sure`` is True if all of them are confirmed.

    ``urgency`` is that of the most urgent finding. ``copies`` has, by ledger, the smallest number of known
    copies of an entry, if a finding shows it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sure = True
        self.urgency = Urgency.REST
        self.copies: dict[int, int] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a finding."""
        self.setdefault(row["id"], FindingGroup(row["id"])).add(row)
        self.sure &= row["confidence"] == Confidence.CONFIRMED
        self.urgency = min(self.urgency, Urgency(row["urgency"]), key=lambda urgency: urgency.rank)
        if (copies := copies_left(row)) is not None and len(self.copies) < MAX_LEDGERS:
            self.copies[row["ledger_id"]] = min(copies, self.copies.get(row["ledger_id"], copies))

    @property
    def ledgers(self) -> list[int]:
        """Return the ledgers of all groups, each once, those with the fewest copies first."""
        ids = dict.fromkeys(ledger for group in self.values() for ledger in group.ledgers)
        unknown_rank = max(self.copies.values(), default=0) + 1
        return sorted(ids, key=lambda ledger: self.copies.get(ledger, unknown_rank))

    def fewest_copies(self, ledgers: Iterable[int]) -> int | None:
        """Return the smallest number of known copies of an entry of these ledgers; None if unknown."""
        return min((self.copies[ledger] for ledger in ledgers if ledger in self.copies), default=None)

    @property
    def count(self) -> int:
        """Return the number of findings."""
        return sum(group.count for group in self.values())

    def named(self) -> tuple[PlanFinding, ...]:
        """Return the findings in the form in which a plan names them."""
        return tuple(PlanFinding(group.id, group.count, tuple(group.fingerprints)) for group in self.values())

    def conditions(self, value: str) -> tuple[Condition, ...]:
        """Return, for each named finding, the condition that the finding is ``value`` ("there" or "gone")."""
        return tuple(
            Condition(Fact.FINDING, f"{group.id} {fingerprint}", value)
            for group in self.values()
            for fingerprint in group.fingerprints
        )


def copies_left(row: Mapping[str, Any]) -> int | None:
    """Return the smallest number of known copies of an entry; None if the finding does not show it.

    >>> copies_left({"ledger_id": 7, "evidence": '{"write_quorum": 3, "copies_missing_or_unknown": 2}'})
    1
    """
    evidence = json.loads(row["evidence"] or "{}")
    if row["ledger_id"] is None or "copies_missing_or_unknown" not in evidence:
        return None
    return max(int(evidence["write_quorum"]) - int(evidence["copies_missing_or_unknown"]), 0)


class Situation:
    """The facts of a finished run that steps of all kinds need.

    Memory is bounded by the numbers of bookies and of marks.
    """

    def __init__(self, run: RunReader) -> None:
        self.run = run
        self.facts = run.report.run
        self.bookies: dict[str, dict[str, Any]] = {
            row["bookie_id"]: row for row in run.table("bookies").to_pylist()
        }
        self.lost = sorted(
            name for name, row in self.bookies.items() if row["named"] and row["registered"] is None
        )
        self.writable = frozenset(
            name for name, row in self.bookies.items() if row["registered"] in TAKES_WRITES
        )
        self.auto_recovery: AutoRecoveryState = read_auto_recovery(run, self.lost)
        self.works = not self.auto_recovery.blockers and not self.auto_recovery.doubts
        self.copy_before_stop: dict[str, FindingGroups] = {}
        """Bookies that should stop once their ledgers are copied elsewhere, with the findings."""
        self.starting: set[str] = set()
        """Bookies that are down and that a step starts; no ledger is copied off them."""
        self.addressed: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        for tally in self.facts.tally:
            self.accepted[tally["id"]] += tally["suppressed"]

    @cached_property
    def marks(self) -> MarkTimes:
        """Return the times of all marks, and the ledgers that a worker has locked."""
        return MarkTimes(self.run)

    def marks_of(self, bookies: Collection[str]) -> dict[str, tuple[int, list[int]]]:
        """Return, by bookie, the number of ledgers marked for it, and the first `MAX_LEDGERS` ids."""
        marks_by_bookie: dict[str, tuple[int, list[int]]] = {}
        for batch in self.run.batches("tables/marks", ["kind", "ledger_id", "replicas"]) if bookies else ():
            marks = batch.filter(pc.equal(batch["kind"], MarkRow.MARK.value))
            mark_rows, replica_names = pc.list_parent_indices(marks["replicas"]), marks["replicas"].flatten()
            for bookie in bookies:
                rows = mark_rows.filter(pc.equal(replica_names, bookie))
                if len(rows):
                    ids = marks["ledger_id"].take(rows).drop_null()
                    count, ids_of_bookie = marks_by_bookie.get(bookie, (0, []))
                    ids_of_bookie += ids[: MAX_LEDGERS - len(ids_of_bookie)].to_pylist()
                    marks_by_bookie[bookie] = count + len(ids), ids_of_bookie
        return marks_by_bookie

    @cached_property
    def cookies(self) -> dict[str, str]:
        """Return the digest of each bookie's cookie in the store."""
        return {row["bookie_id"]: cookie_digest(row) for row in self.run.table("cookies").to_pylist()}

    @cached_property
    def stop_set(self) -> StopSet:
        """Return the bookies that this plan stops; each step checks this set before it adds its bookie."""
        stop_candidates = {
            row["bookie_id"] for row in self.rows_of(*DANGEROUS_CHECKS, *EXCHANGE_CHECKS, *INDEX_FAULTS)
        }
        for row in self.rows_of("entry-lost"):  # an index is rebuilt where logs have these entries
            logs = json.loads(row["evidence"] or "{}").get("in_entry_logs") or ()
            stop_candidates |= {log["bookie_id"] for log in logs}
        running_bookies = [
            name for name in stop_candidates if self.bookies.get(name, {}).get("registered") is not None
        ]
        return StopSet(find_joint_holders(self.run.directory, self._is_listed, running_bookies))

    @property
    def _is_listed(self) -> bool:
        """Return whether all cookies and registrations could be listed."""
        listing = self.facts.bookies_listed
        return listing is not None and listing["hidden"] is None

    @cached_property
    def dependent_ledgers(self) -> dict[int, DependentLedger]:
        """Return the first ledgers that depend on a bookie of ``copy_before_stop`` alone, by id.

        Read it only after ``copy_before_stop`` is complete.
        """
        if not self.copy_before_stop:
            return {}
        dependent_rows = find_dependent_ledgers(
            self.run.directory, self._is_listed, self.copy_before_stop, MAX_LEDGERS
        )
        return {dependent_ledger.ledger_id: dependent_ledger for dependent_ledger in dependent_rows}

    def stored_copies_outside(self, ledgers: Sequence[int]) -> dict[int, list[str]]:
        """Return the ledgers whose last copy is on bookies outside all their segments, with these bookies."""
        row_filter = (ds.field("scope_id") == 0) & (ds.field("reason") == GcReason.LAST_COPY.value)
        row_filter &= ds.field("ledger_id").isin(list(ledgers))
        rows = (
            self.run.table("gc_foresight", ["ledger_id", "bookie_id"], row_filter).to_pylist()
            if ledgers
            else []
        )
        bookies_by_ledger: dict[int, list[str]] = {}
        for row in rows:
            bookies_by_ledger.setdefault(row["ledger_id"], []).append(row["bookie_id"])
        return bookies_by_ledger

    @cached_property
    def exchanged_disks(self) -> dict[str, FindingGroups]:
        """Return the bookies with exchanged disks or directories, and the findings about them."""
        groups_by_bookie: dict[str, FindingGroups] = {}
        for row in self.rows_of("disk-id-mismatch", "ledgers-in-wrong-directory"):
            evidence = json.loads(row["evidence"] or "{}")
            is_exchanged = row["id"] == "disk-id-mismatch" or evidence.get("exchanged")
            if is_exchanged and row["confidence"] == Confidence.CONFIRMED and row["bookie_id"] is not None:
                groups_by_bookie.setdefault(row["bookie_id"], FindingGroups()).add(row)
        return groups_by_bookie

    @cached_property
    def bookies_with_unstored_copies(self) -> frozenset[str]:
        """Return the bookies that serve entries which their disks lack; a stop loses these copies."""
        return frozenset(
            row["bookie_id"] for row in self.rows_of("index-incomplete") if row["bookie_id"] is not None
        )

    def rows_of(self, *ids: str) -> Iterable[dict[str, Any]]:
        """Yield the findings with these ids, in order; ``accepted`` says whether a suppression names one."""
        find_status = (
            statuses_in_order(self.run.path) if any(self.accepted[id] for id in ids) else no_change_status
        )
        if any(self.run.report.counts.get(id) for id in ids):
            for batch in self.run.batches("findings", FINDING_COLUMNS, ds.field("id").isin(ids)):
                for row in batch.to_pylist():
                    change_status = find_status(row["fingerprint"])
                    yield row | {
                        "accepted": change_status is not None and change_status.suppressed is not None
                    }

    def findings_of_checks(self, *ids: str) -> Iterable[dict[str, Any]]:
        """Yield the findings with these ids that nobody accepted, and that therefore require a step."""
        return (row for row in self.rows_of(*ids) if not row["accepted"])

    def by_bookie(self, *ids: str) -> dict[str, FindingGroups]:
        """Return the findings with these ids in groups by bookie, and count them as findings with a step."""
        groups_by_bookie: dict[str, FindingGroups] = {}
        for row in self.findings_of_checks(*ids):
            groups_by_bookie.setdefault(row["bookie_id"], FindingGroups()).add(row)
            self.addressed[row["id"]] += 1
        return groups_by_bookie

    def without_step(self) -> tuple[UnplannedCount, ...]:
        """Return the numbers of findings without a step, by id; accepted findings do not count."""
        counts = self.run.report.counts
        unplanned_counts = {
            id: finding_count - self.addressed[id] - self.accepted[id] for id, finding_count in counts.items()
        }
        return tuple(
            UnplannedCount(id, finding_count)
            for id, finding_count in unplanned_counts.items()
            if finding_count > 0
        )


class MarkTimes:
    """Marks and locks of a run as arrays; ``ids`` has the marked ledgers, ascending."""

    def __init__(self, run: RunReader) -> None:
        ids, mark_times, locks = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for batch in run.batches("tables/marks", ["kind", "ledger_id", "ctime", "mtime", "misplaced"]):
            has_ledger_id = batch["ledger_id"].is_valid()
            is_mark = pc.and_(pc.equal(batch["kind"], MarkRow.MARK.value), has_ledger_id)
            marks = batch.filter(pc.and_(is_mark, pc.invert(pc.fill_null(batch["misplaced"], False))))
            ids.append(marks["ledger_id"].to_numpy())
            mark_time_column = pc.coalesce(marks["ctime"], marks["mtime"]).fill_null(-1)
            mark_times.append(mark_time_column.to_numpy(zero_copy_only=False))
            locks_batch = batch.filter(pc.and_(pc.equal(batch["kind"], MarkRow.LOCK.value), has_ledger_id))
            locks.append(locks_batch["ledger_id"].to_numpy())
        id_order = np.argsort(np.concatenate(ids), kind="stable")
        self.ids: Longs = np.concatenate(ids)[id_order]
        self._since: Longs = np.concatenate(mark_times)[id_order]
        self._locks = frozenset(np.concatenate(locks).tolist())

    def mark_time(self, ledger: int) -> int | None:
        """Return when a ledger was last marked, in ms; -1 if that is unknown, None if it is not marked."""
        id_position = int(np.searchsorted(self.ids, ledger))
        if id_position == len(self.ids) or self.ids[id_position] != ledger:
            return None
        return int(self._since[id_position])

    def locked(self, ledger: int) -> bool:
        """Return whether a worker has locked the ledger."""
        return ledger in self._locks


def cookie_digest(row: Mapping[str, Any]) -> str:
    """Return a digest of a cookie and its version, in 16 hex digits, from its row of the table ``cookies``.

    >>> cookie_digest(dict.fromkeys(_COOKIE_COLUMNS))
    '1ca5a0335ad41b65'
    """
    text = json.dumps([row[name] for name in _COOKIE_COLUMNS])
    return hashlib.sha256(text.encode()).hexdigest()[:16]

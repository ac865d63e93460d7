"""Facts of a run for plan steps: bookies, cookies, AutoRecovery, under-replication marks, and findings."""

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
from auditor.model.states import WRITABLE_MODES, GcReason, MarkRowKind
from auditor.runs.change_status import statuses_in_order
from auditor.runs.reader import RunReader
from auditor.simulate.exposure import DependentLedger, find_dependent_ledgers, find_joint_holders
from auditor.simulate.windows import Longs

MAX_LEDGERS = 10_000
"""Largest number of ledgers that one step lists. A new plan is needed for further ledgers."""

_COOKIE_COLUMNS = (
    "layout", "bookie_host", "journal_dirs", "ledger_dirs", "index_dirs", "instance_id", "damage", "version",
)  # fmt: skip
MAX_FINGERPRINTS = 5
"""Largest number of fingerprints in a plan for the findings of one check in one step."""

EXCHANGE_CHECKS = ("disk-id-mismatch", "ledgers-in-wrong-directory")
"""Checks that find exchanged directories; a step stops the bookies and puts the directories back."""
INDEX_FAULTS = ("index-unreadable", "ledger-not-indexed")
"""Checks that find a damaged index; a step stops the bookie and rebuilds its index."""

FINDING_COLUMNS = (
    "id", "urgency", "confidence", "severity", "scope_id", "ledger_id", "bookie_id", "missing", "unknown",
    "evidence", "fingerprint",
)  # fmt: skip


@dataclass(slots=True)
class CheckFindings:
    """Findings of one check for one step. ``ledgers`` has the first `MAX_LEDGERS` of their ledgers."""

    id: str
    count: int = 0
    ledgers: list[int] = field(default_factory=list)
    fingerprints: list[str] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a finding. Keep its evidence if it is the first one."""
        if not self.count:
            self.evidence = json.loads(row["evidence"] or "{}")
        self.count += 1
        if len(self.fingerprints) < MAX_FINGERPRINTS:
            self.fingerprints.append(row["fingerprint"])
        if row["ledger_id"] is not None and len(self.ledgers) < MAX_LEDGERS:
            self.ledgers.append(row["ledger_id"])


class StepFindings(dict[str, CheckFindings]):
    """Findings for one step, by check id. ``are_confirmed`` is True if all of them are confirmed.

    ``urgency`` is the urgency of the most urgent finding. ``min_copies`` maps a ledger to a number of known
    copies: that of the entry with the fewest. It has no key for a ledger if no finding shows this number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_confirmed = True
        self.urgency = Urgency.NOT_URGENT
        self.min_copies: dict[int, int] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a finding to the group of its check. Update the urgency and the numbers of known copies."""
        self.setdefault(row["id"], CheckFindings(row["id"])).add(row)
        self.are_confirmed &= row["confidence"] == Confidence.CONFIRMED
        self.urgency = min(self.urgency, Urgency(row["urgency"]), key=lambda urgency: urgency.rank)
        if (copy_count := known_copies_left(row)) is not None and len(self.min_copies) < MAX_LEDGERS:
            self.min_copies[row["ledger_id"]] = min(
                copy_count, self.min_copies.get(row["ledger_id"], copy_count)
            )

    @property
    def ledgers(self) -> list[int]:
        """Return the ledgers of all groups, each once. Ledgers with the fewest known copies come first."""
        ledger_ids = dict.fromkeys(
            ledger for check_findings in self.values() for ledger in check_findings.ledgers
        )
        rank_of_unknown_copies = max(self.min_copies.values(), default=0) + 1
        return sorted(ledger_ids, key=lambda ledger: self.min_copies.get(ledger, rank_of_unknown_copies))

    def fewest_copies(self, ledgers: Iterable[int]) -> int | None:
        """Return the smallest number of known copies that an entry of these ledgers has. None if unknown."""
        return min((self.min_copies[ledger] for ledger in ledgers if ledger in self.min_copies), default=None)

    @property
    def count(self) -> int:
        """Return the number of findings."""
        return sum(check_findings.count for check_findings in self.values())

    def plan_findings(self) -> tuple[PlanFinding, ...]:
        """Return the findings in the form of a plan.

        For each check, the result has the number of findings and the first fingerprints.
        """
        return tuple(
            PlanFinding(check_findings.id, check_findings.count, tuple(check_findings.fingerprints))
            for check_findings in self.values()
        )

    def make_conditions(self, finding_state: str) -> tuple[Condition, ...]:
        """Return, for each fingerprint in the plan, the condition that its finding is ``finding_state``.

        ``finding_state`` is "there" or "gone".
        """
        return tuple(
            Condition(Fact.FINDING, f"{check_findings.id} {fingerprint}", finding_state)
            for check_findings in self.values()
            for fingerprint in check_findings.fingerprints
        )


def known_copies_left(row: Mapping[str, Any]) -> int | None:
    """Return how many known copies the worst entry of a finding has. None if the finding lacks this number.

    >>> known_copies_left({"ledger_id": 7, "evidence": '{"write_quorum": 3, "copies_missing_or_unknown": 2}'})
    1
    """
    finding_evidence = json.loads(row["evidence"] or "{}")
    if row["ledger_id"] is None or "copies_missing_or_unknown" not in finding_evidence:
        return None
    return max(int(finding_evidence["write_quorum"]) - int(finding_evidence["copies_missing_or_unknown"]), 0)


class PlanFacts:
    """The facts of a finished run that steps of all kinds need, and the bookies that steps stop or start.

    Memory grows with the numbers of bookies and of under-replication marks, not with the number of ledgers.
    """

    def __init__(self, run: RunReader) -> None:
        self.run = run
        self.facts = run.report.run
        self.bookies: dict[str, dict[str, Any]] = {
            row["bookie_id"]: row for row in run.table("bookies").to_pylist()
        }
        self.lost_bookies = sorted(
            bookie for bookie, row in self.bookies.items() if row["named"] and row["registered"] is None
        )
        self.writable_bookies = frozenset(
            bookie for bookie, row in self.bookies.items() if row["registered"] in WRITABLE_MODES
        )
        self.autorecovery_state: AutoRecoveryState = read_auto_recovery(run, self.lost_bookies)
        self.is_autorecovery_usable = (
            not self.autorecovery_state.blockers and not self.autorecovery_state.doubts
        )
        self.findings_to_copy: dict[str, StepFindings] = {}
        """Findings about bookies that should stop once their ledgers have other copies, by bookie."""
        self.starting_bookies: set[str] = set()
        """Bookies that are down and that a step starts. Their ledgers are not copied to other bookies."""
        self.planned_counts: Counter[str] = Counter()
        self.accepted_counts: Counter[str] = Counter()
        for check_tally in self.facts.tally:
            self.accepted_counts[check_tally["id"]] += check_tally["suppressed"]

    @cached_property
    def mark_times(self) -> MarkTimes:
        """Return the times of all under-replication marks, and the ledgers that a worker has locked."""
        return MarkTimes(self.run)

    def count_marks_by_bookie(self, bookies: Collection[str]) -> dict[str, tuple[int, list[int]]]:
        """Return, for each bookie, the number of ledgers marked under-replicated on it, and their ids.

        At most the first `MAX_LEDGERS` ids are returned. Bookies without such a ledger are left out.
        """
        marks_by_bookie: dict[str, tuple[int, list[int]]] = {}
        for batch in self.run.batches("tables/marks", ["kind", "ledger_id", "replicas"]) if bookies else ():
            marks = batch.filter(pc.equal(batch["kind"], MarkRowKind.MARK.value))
            mark_rows, replica_names = pc.list_parent_indices(marks["replicas"]), marks["replicas"].flatten()
            for bookie in bookies:
                rows = mark_rows.filter(pc.equal(replica_names, bookie))
                if len(rows):
                    marked_ids = marks["ledger_id"].take(rows).drop_null()
                    marked_count, marked_ids_of_bookie = marks_by_bookie.get(bookie, (0, []))
                    marked_ids_of_bookie += marked_ids[: MAX_LEDGERS - len(marked_ids_of_bookie)].to_pylist()
                    marks_by_bookie[bookie] = marked_count + len(marked_ids), marked_ids_of_bookie
        return marks_by_bookie

    @cached_property
    def cookie_digests(self) -> dict[str, str]:
        """Return the digest of each bookie's cookie in the store."""
        return {row["bookie_id"]: cookie_digest(row) for row in self.run.table("cookies").to_pylist()}

    @cached_property
    def planned_stops(self) -> StopSet:
        """Return the bookies that steps of this plan stop.

        Code that makes a step to stop a bookie checks this set first, and then adds the bookie.
        """
        stop_candidates = {
            row["bookie_id"]
            for row in self.rows_of_checks(*DANGEROUS_CHECKS, *EXCHANGE_CHECKS, *INDEX_FAULTS)
        }
        for row in self.rows_of_checks("entry-lost"):  # an index is rebuilt where logs have these entries
            entry_logs = json.loads(row["evidence"] or "{}").get("in_entry_logs") or ()
            stop_candidates |= {entry_log["bookie_id"] for entry_log in entry_logs}
        running_bookies = [
            bookie for bookie in stop_candidates if self.bookies.get(bookie, {}).get("registered") is not None
        ]
        return StopSet(find_joint_holders(self.run.directory, self._are_bookies_listed, running_bookies))

    @property
    def _are_bookies_listed(self) -> bool:
        """Return whether all cookies and registrations could be listed."""
        bookie_listing = self.facts.bookies_listed
        return bookie_listing is not None and bookie_listing["hidden"] is None

    @cached_property
    def dependent_ledgers(self) -> dict[int, DependentLedger]:
        """Return, by id, ledgers that may have an entry's last copy on a bookie in ``findings_to_copy``.

        ``findings_to_copy`` has findings about bookies that can stop only after their ledgers are copied. The
        result has at most `MAX_LEDGERS` ledgers. It is cached, so ``findings_to_copy`` must be complete at
        the first call.
        """
        if not self.findings_to_copy:
            return {}
        dependent_rows = find_dependent_ledgers(
            self.run.directory, self._are_bookies_listed, self.findings_to_copy, MAX_LEDGERS
        )
        return {dependent_ledger.ledger_id: dependent_ledger for dependent_ledger in dependent_rows}

    def find_last_copies_outside(self, ledgers: Sequence[int]) -> dict[int, list[str]]:
        """Return, by ledger id, bookies outside of the ledger's ensembles that have an entry's last copy.

        Ledgers without such a bookie are left out.
        """
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
    def exchanged_disk_findings(self) -> dict[str, StepFindings]:
        """Return the confirmed findings about exchanged disks or directories, by bookie."""
        findings_by_bookie: dict[str, StepFindings] = {}
        for row in self.rows_of_checks("disk-id-mismatch", "ledgers-in-wrong-directory"):
            finding_evidence = json.loads(row["evidence"] or "{}")
            reports_exchange = row["id"] == "disk-id-mismatch" or finding_evidence.get("exchanged")
            if (
                reports_exchange
                and row["confidence"] == Confidence.CONFIRMED
                and row["bookie_id"] is not None
            ):
                findings_by_bookie.setdefault(row["bookie_id"], StepFindings()).add(row)
        return findings_by_bookie

    @cached_property
    def bookies_with_unstored_copies(self) -> frozenset[str]:
        """Return the bookies that serve entries which their disks lack.

        These entries are lost if the bookie stops.
        """
        return frozenset(
            row["bookie_id"]
            for row in self.rows_of_checks("index-incomplete")
            if row["bookie_id"] is not None
        )

    def rows_of_checks(self, *check_ids: str) -> Iterable[dict[str, Any]]:
        """Yield the findings with these check ids.

        The key ``accepted`` of each finding is True if a suppression accepts the finding.
        """
        find_change_status = (
            statuses_in_order(self.run.path)
            if any(self.accepted_counts[check_id] for check_id in check_ids)
            else no_change_status
        )
        if any(self.run.report.counts.get(check_id) for check_id in check_ids):
            for batch in self.run.batches("findings", FINDING_COLUMNS, ds.field("id").isin(check_ids)):
                for row in batch.to_pylist():
                    change_status = find_change_status(row["fingerprint"])
                    yield row | {
                        "accepted": change_status is not None and change_status.suppressed is not None
                    }

    def findings_of_checks(self, *check_ids: str) -> Iterable[dict[str, Any]]:
        """Yield the findings with these check ids that no suppression accepts. They require a step."""
        return (row for row in self.rows_of_checks(*check_ids) if not row["accepted"])

    def group_by_bookie(self, *check_ids: str) -> dict[str, StepFindings]:
        """Return findings with these check ids by bookie. Count them as findings that have a plan step."""
        findings_by_bookie: dict[str, StepFindings] = {}
        for row in self.findings_of_checks(*check_ids):
            findings_by_bookie.setdefault(row["bookie_id"], StepFindings()).add(row)
            self.planned_counts[row["id"]] += 1
        return findings_by_bookie

    def count_findings_without_step(self) -> tuple[UnplannedCount, ...]:
        """Return, by check id, the number of findings without a plan step. Accepted ones do not count."""
        finding_counts = self.run.report.counts
        unplanned_counts = {
            check_id: finding_count - self.planned_counts[check_id] - self.accepted_counts[check_id]
            for check_id, finding_count in finding_counts.items()
        }
        return tuple(
            UnplannedCount(check_id, finding_count)
            for check_id, finding_count in unplanned_counts.items()
            if finding_count > 0
        )


class MarkTimes:
    """Under-replication marks and locks of a run. ``ids`` has the marked ledgers in ascending order."""

    def __init__(self, run: RunReader) -> None:
        marked_id_arrays, mark_time_arrays, locked_id_arrays = (
            [np.zeros(0, np.int64)],
            [np.zeros(0, np.int64)],
            [np.zeros(0, np.int64)],
        )
        for batch in run.batches("tables/marks", ["kind", "ledger_id", "ctime", "mtime", "misplaced"]):
            has_ledger_id = batch["ledger_id"].is_valid()
            is_mark = pc.and_(pc.equal(batch["kind"], MarkRowKind.MARK.value), has_ledger_id)
            marks = batch.filter(pc.and_(is_mark, pc.invert(pc.fill_null(batch["misplaced"], False))))
            marked_id_arrays.append(marks["ledger_id"].to_numpy())
            mark_time_column = pc.coalesce(marks["ctime"], marks["mtime"]).fill_null(-1)
            mark_time_arrays.append(mark_time_column.to_numpy(zero_copy_only=False))
            locks_of_batch = batch.filter(
                pc.and_(pc.equal(batch["kind"], MarkRowKind.LOCK.value), has_ledger_id)
            )
            locked_id_arrays.append(locks_of_batch["ledger_id"].to_numpy())
        id_order = np.argsort(np.concatenate(marked_id_arrays), kind="stable")
        self.ids: Longs = np.concatenate(marked_id_arrays)[id_order]
        self._mark_times: Longs = np.concatenate(mark_time_arrays)[id_order]
        self._locked_ids = frozenset(np.concatenate(locked_id_arrays).tolist())

    def mark_time(self, ledger: int) -> int | None:
        """Return the time (ms) of a ledger's replication mark. -1: unknown time. None: there is no mark."""
        id_position = int(np.searchsorted(self.ids, ledger))
        if id_position == len(self.ids) or self.ids[id_position] != ledger:
            return None
        return int(self._mark_times[id_position])

    def is_locked(self, ledger: int) -> bool:
        """Return whether a worker has locked the ledger."""
        return ledger in self._locked_ids


def cookie_digest(row: Mapping[str, Any]) -> str:
    """Return a digest of a cookie and its version, in 16 hex digits, from its row of the table ``cookies``.

    >>> cookie_digest(dict.fromkeys(_COOKIE_COLUMNS))
    '1ca5a0335ad41b65'
    """
    cookie_text = json.dumps([row[column] for column in _COOKIE_COLUMNS])
    return hashlib.sha256(cookie_text.encode()).hexdigest()[:16]

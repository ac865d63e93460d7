"""Rules that decide whether a finding about a live cluster is true or false: one rule per check.

The rules compare a finding with the state before and after its audit. It is false if both states contradict
it. It is also false if one state contradicts it and nothing in the finding can have changed. If the states
do not decide, the finding is open.

A finding is false under these conditions:

    entry-lost, below-ack-quorum,      a bookie serves an entry that the finding reports as missing there;
    below-write-quorum                 or the brute-force computation gives another class, and no unknown
                                       copy explains the difference; or the ledger changed between the scans
    over-replicated-ledger             the bookie is a member, or has no entry of the ledger
    stale-segment, surplus-entries     the bookie has no such entries
    orphan-ledger,                     the ledger has metadata after the audit
    orphan-ledger-deleting
    entries-past-end                   fewer bookies than the ack quorum have such an entry
    copy-lagging                       the ledger was closed all the time
    mark-of-deleted-ledger             the ledger has metadata after the audit
    mark-stale                         never: a mark can appear and vanish during the audit
    bookie-down, bookie-unread,        the bookie was up, registered and answering all the time
    on-unregistered-bookie,
    mark-missing
    too-few-writable-bookies,          all bookies were up, registered and answering all the time
    ledger-unavailable, no-auditor,
    no-replication-workers
    every other                        always: a healthy cluster has no such fault
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from proofs.living.truth import SERVED, Look
from tests.corpora.audited import entries
from tests.corpora.brute_force import members

Finding = dict[str, Any]


class Verdict(StrEnum):
    TRUE = "true"
    FALSE = "false"
    OPEN = "open"


@dataclass(frozen=True)
class Outage:
    """A time in which a bookie was down, stopped or just back, in seconds since 1970."""

    bookie: str
    began: float
    ended: float


@dataclass(frozen=True)
class AuditContext:
    """The facts around an audit: the states before and after it, and the events during it.

    ``moved`` has the ledgers whose metadata version changed between the two scans of the audit. ``unlisted``
    has the bookies that cannot list entries, so an audit by RPC cannot read them.
    """

    before: Look
    after: Look
    outages: Sequence[Outage] = ()
    moved: frozenset[int] = frozenset()
    unlisted: frozenset[str] = frozenset()

    @property
    def looks(self) -> tuple[Look, Look]:
        return self.before, self.after

    def still(self, ledger: int) -> bool:
        """Return whether the ledger has the same metadata version before and after the audit."""
        versions = [look.store.versions.get(ledger) for look in self.looks]
        return versions[0] is not None and versions[0] == versions[1]

    def was_out(self, bookie: str) -> bool:
        unregistered = any(bookie not in look.store.registered for look in self.looks)
        return unregistered or any(
            outage.bookie == bookie and outage.began <= self.after.began and outage.ended >= self.before.ended
            for outage in self.outages
        )


Rule = Callable[[Finding, AuditContext], Verdict]


def verdict(finding: Finding, around: AuditContext) -> Verdict:
    """Return whether a finding is true. A confirmed finding about a ledger in ``around.moved`` is false.

    The checks in `MAY_MOVE` are excepted.
    """
    ledger = finding["ledger_id"]
    if finding["confidence"] == "confirmed" and ledger in around.moved and finding["id"] not in MAY_MOVE:
        return Verdict.FALSE
    return RULES.get(finding["id"], _never)(finding, around)


def _never(_: Finding, __: AuditContext) -> Verdict:
    return Verdict.FALSE


def _missing(finding: Finding, around: AuditContext) -> Verdict:
    """Check every entry that the finding reports as missing, on the bookie that should have it."""
    ledger = finding["ledger_id"]
    claims = [(part["bookie_id"], entry) for part in finding["missing"] for entry in entries(part["groups"])]
    letters = [_letters(ledger, bookie, entry, around) for bookie, entry in claims]
    if any(answers == {SERVED} for answers in letters):
        return Verdict.FALSE
    if not around.still(ledger) or any(not answers or SERVED in answers for answers in letters):
        return Verdict.OPEN
    classes = {look.classes.get(ledger) for look in around.looks} - {None}
    return Verdict.TRUE if not classes or classes & _possible_classes(finding) else Verdict.FALSE


CLASSES = ("below-write-quorum", "below-ack-quorum", "entry-lost")
"""Checks of missing copies, the mildest class first."""


def _possible_classes(finding: Finding) -> set[str]:
    """Return a finding's class, and the worse classes that unknown copies make possible."""
    if not finding["unknown"]:
        return {finding["id"]}
    return set(CLASSES[CLASSES.index(finding["id"]) :])


def _letters(ledger: int, bookie: str, entry: int, around: AuditContext) -> set[str]:
    letters = [look.letter(ledger, bookie, entry) for look in around.looks]
    # If the ledger did not change, one answer is enough. Otherwise both states must have answers.
    answers = {letter for letter in letters if letter is not None}
    return answers if around.still(ledger) or None not in letters else set()


def _over_replicated(finding: Finding, around: AuditContext) -> Verdict:
    return _judge_nonmember_copy(finding["ledger_id"], finding["bookie_id"], around)


def _in_flight(finding: Finding, around: AuditContext) -> Verdict:
    """Check each copy of the ledger that the finding covers."""
    copies = json.loads(finding["evidence"])["copies"]
    verdicts = {_judge_nonmember_copy(finding["ledger_id"], copy["bookie_id"], around) for copy in copies}
    return next(choice for choice in (Verdict.FALSE, Verdict.OPEN, Verdict.TRUE) if choice in verdicts)


def _judge_nonmember_copy(ledger: int, bookie: str, around: AuditContext) -> Verdict:
    looks = [look for look in around.looks if ledger in look.store.ledgers]
    if not looks:
        return Verdict.OPEN
    if not around.still(ledger):
        return Verdict.OPEN  # a bookie may leave an ensemble and return between two looks
    member = any(bookie in members(look.store.ledgers[ledger]) for look in looks)
    is_holder = any(look.holds_any(ledger, bookie) for look in looks)
    return Verdict.FALSE if member or not is_holder else Verdict.TRUE


def _extra(where: Callable[[Look], set[tuple[int, str]]]) -> Rule:
    """Return a rule for extra entries of one ledger on a bookie, or of a whole bookie."""

    def rule(finding: Finding, around: AuditContext) -> Verdict:
        ledger, bookie = finding["ledger_id"], finding["bookie_id"]
        has_extra = [
            any(on == bookie and ledger in (None, id) for id, on in where(look)) for look in around.looks
        ]
        if any(has_extra):
            return Verdict.TRUE
        return Verdict.OPEN if ledger is None or not around.still(ledger) else Verdict.FALSE

    return rule


def _without_metadata(finding: Finding, around: AuditContext) -> Verdict:
    """Check that the ledger has no metadata after the audit.

    Ledger ids are never reused. A ledger that has metadata afterwards also had them during the audit.
    """
    return Verdict.FALSE if finding["ledger_id"] in around.after.store.versions else Verdict.TRUE


def _mark_without_metadata(finding: Finding, around: AuditContext) -> Verdict:
    sample = {int(ledger) for ledger in json.loads(finding["evidence"])["sample"]}
    return Verdict.FALSE if sample & around.after.store.versions.keys() else Verdict.TRUE


def _past_end(finding: Finding, around: AuditContext) -> Verdict:
    ledger = finding["ledger_id"]
    if ledger is None or not around.still(ledger) or ledger not in around.after.store.closed():
        return Verdict.OPEN
    past_end = [look.acknowledged_past_end(ledger) for look in around.looks]
    return Verdict.TRUE if all(past_end) else Verdict.OPEN if any(past_end) else Verdict.FALSE


def _lagging(finding: Finding, around: AuditContext) -> Verdict:
    ledger = finding["ledger_id"]
    closed = [ledger in look.store.closed() for look in around.looks]
    return Verdict.FALSE if all(closed) else Verdict.TRUE


def _marked(finding: Finding, around: AuditContext) -> Verdict:
    ledger = finding["ledger_id"]
    marks = around.before.store.marks | around.after.store.marks
    has_mark = ledger in marks if ledger is not None else bool(marks)
    return Verdict.TRUE if has_mark else Verdict.OPEN  # a mark may appear and vanish during the audit


def _out(finding: Finding, around: AuditContext) -> Verdict:
    bookie = finding["bookie_id"]
    out = around.was_out(bookie) or (finding["id"] == "bookie-unread" and bookie in around.unlisted)
    return Verdict.TRUE if out else Verdict.FALSE


def _any_out(_: Finding, around: AuditContext) -> Verdict:
    """Check that a bookie was down. Only then can a healthy cluster lack bookies, an auditor or workers."""
    bookies = {outage.bookie for outage in around.outages}
    bookies |= {bookie for look in around.looks for bookie in look.store.registered}
    return Verdict.TRUE if any(map(around.was_out, bookies)) else Verdict.FALSE


MAY_MOVE = ("orphan-ledger-deleting",)

RULES: dict[str, Rule] = {
    "entry-lost": _missing,
    "below-ack-quorum": _missing,
    "below-write-quorum": _missing,
    "over-replicated-ledger": _over_replicated,
    "copy-in-flight": _in_flight,
    "stale-segment": _extra(lambda look: look.stale_on),
    "surplus-entries": _extra(lambda look: look.surplus_on),
    "orphan-ledger": _without_metadata,
    "orphan-ledger-deleting": _without_metadata,
    "entries-past-end": _past_end,
    "copy-lagging": _lagging,
    "mark-stale": _marked,
    "mark-unknown-replica": _marked,
    "mark-of-deleted-ledger": _mark_without_metadata,
    "bookie-down": _out,
    "on-unregistered-bookie": _out,
    "mark-missing": _out,
    "bookie-unread": _out,
    "too-few-writable-bookies": _any_out,
    "ledger-unavailable": _any_out,
    "no-auditor": _any_out,
    "no-replication-workers": _any_out,
}

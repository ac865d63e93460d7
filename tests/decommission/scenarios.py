"""Clusters in which each ledger is a case of its own, and the result of ``decommissionbookie`` for each.

A letter stands for a bookie: x is decommissioned, y is already down, z goes with x; others stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.model.decommission import Answer, Cause

MOVED, RENAMED, STAYED = "moved", "renamed", "stayed"
DONE, NOT_DONE, WAITING = "done", "not done", "waiting"
FIRST_BURNT = 101
"""The number of the first ledger of those that a fire is for."""

ENFORCED = "enforceMinNumRacksPerWriteQuorum"


@dataclass(frozen=True)
class Case:
    """A ledger: its ensemble in letters, quorums and entries; its second member does not hold ``lacks``.

    ``outcome`` is `MOVED`, `RENAMED` (it has no entry there), or the cause that keeps it.
    """

    name: str
    ensemble: str
    write_quorum: int
    ack_quorum: int
    entries: int
    outcome: str
    open: bool = False
    lacks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """A cluster: its racks by letter, its ledgers, and the bookies that leave or are down."""

    racks: Mapping[str, str]
    cases: tuple[Case, ...]
    going: str = "x"
    down: str = ""
    ends: tuple[str, ...] = (DONE,)
    answer: Answer = Answer.NOW
    settings: Mapping[str, str | int] = field(default_factory=dict)
    placement: str = "rack"
    deleted: tuple[str, ...] = ()
    """Cases whose ledger is deleted once the bookies are down."""
    one_by_one: bool = False
    disabled: bool = False
    """AutoRecovery is switched off for the whole cluster."""
    burns: bool = False
    """Before anybody goes, the rack of p and q burns (`tests.decommission.fire`)."""


SCENARIOS = {
    "one by one": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "x": "/r1", "z": "/r3"},
        (
            Case("both, two copies", "xz", 2, 2, 12, Cause.ONLY_COPY),
            Case("striped over both", "zxb", 2, 2, 25, Cause.ONLY_COPY),
            Case("one of them", "xbc", 2, 2, 25, MOVED),
        ),
        going="xz",
        ends=(DONE, DONE),
        answer=Answer.AFTER,
        one_by_one=True,
    ),
    "mixed": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1", "y": "/r3"},
        (
            Case("plain, E = Qw", "xbc", 3, 2, 10, MOVED),
            Case("striped, E > Qw", "xbc", 2, 2, 30, MOVED),
            Case("Qw 1 (bookkeeper 4872)", "x", 1, 1, 5, Cause.ONLY_COPY),
            Case("Qw 1, striped", "xbc", 1, 1, 9, Cause.ONLY_COPY),
            Case("an unreadable entry (3887)", "xb", 2, 2, 10, Cause.UNREADABLE_ENTRY, lacks=(4,)),
            Case("open, covered", "xbc", 3, 2, 7, MOVED, open=True),
            Case("open, not covered", "xb", 2, 1, 7, Cause.NO_QUORUM_COVERAGE, open=True),
            Case("all bookies in its ensemble (3905, 4012)", "xabcd", 3, 2, 20, Cause.NO_SPARE_BOOKIE),
            Case("closed and empty (3220)", "xbc", 3, 2, 0, RENAMED),
            Case("short, nothing there", "abcx", 2, 2, 1, RENAMED),
            Case("the absent bookie's alone", "yab", 3, 2, 10, MOVED),
            Case("both copies on those", "xy", 2, 2, 6, Cause.ABSENT),
            Case("striped over both", "xya", 2, 2, 9, Cause.ABSENT),
            Case("both, and two copies left", "xycd", 3, 2, 20, MOVED),
            Case("open and empty", "xbc", 3, 2, 0, MOVED, open=True),
            Case("a copy short of it elsewhere, striped", "xbc", 2, 2, 12, MOVED, lacks=(4,)),
        ),
        down="y",
        ends=(WAITING,),
        answer=Answer.NEVER,
    ),
    "clean": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1"},
        (
            Case("plain, E = Qw", "xbc", 3, 2, 10, MOVED),
            Case("striped, E > Qw", "xbc", 2, 2, 47, MOVED),
            Case("open, covered", "xbc", 3, 2, 7, MOVED, open=True),
            Case("closed and empty (3220)", "xbc", 3, 2, 0, RENAMED),
            Case("short, nothing there", "abcx", 2, 2, 1, RENAMED),
            Case("deleted meanwhile (3316)", "xbc", 3, 2, 10, MOVED),
            Case("one copy short of it elsewhere", "xbc", 3, 2, 10, MOVED, lacks=(3,)),
        ),
        # The command ends, and closes an open ledger under its writer: so the gate asks to wait for it.
        answer=Answer.AFTER,
        deleted=("deleted meanwhile (3316)",),
    ),
    "together": Scenario(
        {"a": "/r1", "b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1", "z": "/r3"},
        (
            Case("both, two copies", "xz", 2, 2, 12, Cause.ONLY_COPY),
            Case("both, three copies", "xza", 3, 2, 12, MOVED),
            Case("both of an ack quorum, open", "xzb", 3, 2, 5, Cause.NO_QUORUM_COVERAGE, open=True),
            Case("one of them", "xbc", 2, 2, 25, MOVED),
            Case("two spares too few", "xzabc", 3, 2, 10, Cause.NO_SPARE_BOOKIE),
        ),
        going="xz",
        ends=(WAITING, WAITING),
        answer=Answer.NEVER,
    ),
    "racks enforced": Scenario(
        {"b": "/r2", "c": "/r3", "d": "/r2", "x": "/r1"},
        (
            Case("spare in a rack of the rest", "xbc", 3, 2, 10, Cause.NO_ALLOWED_SPARE),
            Case("spare in a third rack", "xb", 2, 2, 30, MOVED),
            Case("spare in another rack", "xc", 2, 2, 30, MOVED),
        ),
        ends=(WAITING,),
        answer=Answer.NEVER,
        settings={ENFORCED: "true"},
        placement=f"rack,{ENFORCED}=true",
    ),
    "switched off": Scenario(
        {"a": "/r1", "b": "/r2", "x": "/r1", "p": "/r9", "q": "/r9"},
        (Case("plain", "xb", 2, 2, 10, STAYED), Case("Qw 1", "xb", 1, 1, 10, Cause.ONLY_COPY)),
        ends=(NOT_DONE,),
        answer=Answer.NEVER,
        disabled=True,
        burns=True,
    ),
}
"""By name, the one that takes longest first."""

"""State of AutoRecovery, and which ledgers can be read, derived from one scan of the metadata.

AutoRecovery leaves three traces in the store. (1) Each of its processes has an ephemeral vote. The process
with the lowest vote is the auditor. (2) The auditor writes a mark for each ledger that lacks a copy. (3) A
worker locks a ledger while it copies entries of this ledger. Workers do not register themselves, but each
process with a vote also runs a worker (``AutoRecoveryMain``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, TypedDict

from auditor.model.amounts import plural
from auditor.model.json_shape import Count, about

DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairState:
    """State of AutoRecovery and its queue, and numbers of ledgers that depend on bookies that are down.

    Times are in ms since 1970. ``sees_autorecovery`` is False if the store has no replication queue, or if
    the queue was not read completely. In that case, the fields from ``auditor`` to ``last_check`` have no
    meaning.

    Attributes:
        auditor: bookie id in the lowest live vote. None if there is no live vote.
        auditor_down: True if the auditor's id is that of a known bookie that is certainly not registered.
        votes: number of live votes, one for each process of AutoRecovery.
        disabled: True if replication is switched off. ``disabled_since`` is None if the store keeps no
            times.
        delay_s: lostBookieRecoveryDelay in seconds. None if it is not set or not readable.
        last_check: time when the newest check by the server, of any kind, ended. None if none has ended.
        age_ms: age of the cluster in ms. None if the store keeps no times.
        registered: number of registered bookies. ``writable`` is the number of those that accept writes.
        knows_registrations: False for saved metadata without any registration. Such metadata may have been
            saved when no session existed.
        queued: number of ledgers with an under-replication mark. ``oldest`` is the time of the oldest mark,
            or None without marks.
        queued_since: number of marked ledgers whose mark was created after the scan of the previous run. 0
            if there is no previous run.
        locked: number of ledgers that a worker has locked.
        depending: number of ledgers with entries, or the last segment of an unclosed ledger, on a bookie that
            is down.
        waiting: number of ledgers that are marked or that depend on a bookie that is down.
        smallest_ensemble: size of the smallest ensemble among ledgers that are open or less than a week
            old. If there are no such ledgers, among all ledgers. 0 if it is unknown.
        largest_ensemble: size of the largest ensemble of the same ledgers.
        unavailable: number of ledgers with an entry that no registered bookie of the ensemble can serve.
        unrecoverable: number of further ledgers that are not closed and that recovery cannot close.
        single_copy: number of further ledgers with an entry that only one registered bookie can serve,
            because other bookies of the ensemble are down.
        down: bookies that ledgers depend on and that are certainly not registered, in ascending order.
    """

    sees_autorecovery: bool = False
    auditor: str | None = None
    auditor_down: bool = False
    votes: int = 0
    disabled: bool = False
    disabled_since: int | None = None
    delay_s: int | None = None
    last_check: int | None = None
    age_ms: int | None = None
    registered: int = 0
    writable: int = 0
    knows_registrations: bool = False
    queued: int = 0
    oldest: int | None = None
    queued_since: int = 0
    locked: int = 0
    depending: int = 0
    waiting: int = 0
    smallest_ensemble: int = 0
    largest_ensemble: int = 0
    unavailable: int = 0
    unrecoverable: int = 0
    single_copy: int = 0
    down: tuple[str, ...] = ()

    @property
    def unmarked(self) -> int:
        """Number of waiting ledgers without an under-replication mark.

        Workers copy only ledgers that BookKeeper's auditor has marked.
        """
        return max(self.waiting - self.queued, 0)


class RepairFacts(TypedDict):
    """State of AutoRecovery, and ledgers that can be read, in the form of report.json.

    The fields are described in `RepairState`. Times are in ms since 1970. ``repaired_per_hour`` and
    ``remaining_ms`` are null if they cannot be estimated from an earlier run.
    """

    sees_autorecovery: Annotated[bool, about("whether votes, marks and settings of AutoRecovery were read")]
    auditor: Annotated[str | None, about("bookie id in the auditor's vote")]
    auditor_down: Annotated[bool, about("whether that bookie is known, but not registered")]
    votes: Annotated[Count, about("number of AutoRecovery processes; each runs a worker")]
    disabled: Annotated[bool, about("whether replication is switched off")]
    disabled_since: int | None
    delay_s: Annotated[int | None, about("lostBookieRecoveryDelay, seconds")]
    last_check: Annotated[
        int | None, about("time when the newest server-side check ended (ms since 1970, UTC)")
    ]
    age_ms: Annotated[int | None, about("age of the cluster in ms")]
    registered: Count
    writable: Count
    knows_registrations: Annotated[
        bool,
        about(
            "false: the metadata was saved without any registration, so it is unknown which bookies are down"
        ),
    ]
    queued: Annotated[Count, about("number of ledgers marked for re-replication")]
    oldest: Annotated[int | None, about("time of the oldest mark for re-replication (ms since 1970, UTC)")]
    queued_since: Annotated[Count, about("number of ledgers marked since the previous run")]
    locked: Annotated[Count, about("number of ledgers that a worker has locked")]
    depending: Annotated[Count, about("number of ledgers that need a bookie that is down")]
    waiting: Annotated[Count, about("number of ledgers that are marked, or that need a bookie that is down")]
    smallest_ensemble: Annotated[Count, about("smallest ensemble of open or recent ledgers; 0: not known")]
    largest_ensemble: Annotated[Count, about("largest ensemble of open or recent ledgers; 0: not known")]
    unavailable: Annotated[
        Count, about("number of ledgers with an entry that no registered bookie of its ensemble can serve")
    ]
    unrecoverable: Annotated[
        Count, about("number of further ledgers that are not closed and that recovery cannot close")
    ]
    single_copy: Annotated[
        Count, about("number of further ledgers with an entry that only one registered bookie can serve")
    ]
    down: Annotated[list[str], about("unregistered bookies that ledgers need")]
    repaired_per_hour: Annotated[
        float | None, about("number of marks per hour that were removed since the previous run")
    ]
    remaining_ms: Annotated[int | None, about("estimated time until the queue is empty, in ms")]


def waiting_text(state: RepairState) -> str:
    """Return a sentence about the number of waiting ledgers, without a full stop.

    >>> waiting_text(RepairState(waiting=15, queued=4)), waiting_text(RepairState())
    ('15 ledgers wait for re-replication, 11 of them unmarked', 'no ledger waits for re-replication')
    """
    if not state.waiting:
        return "no ledger waits for re-replication"
    unmarked_text = f", {state.unmarked:,} of them unmarked" if state.unmarked else ""
    return f"{plural(state.waiting, 'ledger waits', 'ledgers wait')} for re-replication{unmarked_text}"


def single_copy_text(state: RepairState) -> str:
    """Return a sentence about the ledgers with one reachable copy. Call it only if there are such ledgers.

    >>> single_copy_text(RepairState(single_copy=15, down=("bk-5:3181",)))
    '15 ledgers have one reachable copy: bk-5:3181 is down'
    >>> single_copy_text(RepairState(single_copy=15, down=("bk-5:3181", "bk-6:3181")))
    '15 ledgers have one reachable copy: 2 bookies are down'
    """
    ledgers_text = plural(state.single_copy, "ledger has", "ledgers have")
    bookies_text = (
        f"{state.down[0]} is down" if len(state.down) == 1 else f"{len(state.down)} bookies are down"
    )
    return f"{ledgers_text} one reachable copy: {bookies_text}"


def repair_facts(
    state: RepairState, scan_time: int, previous_facts: tuple[RepairFacts, int] | None
) -> RepairFacts:
    """Return the repair state in the form of a report, with the rate of repair since the previous run.

    The rate is based on the number of removed under-replication marks: the marks of the previous run, plus
    the marks created since then, minus the present marks. Marks that were both created and removed between
    the two runs are not counted. The rate is therefore a lower bound.

    Args:
        state: state in the current run.
        scan_time: scan time of the current run, in ms.
        previous_facts: facts and scan time (in ms) of the previous run. None if there is no previous run.
    """
    fields_of_state: dict[str, Any] = {field.name: getattr(state, field.name) for field in fields(state)}
    fields_of_state["down"] = list(state.down)
    repairs_per_hour, remaining_ms = None, None
    if previous_facts is not None and state.sees_autorecovery and previous_facts[0]["sees_autorecovery"]:
        elapsed_ms = scan_time - previous_facts[1]
        repaired = previous_facts[0]["queued"] + state.queued_since - state.queued
        if elapsed_ms > 0 and repaired > 0:
            repairs_per_hour = round(repaired * 3_600_000 / elapsed_ms, 1)
            remaining_ms = round(state.queued * elapsed_ms / repaired) if state.queued else None
    # mypy does not see that the fields of RepairState are keys of RepairFacts.
    rates = {"repaired_per_hour": repairs_per_hour, "remaining_ms": remaining_ms}
    facts: RepairFacts = {**fields_of_state, **rates}  # type: ignore[typeddict-item]
    return facts

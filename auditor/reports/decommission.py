"""Renderers of the rehearsal of a decommission: text for a terminal or a pipe, and JSON."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from auditor.model.amounts import and_more, duration, first_names, format_time, plural, size
from auditor.model.decommission import Answer, Blocker, Cause, CopyLoad, Rehearsal, Work
from auditor.reports.plain_text import fold_text, labelled, printable, text_table

DECOMMISSION_SCHEMA = "bookkeeper-auditor/decommission/3"
WIDTH = 80
_LOADS_SHOWN = 10
_NAMES_SHOWN = 5
COMMAND = "bkaudit decommission RUN BOOKIE"
"""Command that a page shows if the caller gives no command."""

HOLDS_SHOWN = 3
"""Largest number of holds in the text. JSON has all holds."""

ANSWER_TEXTS = {
    Answer.NOW: "may go now",
    Answer.AFTER: "not yet",
    Answer.NEVER: "refused",
    Answer.UNKNOWN: "not known",
}

CAUSE_TEXTS = {
    Cause.HELD: (
        "holds of the run forbid it",
        "remove the reason of each hold, and audit again",
    ),
    Cause.LAST_SERVED: (
        "entries whose other copies are on bookies that are down",
        "start these bookies again first, and audit again",
    ),
    Cause.OPEN_LEDGERS: (
        "recovery would fence the writers of open ledgers",
        "make the bookie read-only, and audit again once these ledgers are closed or written elsewhere",
    ),
    Cause.DOUBT: (
        "unconfirmed holds of the run forbid it",
        "audit again with the missing sources, such as the directories of unread bookies",
    ),
    Cause.NO_HOLDS: (
        "an earlier version of the program made this run, without holds",
        "audit again",
    ),
    Cause.DATA_TOO_OLD: (
        "the data of this run is more than 24 hours old",
        "audit again",
    ),
    Cause.DATA_OF_FUTURE: (
        "the data of this run is newer than the current time, so that its age is not known",
        "set the clocks right, and audit again",
    ),
    Cause.NO_EARLIER_RUN: (
        "no earlier run of this cluster with all checks was found, so that the holds of "
        "earlier runs are unknown",
        "run a second audit in the parent directory of this run",
    ),
    Cause.CHECKS_NOT_RUN: (
        "checks that could forbid the removal were left out or are less careful than by " "default",
        "audit again with all checks",
    ),
    Cause.ONLY_COPY: (
        "entries that no other bookie of the ensemble has, so the command would wait for ever",
        "while the bookie runs, copy each ledger with `bookkeeper shell recover -l LEDGER BOOKIE`, or "
        "let its application delete it",
    ),
    Cause.UNREADABLE: (
        "an entry that no remaining bookie has keeps its whole segment in place",
        "while the bookie runs, copy each ledger with `bookkeeper shell recover -l LEDGER BOOKIE`, or "
        "give the ledger up",
    ),
    Cause.NO_SPARE: (
        "fewer writable bookies outside the ensemble than members that leave it",
        "add a bookie, or let a read-only one write again",
    ),
    Cause.NO_ADMISSIBLE: (
        "the placement policy rejects every spare bookie",
        "add a bookie in another rack, or to the ledgers' groups; or loosen the policy of AutoRecovery",
    ),
    Cause.NO_COVERAGE: (
        "ledgers that are not closed, and too few bookies of their last ensembles would answer recovery",
        "while the bookie runs, let the writer of each ledger close it, or read it to its end",
    ),
    Cause.ABSENT: (
        "ledgers that can move only after unregistered bookies are back",
        "start these bookies again first",
    ),
    Cause.REPLICATION_OFF: (
        "AutoRecovery is switched off: the command fails immediately",
        "find out who switched it off and why: `bkaudit explain check replication-disabled`",
    ),
    Cause.NO_AUDITOR: (
        "AutoRecovery runs on no bookie that stays: the command fails immediately",
        "find out why it runs nowhere else (`bkaudit explain check no-auditor`)",
    ),
    Cause.IDLE_WORKERS: (
        "the queue does not move: marks are old, and no worker holds one",
        "find out why the workers stopped: `bkaudit explain check no-replication-workers`",
    ),
    Cause.NO_MARKS: (
        "this store keeps no marks, so that no Auditor works with it",
        "copy its ledgers with `bookkeeper shell recover BOOKIE`",
    ),
}  # fmt: skip
"""Explanation of each cause why a bookie must stay, and the way to remove the cause."""


def decommission_text(rehearsal: Rehearsal, command: str = COMMAND, width: int = WIDTH) -> str:
    """Return the page of a rehearsal.

    Args:
        rehearsal: The answer for all bookies together, and for each bookie alone.
        command: The command that made the rehearsal. Hints add options to it, for complete tables.
        width: Columns of a line. Commands are never folded.

    Returns:
        The answer, holds and blockers, the work of AutoRecovery, what remains, and the run that the answer
            rests on.
    """
    trial = rehearsal.together
    lines = fold_text(_verdict_sentence(rehearsal), width)
    if trial.holds:
        lines += ["", *_hold_lines(rehearsal, width)]
    for blocker in trial.blockers:
        lines += ["", *_blocker_lines(blocker, command, width)]
    for doubt in trial.doubts:
        number = f": {doubt.number:,}" if doubt.number else ""
        lines += ["", *labelled("not known", doubt.what + number, width)]
    lines += [
        "",
        *_single_trial_lines(rehearsal, width),
        *_work_lines(rehearsal, width),
        *_load_lines(trial.loads),
    ]
    lines += ["", *_remaining_lines(rehearsal, width), "", *_basis_lines(rehearsal, width)]
    lines += ["", *_command_lines(rehearsal, width)]
    return "\n".join(lines)


def decommission_json(rehearsal: Rehearsal) -> str:
    """Return the rehearsal as one JSON object."""
    json_head = {"schema": DECOMMISSION_SCHEMA, "answer": rehearsal.answer, "exit_code": rehearsal.exit_code}
    return json.dumps(json_head | asdict(rehearsal), indent=2, ensure_ascii=False)


def _name_list(bookies: Sequence[str]) -> str:
    return printable(first_names(bookies, _NAMES_SHOWN))


def _verdict_sentence(rehearsal: Rehearsal) -> str:
    """Return one line with the answer, its first reason and the exit code."""
    trial = rehearsal.together
    reason = ""
    if trial.holds and rehearsal.answer is not Answer.NOW:
        first = trial.holds[0]
        message = first.message.removeprefix(f"{first.key}: ")
        reason = f" {message[:1].upper()}{message[1:]} ({first.reason})."
    elif trial.blockers:
        reason = f" {_blocker_section(trial.blockers[0])}."
    names = _name_list(rehearsal.bookies)
    return f"decommission {names}: {ANSWER_TEXTS[rehearsal.answer]}.{reason} (exit {rehearsal.exit_code})"


def _hold_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    """Yield the most important holds, the condition that lifts each, and commands that show the rest."""
    holds = rehearsal.together.holds
    for number, hold in enumerate(holds[:HOLDS_SHOWN]):
        doubt = "" if hold.certain else ", unconfirmed"
        yield from labelled("" if number else "holds", f"{hold.message} ({hold.reason}{doubt})", width)
        yield from labelled("", f"lifted when {hold.lifted_when}", width)
    if (hidden_count := len(holds) - HOLDS_SHOWN) > 0:
        names = rehearsal.bookies[:_NAMES_SHOWN]
        yield from labelled("", f"{hidden_count:,} more:", width)
        for name in names:
            yield (
                f"{'':<11}bkaudit explain bookie {shlex.quote(printable(name))} --run "
                f"{shlex.quote(printable(rehearsal.run))}"
            )


def _blocker_lines(blocker: Blocker, command: str, width: int) -> Iterator[str]:
    _, remedy = CAUSE_TEXTS[blocker.cause]
    yield from fold_text(f"{blocker.cause}: {_blocker_section(blocker)}", width, later="  ")
    if blocker.topics:
        topics = ", ".join(f"{topic.topic} ({topic.ledgers:,})" for topic in blocker.topics)
        yield from labelled("topics", topics, width, indent="  ", columns=9)
    if blocker.samples:
        names = [
            sample.ledger_id if sample.scope_id == "0" else f"{sample.scope_id}/{sample.ledger_id}"
            for sample in blocker.samples
        ]
        ledger_list = first_names(names, len(names), blocker.ledgers)
        yield from labelled("ledgers", ledger_list, width, indent="  ", columns=9)
        if blocker.ledgers > len(names):
            yield from labelled("", "this command prints all:", width, indent="  ", columns=9)
            yield f"  {'':<9}{printable(command)} --format csv"
    yield from labelled("way out", remedy, width, indent="  ", columns=9)


def _blocker_section(blocker: Blocker) -> str:
    blocker_text, _ = CAUSE_TEXTS[blocker.cause]
    count = f"{plural(blocker.ledgers, 'ledger')}; " if blocker.ledgers else ""
    detail_clause = f" ({blocker.detail})" if blocker.detail else ""
    return f"{count}{blocker_text}{detail_clause}"


def _single_trial_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    if not rehearsal.alone:
        return
    if rehearsal.together.answer is Answer.NOW:
        yield "they may go together"
    elif rehearsal.order:
        yield from fold_text(f"one by one they may go, in this order: {', '.join(rehearsal.order)}", width)
        yield from fold_text("make the others read-only meanwhile, or ledgers are copied to them", width)
    else:
        answer_texts = (
            f"{trial.bookies[0]} alone: {ANSWER_TEXTS[trial.answer]}" for trial in rehearsal.alone
        )
        yield from fold_text("; ".join(answer_texts), width)
    yield ""


def _work_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    trial = rehearsal.together
    work, candidates = trial.work, trial.candidates
    copied_text = f"{plural(work.ledgers, 'ledger')}, {plural(work.fragments, 'segment')}"
    yield from labelled("moves", copied_text if work.ledgers else "nothing", width)
    if work.ledgers:
        yield from labelled("copies", _copies_text(work), width)
    if work.open_ends:
        work_text = (
            f"{plural(work.open_ends, 'ledger')} not closed: a worker waits 30 s, fences and "
            "closes each ledger despite its writer, and copies the last entries too"
        )
        yield from labelled("open", work_text, width)
    if candidates.least is not None:
        few_spares_text = (
            f"{candidates.least:,}"
            if candidates.least == candidates.most
            else f"{candidates.least:,} to {candidates.most:,}"
        )
        spare_noun = "spare" if candidates.most == 1 else "spares"
        fewest_spares_text = plural(candidates.ledgers_with_least, "ledger has", "ledgers have")
        few_spares_text = f"{few_spares_text} {spare_noun} of a ledger"
        yield from labelled(
            "targets", f"{few_spares_text}; {fewest_spares_text} only {candidates.least:,}", width
        )
    if trial.along:
        absent_names = _name_list(rehearsal.absent)
        work_text = f"{plural(trial.along, 'ledger')} of {absent_names}, not registered, move with them"
        yield from labelled("along", work_text, width)
    yield from labelled("time", _time_text(rehearsal), width)


def _copies_text(work: Work) -> str:
    copies_text = (
        f"striping needs {work.needed:,}, the server makes {work.copied:,} ({size(work.copied_bytes)}"
    )
    copies_text += f", and {work.unsized:,} of unknown size)" if work.unsized else ")"
    if work.copied > work.needed:
        copies_text += ": if E > Qw, it also copies the entries in between to each new bookie"
    return copies_text


def _time_text(rehearsal: Rehearsal) -> str:
    workers = plural(rehearsal.workers, "worker")
    if rehearsal.seconds is None:
        return (
            f"unknown: pass --rate, the copy rate of one of {workers}"
            if rehearsal.workers
            else "no worker stays"
        )
    return (
        f"about {duration(rehearsal.seconds)} with {workers}; then up to 5 min until the command looks again"
    )


def _load_lines(loads: Sequence[CopyLoad]) -> Iterator[str]:
    if not loads:
        return
    sorted_loads = sorted(loads, key=lambda load: (-load.entries_written, -load.entries_read, load.bookie_id))
    rows = [
        (
            printable(load.bookie_id), f"{load.entries_read:,}", size(load.bytes_read),
            f"{load.entries_written:,}", size(load.bytes_written),
        )
        for load in sorted_loads[:_LOADS_SHOWN]
    ]  # fmt: skip
    yield ""
    yield from text_table(("bookie", "reads", "bytes", "writes", "bytes"), rows)
    yield from and_more(len(sorted_loads) - _LOADS_SHOWN, "; --format json has all")


def _remaining_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    """Yield what is left after the command has ended: names of the bookies, and data on their disks."""
    work = rehearsal.together.work
    if work.renamed:
        words = (
            f"{plural(work.renamed, 'ledger')} without an entry there: the command does not wait for these, "
            "and workers replace the bookie in their ensembles later"
        )
        if work.renamed_stuck:
            words += (
                f"; {plural(work.renamed_stuck, 'has no spare and keeps it', 'have no spare and keep it')}"
            )
        yield from labelled("named by", words, width)
    if rehearsal.mapping_origin:
        words = f"the mapping of racks ({rehearsal.mapping_origin}), until somebody edits the mapping"
        yield from labelled("named by", words, width)
    words = (
        "its disks; copies from failed attempts on bookies that no ensemble names; readers with open ledgers"
    )
    yield from labelled("remain", words, width)


def _basis_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    policy = f"policy {rehearsal.policy}" + (
        f" ({rehearsal.policy_origin})"
        if rehearsal.policy_origin
        else ", because none was given: any spare is accepted"
    )
    basis_text = f"{rehearsal.run}, as of {format_time(rehearsal.scan_time)}; {policy}; "
    basis_text += plural(rehearsal.spares, "spare")
    yield from labelled("rests on", printable(basis_text), width)


def _command_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    commands = rehearsal.commands
    if rehearsal.answer in (Answer.NEVER, Answer.UNKNOWN) or not commands:
        yield from fold_text(
            "no command yet: solve the problems above, audit, and run this command again", width
        )
        return
    if rehearsal.answer is Answer.AFTER:
        yield "after the steps above:"
    live_bookies = [
        registration.bookie_id for registration in rehearsal.registered if registration.mode is not None
    ]
    if rehearsal.order and rehearsal.together.answer is Answer.NEVER:
        yield "each in turn: stop it, and wait until its command has ended"
    elif live_bookies:
        yield from fold_text(f"stop {_name_list(live_bookies)}, then, each in turn:", width)
    for command in commands[:_NAMES_SHOWN]:
        yield f"  {printable(command)}"
    yield from and_more(len(commands) - _NAMES_SHOWN, indent="  ")

"""Renderers of the rehearsal of a decommission: text for a terminal or a pipe, and JSON."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from auditor.model.amounts import and_more, duration, first_names, format_time, plural, size
from auditor.model.decommission import Answer, Blocker, Cause, CopyLoad, CopyWork, Rehearsal
from auditor.reports.plain_text import fold_text, labelled_lines, printable, text_table

DECOMMISSION_SCHEMA = "bookkeeper-auditor/decommission/3"
WIDTH = 80
_MAX_LOADS_SHOWN = 10
_MAX_NAMES_SHOWN = 5
DEFAULT_COMMAND = "bkaudit decommission RUN BOOKIE"
"""Command that a page shows if the caller gives no command."""

MAX_HOLDS_SHOWN = 3
"""Largest number of holds in the text. JSON has all holds."""

ANSWER_TEXTS = {
    Answer.NOW: "can be removed now",
    Answer.AFTER: "not yet",
    Answer.NEVER: "refused",
    Answer.UNKNOWN: "unknown",
}

CAUSE_TEXTS = {
    Cause.PROVED_HOLD: (
        "holds of this run forbid the removal",
        "fix the cause of each hold, and audit again",
    ),
    Cause.LAST_SERVED: (
        "all other copies of some entries are on bookies that are down",
        "start these bookies again first, and audit again",
    ),
    Cause.OPEN_LEDGERS: (
        "recovery would fence the writers of open ledgers",
        "make the bookie read-only, and audit again once these ledgers are closed or written elsewhere",
    ),
    Cause.DOUBTFUL_HOLD: (
        "unconfirmed holds of this run forbid the removal",
        "audit again and add the missing sources, such as directories of bookies that were not read",
    ),
    Cause.RUN_LACKS_HOLDS: (
        "an earlier version of bkaudit, which did not record holds, made this run",
        "audit again",
    ),
    Cause.DATA_TOO_OLD: (
        "the data of this run is more than 24 hours old",
        "audit again",
    ),
    Cause.DATA_OF_FUTURE: (
        "the data of this run is newer than the current time, so its age is unknown",
        "correct the clocks, and audit again",
    ),
    Cause.NO_EARLIER_RUN: (
        "no earlier run of this cluster with all checks was found, so the holds of earlier runs are unknown",
        "run a second audit in the parent directory of this run",
    ),
    Cause.CHECKS_NOT_RUN: (
        "checks that could forbid the removal were excluded or are less careful than by default",
        "audit again with all checks",
    ),
    Cause.ONLY_COPY: (
        "some entries are on no other bookie of the ensemble, so the command would wait forever",
        "while the bookie runs, copy each ledger with `bookkeeper shell recover -l LEDGER BOOKIE`, or "
        "let the application delete it",
    ),
    Cause.UNREADABLE_ENTRY: (
        "an entry of a segment is on no remaining bookie, so the whole segment cannot move",
        "while the bookie runs, copy each ledger with `bookkeeper shell recover -l LEDGER BOOKIE`, or "
        "abandon the ledger",
    ),
    Cause.NO_SPARE_BOOKIE: (
        "more members leave an ensemble than there are writable bookies outside it",
        "add a bookie, or make a read-only bookie writable again",
    ),
    Cause.NO_ALLOWED_SPARE: (
        "the placement policy rejects every spare bookie",
        "add a bookie in another rack or in the ledgers' groups, or relax AutoRecovery's placement policy",
    ),
    Cause.NO_QUORUM_COVERAGE: (
        "recovery cannot close these ledgers: too few bookies of their last ensembles would respond",
        "while the bookie runs, let the writer close each ledger, or read each ledger to its end",
    ),
    Cause.ABSENT: (
        "these ledgers can move only after unregistered bookies are back",
        "start these bookies again first",
    ),
    Cause.REPLICATION_OFF: (
        "AutoRecovery is disabled, so the command fails immediately",
        "find out who disabled it and why (`bkaudit explain check replication-disabled`)",
    ),
    Cause.NO_AUDITOR: (
        "AutoRecovery does not run on any remaining bookie, so the command fails immediately",
        "find out why it does not run elsewhere (`bkaudit explain check no-auditor`)",
    ),
    Cause.IDLE_WORKERS: (
        "re-replication makes no progress: the marks are old, and no worker has locked a ledger",
        "find out why the workers stopped (`bkaudit explain check no-replication-workers`)",
    ),
    Cause.NO_MARKS: (
        "this store does not support under-replication marks, so the Auditor cannot work with it",
        "copy the bookie's ledgers with `bookkeeper shell recover BOOKIE`",
    ),
}  # fmt: skip
"""Explanation of each cause why a bookie must stay, and the way to remove the cause."""


def decommission_text(rehearsal: Rehearsal, command: str = DEFAULT_COMMAND, width: int = WIDTH) -> str:
    """Return the page of a rehearsal.

    Args:
        rehearsal: The answer for all bookies together, and for each bookie alone.
        command: The command that made the rehearsal. Hints show it with further options, for complete
            tables.
        width: Columns of a line. Commands are never folded.

    Returns:
        The answer, the holds (rules that forbid the decommission) and blockers, the work for AutoRecovery,
            what remains afterwards, and the run on which the answer is based.
    """
    joint_trial = rehearsal.together
    lines = fold_text(_verdict_sentence(rehearsal), width)
    if joint_trial.holds:
        lines += ["", *_hold_lines(rehearsal, width)]
    for blocker in joint_trial.blockers:
        lines += ["", *_blocker_lines(blocker, command, width)]
    for doubt in joint_trial.doubts:
        number_clause = f": {doubt.number:,}" if doubt.number else ""
        lines += ["", *labelled_lines("not known", doubt.what + number_clause, width)]
    lines += [
        "",
        *_single_trial_lines(rehearsal, width),
        *_work_lines(rehearsal, width),
        *_copy_load_lines(joint_trial.loads),
    ]
    lines += ["", *_remaining_lines(rehearsal, width), "", *_basis_lines(rehearsal, width)]
    lines += ["", *_command_lines(rehearsal, width)]
    return "\n".join(lines)


def decommission_json(rehearsal: Rehearsal) -> str:
    """Return the rehearsal as one JSON object."""
    json_head = {"schema": DECOMMISSION_SCHEMA, "answer": rehearsal.answer, "exit_code": rehearsal.exit_code}
    return json.dumps(json_head | asdict(rehearsal), indent=2, ensure_ascii=False)


def _name_list(bookies: Sequence[str]) -> str:
    return printable(first_names(bookies, _MAX_NAMES_SHOWN))


def _verdict_sentence(rehearsal: Rehearsal) -> str:
    """Return one line with the answer, its first reason and the exit code."""
    joint_trial = rehearsal.together
    reason_text = ""
    if joint_trial.holds and rehearsal.answer is not Answer.NOW:
        first_action_hold = joint_trial.holds[0]
        message = first_action_hold.message.removeprefix(f"{first_action_hold.key}: ")
        reason_text = f" {message[:1].upper()}{message[1:]} ({first_action_hold.reason})."
    elif joint_trial.blockers:
        reason_text = f" {_blocker_text(joint_trial.blockers[0])}."
    names = _name_list(rehearsal.bookies)
    return (
        f"decommission {names}: {ANSWER_TEXTS[rehearsal.answer]}.{reason_text} (exit {rehearsal.exit_code})"
    )


def _hold_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    """Yield the main holds (forbidding rules), the condition that lifts each, and commands for the rest."""
    action_holds = rehearsal.together.holds
    for number, action_hold in enumerate(action_holds[:MAX_HOLDS_SHOWN]):
        unconfirmed_clause = "" if action_hold.certain else ", unconfirmed"
        yield from labelled_lines(
            "" if number else "holds",
            f"{action_hold.message} ({action_hold.reason}{unconfirmed_clause})",
            width,
        )
        yield from labelled_lines("", f"lifted when {action_hold.lifted_when}", width)
    if (hidden_count := len(action_holds) - MAX_HOLDS_SHOWN) > 0:
        names = rehearsal.bookies[:_MAX_NAMES_SHOWN]
        yield from labelled_lines("", f"{hidden_count:,} more:", width)
        for name in names:
            yield (
                f"{'':<11}bkaudit explain bookie {shlex.quote(printable(name))} --run "
                f"{shlex.quote(printable(rehearsal.run))}"
            )


def _blocker_lines(blocker: Blocker, command: str, width: int) -> Iterator[str]:
    _, remedy = CAUSE_TEXTS[blocker.cause]
    yield from fold_text(f"{blocker.cause}: {_blocker_text(blocker)}", width, later_indent="  ")
    if blocker.topics:
        topics_text = ", ".join(f"{topic.topic} ({topic.ledgers:,})" for topic in blocker.topics)
        yield from labelled_lines("topics", topics_text, width, indent="  ", columns=9)
    if blocker.samples:
        names = [
            sample_ledger.ledger_id
            if sample_ledger.scope_id == "0"
            else f"{sample_ledger.scope_id}/{sample_ledger.ledger_id}"
            for sample_ledger in blocker.samples
        ]
        ledger_list = first_names(names, len(names), blocker.ledgers)
        yield from labelled_lines("ledgers", ledger_list, width, indent="  ", columns=9)
        if blocker.ledgers > len(names):
            yield from labelled_lines("", "to print all of them, run:", width, indent="  ", columns=9)
            yield f"  {'':<9}{printable(command)} --format csv"
    yield from labelled_lines("way out", remedy, width, indent="  ", columns=9)


def _blocker_text(blocker: Blocker) -> str:
    cause_text, _ = CAUSE_TEXTS[blocker.cause]
    count_clause = f"{plural(blocker.ledgers, 'ledger')}; " if blocker.ledgers else ""
    cause_detail = f" ({blocker.detail})" if blocker.detail else ""
    return f"{count_clause}{cause_text}{cause_detail}"


def _single_trial_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    if not rehearsal.alone:
        return
    if rehearsal.together.answer is Answer.NOW:
        yield "these bookies can be removed together"
    elif rehearsal.order:
        yield from fold_text(f"remove them one by one, in this order: {', '.join(rehearsal.order)}", width)
        yield from fold_text(
            "meanwhile, make the other bookies read-only; otherwise ledgers are copied to them", width
        )
    else:
        answer_texts = (
            f"{bookie_trial.bookies[0]} alone: {ANSWER_TEXTS[bookie_trial.answer]}"
            for bookie_trial in rehearsal.alone
        )
        yield from fold_text("; ".join(answer_texts), width)
    yield ""


def _work_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    joint_trial = rehearsal.together
    copy_work, spare_counts = joint_trial.work, joint_trial.candidates
    moved_ledgers_text = f"{plural(copy_work.ledgers, 'ledger')}, {plural(copy_work.fragments, 'segment')}"
    yield from labelled_lines("moves", moved_ledgers_text if copy_work.ledgers else "nothing", width)
    if copy_work.ledgers:
        yield from labelled_lines("copies", _copies_text(copy_work), width)
    if copy_work.open_ends:
        ledgers_text = (
            f"{plural(copy_work.open_ends, 'ledger')} not closed. A worker waits 30 s, then fences and "
            "closes each ledger despite its writer, and copies its last entries too"
        )
        yield from labelled_lines("open", ledgers_text, width)
    if spare_counts.least is not None:
        spares_text = (
            f"{spare_counts.least:,}"
            if spare_counts.least == spare_counts.most
            else f"{spare_counts.least:,} to {spare_counts.most:,}"
        )
        spare_noun = "spare" if spare_counts.most == 1 else "spares"
        ledgers_with_fewest_text = plural(spare_counts.ledgers_with_least, "ledger has", "ledgers have")
        spares_text = f"{spares_text} {spare_noun} for each ledger"
        yield from labelled_lines(
            "targets", f"{spares_text}; {ledgers_with_fewest_text} only {spare_counts.least:,}", width
        )
    if joint_trial.along:
        absent_names = _name_list(rehearsal.absent)
        ledgers_text = f"{plural(joint_trial.along, 'ledger')} on {absent_names} (not registered) also move"
        yield from labelled_lines("along", ledgers_text, width)
    yield from labelled_lines("time", _time_text(rehearsal), width)


def _copies_text(copy_work: CopyWork) -> str:
    copied_bytes_text = size(copy_work.copied_bytes)
    copies_text = (
        f"striping needs {copy_work.needed:,} copies; the server makes {copy_work.copied:,} "
        f"({copied_bytes_text}"
    )
    copies_text += f", and {copy_work.unsized:,} of unknown size)" if copy_work.unsized else ")"
    if copy_work.copied > copy_work.needed:
        copies_text += (
            ": if E > Qw, each new bookie also gets the entries that striping assigns to other bookies"
        )
    return copies_text


def _time_text(rehearsal: Rehearsal) -> str:
    workers = plural(rehearsal.workers, "worker")
    if rehearsal.seconds is None:
        return (
            f"unknown: pass --rate, the copy rate of one of {workers}"
            if rehearsal.workers
            else "no worker remains"
        )
    return (
        f"about {duration(rehearsal.seconds)} with {workers}, then up to 5 min until the command checks again"
    )


def _copy_load_lines(copy_loads: Sequence[CopyLoad]) -> Iterator[str]:
    if not copy_loads:
        return
    largest_loads = sorted(
        copy_loads,
        key=lambda copy_load: (-copy_load.entries_written, -copy_load.entries_read, copy_load.bookie_id),
    )
    rows = [
        (
            printable(copy_load.bookie_id), f"{copy_load.entries_read:,}", size(copy_load.bytes_read),
            f"{copy_load.entries_written:,}", size(copy_load.bytes_written),
        )
        for copy_load in largest_loads[:_MAX_LOADS_SHOWN]
    ]  # fmt: skip
    yield ""
    yield from text_table(("bookie", "reads", "bytes", "writes", "bytes"), rows)
    yield from and_more(len(largest_loads) - _MAX_LOADS_SHOWN, "; --format json lists all")


def _remaining_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    """Yield what remains after the command: records that still name the bookies, and data on their disks."""
    copy_work = rehearsal.together.work
    if copy_work.renamed:
        remaining_text = (
            f"{plural(copy_work.renamed, 'ledger')} without an entry on it: the command does not wait for "
            "these; workers replace the bookie in their ensembles later"
        )
        if copy_work.renamed_stuck:
            stuck_text = plural(
                copy_work.renamed_stuck,
                "ledger has no spare bookie and still names it",
                "ledgers have no spare bookie and still name it",
            )
            remaining_text += f"; {stuck_text}"
        yield from labelled_lines("named by", remaining_text, width)
    if rehearsal.mapping_origin:
        remaining_text = f"the rack mapping ({rehearsal.mapping_origin}), until somebody edits it"
        yield from labelled_lines("named by", remaining_text, width)
    remaining_text = (
        "the bookie's disks; copies that failed attempts left on bookies outside the ensembles; readers "
        "with open ledgers"
    )
    yield from labelled_lines("remain", remaining_text, width)


def _basis_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    policy_text = f"policy {rehearsal.policy}" + (
        f" ({rehearsal.policy_origin})"
        if rehearsal.policy_origin
        else ", because none was given; any spare is accepted"
    )
    basis_text = f"{rehearsal.run}, as of {format_time(rehearsal.scan_time)}; {policy_text}; "
    basis_text += plural(rehearsal.spares, "spare")
    yield from labelled_lines("rests on", printable(basis_text), width)


def _command_lines(rehearsal: Rehearsal, width: int) -> Iterator[str]:
    commands = rehearsal.commands
    if rehearsal.answer in (Answer.NEVER, Answer.UNKNOWN) or not commands:
        yield from fold_text(
            "no command yet: solve the problems above, audit again, and repeat this command", width
        )
        return
    if rehearsal.answer is Answer.AFTER:
        yield "after the steps above:"
    registered_bookies = [
        registration.bookie_id for registration in rehearsal.registered if registration.mode is not None
    ]
    if rehearsal.order and rehearsal.together.answer is Answer.NEVER:
        yield from fold_text(
            "for each bookie in turn, stop it, run its command, and wait until the command ends:",
            width,
        )
    elif registered_bookies:
        yield from fold_text(
            f"stop all of these bookies: {_name_list(registered_bookies)}. Then run the commands one after "
            "another:",
            width,
        )
    for command in commands[:_MAX_NAMES_SHOWN]:
        yield f"  {printable(command)}"
    yield from and_more(len(commands) - _MAX_NAMES_SHOWN, indent="  ")

"""A rehearsed decommissioning: text for a terminal or a pipe, JSON, and what that JSON's schema is."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from auditor.model.amounts import and_more, duration, first_names, format_time, plural, size
from auditor.model.decommission import Answer, Blocker, Cause, CopyLoad, Rehearsal, Work
from auditor.reports.plain_text import fold_text, labelled, printable, text_table

DECOMMISSION_SCHEMA = "bookkeeper-auditor/decommission/1"
_WIDTH = 80
_LOADS_SHOWN = 10
_NAMES_SHOWN = 5

ANSWERS = {
    Answer.NOW: "may go now",
    Answer.AFTER: "not yet",
    Answer.NEVER: "may not go as things are",
    Answer.UNKNOWN: "not known",
}

CAUSES = {
    Cause.ONLY_COPY: (
        "entries that no other bookie of the ensemble has; the command waits for ever",
        "while it runs, `bookkeeper shell recover -l LEDGER BOOKIE` copies each; or delete the ledger",
    ),
    Cause.UNREADABLE: (
        "an entry that every bookie that stays lacks keeps its whole segment where it is",
        "while it runs, `bookkeeper shell recover -l LEDGER BOOKIE` copies each; or give it up",
    ),
    Cause.NO_SPARE: (
        "fewer writable bookies outside the ensemble than go of it",
        "add a bookie, or let a read-only one write again",
    ),
    Cause.NO_ADMISSIBLE: (
        "there are spares, and the placement policy takes none of them",
        "add a bookie in another rack, or to the ledgers' groups; or loosen the policy of AutoRecovery",
    ),
    Cause.NO_COVERAGE: (
        "not closed, and recovery would get no answer from an ack quorum of its last ensemble",
        "let its writer close it, or read it to its end, while the bookie runs",
    ),
    Cause.ABSENT: (
        "they would move if bookies that are not registered were back",
        "start these bookies again first",
    ),
    Cause.REPLICATION_OFF: (
        "AutoRecovery is switched off: the command fails at once",
        "`bookkeeper shell autorecovery -enable`",
    ),
    Cause.NO_AUDITOR: (
        "AutoRecovery runs on no bookie that stays: the command fails at once",
        "start AutoRecovery on a bookie that stays",
    ),
    Cause.IDLE_WORKERS: (
        "the queue does not move: marks are old, and no worker holds one",
        "start replication workers, or find out why they stopped",
    ),
    Cause.NO_MARKS: (
        "this store keeps no marks, so that no Auditor works with it",
        "copy its ledgers with `bookkeeper shell recover BOOKIE`",
    ),
}  # fmt: skip
"""What each cause is, and the way out."""


def decommission_text(rehearsal: Rehearsal) -> str:
    """The answer, what is in the way, what it takes, what remains, and what all of it rests on."""
    trial = rehearsal.together
    lines = fold_text(f"{_names(rehearsal.bookies)}: {ANSWERS[rehearsal.answer]}", _WIDTH)
    for blocker in trial.blockers:
        lines += ["", *_blocker(blocker)]
    for doubt in trial.doubts:
        number = f": {doubt.number:,}" if doubt.number else ""
        lines += ["", *labelled("not known", doubt.what + number, _WIDTH)]
    lines += ["", *_one_by_one(rehearsal), *_work(rehearsal), *_loads(trial.loads)]
    lines += ["", *_remains(rehearsal), "", *_basis(rehearsal)]
    lines += ["", *_commands(rehearsal)]
    return "\n".join(lines)


def decommission_json(rehearsal: Rehearsal) -> str:
    """One object with all of it."""
    head = {"schema": DECOMMISSION_SCHEMA, "answer": rehearsal.answer, "exit_code": rehearsal.exit_code}
    return json.dumps(head | asdict(rehearsal), indent=2, ensure_ascii=False)


def _names(bookies: Sequence[str]) -> str:
    return printable(first_names(bookies, _NAMES_SHOWN))


def _blocker(blocker: Blocker) -> Iterator[str]:
    what, way_out = CAUSES[blocker.cause]
    count = f"{plural(blocker.ledgers, 'ledger')}; " if blocker.ledgers else ""
    detail = f" ({blocker.detail})" if blocker.detail else ""
    yield from fold_text(f"{blocker.cause}: {count}{what}{detail}", _WIDTH, later="  ")
    if blocker.topics:
        topics = ", ".join(f"{each.topic} ({each.ledgers:,})" for each in blocker.topics)
        yield from labelled("topics", topics, _WIDTH, indent="  ", columns=9)
    if blocker.samples:
        names = [
            each.ledger_id if each.scope_id == "0" else f"{each.scope_id}/{each.ledger_id}"
            for each in blocker.samples
        ]
        listed = first_names(names, len(names), blocker.ledgers)
        yield from labelled("ledgers", listed, _WIDTH, indent="  ", columns=9)
    yield from labelled("way out", way_out, _WIDTH, indent="  ", columns=9)


def _one_by_one(rehearsal: Rehearsal) -> Iterator[str]:
    if not rehearsal.alone:
        return
    if rehearsal.together.answer is Answer.NOW:
        yield "they may go together"
    elif rehearsal.order:
        yield from fold_text(f"one by one they may go, in this order: {', '.join(rehearsal.order)}", _WIDTH)
        yield from fold_text("let the others be read-only meanwhile, or they are copied to", _WIDTH)
    else:
        words = (f"{each.bookies[0]} alone: {ANSWERS[each.answer]}" for each in rehearsal.alone)
        yield from fold_text("; ".join(words), _WIDTH)
    yield ""


def _work(rehearsal: Rehearsal) -> Iterator[str]:
    trial = rehearsal.together
    work, found = trial.work, trial.candidates
    moves = f"{plural(work.ledgers, 'ledger')}, {plural(work.fragments, 'segment')}"
    yield from labelled("moves", moves if work.ledgers else "nothing", _WIDTH)
    if work.ledgers:
        yield from labelled("copies", _copies(work), _WIDTH)
    if work.open_ends:
        words = (
            f"{plural(work.open_ends, 'ledger')} not closed: a worker waits 30 s, fences and closes it under "
            "its writer, and copies its last entries too"
        )
        yield from labelled("open", words, _WIDTH)
    if found.least is not None:
        few = f"{found.least:,}" if found.least == found.most else f"{found.least:,} to {found.most:,}"
        spares = "spare" if found.most == 1 else "spares"
        least = plural(found.ledgers_with_least, "ledger has", "ledgers have")
        few = f"{few} {spares} of a ledger"
        yield from labelled("targets", f"{few}; {least} only {found.least:,}", _WIDTH)
    if trial.along:
        words = (
            f"{plural(trial.along, 'ledger')} of {_names(rehearsal.absent)}, not registered, move with them"
        )
        yield from labelled("along", words, _WIDTH)
    yield from labelled("time", _time(rehearsal), _WIDTH)


def _copies(work: Work) -> str:
    words = f"striping needs {work.needed:,}, the server makes {work.copied:,} ({size(work.copied_bytes)}"
    words += f", and {work.unsized:,} of unknown size)" if work.unsized else ")"
    if work.copied > work.needed:
        words += ": where E > Qw it copies what lies between, too, to each bookie that comes in"
    return words


def _time(rehearsal: Rehearsal) -> str:
    workers = plural(rehearsal.workers, "worker")
    if rehearsal.seconds is None:
        return f"--rate says how fast one of {workers} copies" if rehearsal.workers else "no worker stays"
    return (
        f"about {duration(rehearsal.seconds)} with {workers}; then up to 5 min until the command looks again"
    )


def _loads(loads: Sequence[CopyLoad]) -> Iterator[str]:
    if not loads:
        return
    ordered = sorted(loads, key=lambda each: (-each.entries_written, -each.entries_read, each.bookie_id))
    rows = [
        (
            printable(each.bookie_id), f"{each.entries_read:,}", size(each.bytes_read),
            f"{each.entries_written:,}", size(each.bytes_written),
        )
        for each in ordered[:_LOADS_SHOWN]
    ]  # fmt: skip
    yield ""
    yield from text_table(("bookie", "reads", "bytes", "writes", "bytes"), rows)
    yield from and_more(len(ordered) - _LOADS_SHOWN, "; --format json has all")


def _remains(rehearsal: Rehearsal) -> Iterator[str]:
    """What will name the bookies, or hold of them, once the command has ended."""
    work = rehearsal.together.work
    if work.renamed:
        words = (
            f"{plural(work.renamed, 'ledger')} without an entry there: not waited for, workers replace the "
            "name later"
        )
        if work.renamed_stuck:
            words += (
                f"; {plural(work.renamed_stuck, 'has no spare and keeps it', 'have no spare and keep it')}"
            )
        yield from labelled("named by", words, _WIDTH)
    if rehearsal.mapping_origin:
        words = f"the mapping of racks ({rehearsal.mapping_origin}), until somebody edits it"
        yield from labelled("named by", words, _WIDTH)
    words = "disks; copies of failed tries on bookies that no ensemble names; readers with open ledgers"
    yield from labelled("remain", words, _WIDTH)


def _basis(rehearsal: Rehearsal) -> Iterator[str]:
    policy = f"policy {rehearsal.policy}" + (
        f" ({rehearsal.policy_origin})"
        if rehearsal.policy_origin
        else ", which nobody gave: any spare will do"
    )
    words = f"{rehearsal.run}, as of {format_time(rehearsal.scan_time)}; {policy}; "
    words += plural(rehearsal.spares, "spare")
    yield from labelled("rests on", printable(words), _WIDTH)


def _commands(rehearsal: Rehearsal) -> Iterator[str]:
    if rehearsal.answer in (Answer.NEVER, Answer.UNKNOWN):
        yield "no command yet: see to what stands above, audit, and ask again"
        return
    if rehearsal.answer is Answer.AFTER:
        yield "once what stands above is done:"
    live = [each.bookie_id for each in rehearsal.registered if each.mode is not None]
    if rehearsal.order and rehearsal.together.answer is Answer.NEVER:
        yield "each in turn: stop it, and wait until its command has ended"
    elif live:
        yield from fold_text(f"stop {_names(live)}, then, each in turn:", _WIDTH)
    order = rehearsal.order or rehearsal.bookies
    # Without the flag it is the local bookie that goes; an id in its place is ignored (pulsar 21607).
    for bookie in order[:_NAMES_SHOWN]:
        yield f"  bookkeeper shell decommissionbookie -bookieid {printable(bookie)}"
    yield from and_more(len(order) - _NAMES_SHOWN, indent="  ")

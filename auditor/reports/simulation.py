"""Renderers of simulated failures. Text and JSON name only the first ledgers and owners, tables name all."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from auditor.model.amounts import first_names, plural, size
from auditor.model.report_source import NO_OWNER_LABEL, NOBODY
from auditor.model.simulation import (
    YES,
    Amount,
    Balance,
    BookieLoad,
    Bounds,
    Copysets,
    DiskLoad,
    Failure,
    LevelLoss,
    NearLoss,
    Outcome,
    OwnerLoss,
    Simulation,
    WriteAnswer,
)
from auditor.reports.coverage import doubtful_ids_line
from auditor.reports.layout import LabelledText, NameTable, PagePart, UnfoldedCommand, lay_out
from auditor.reports.plain_text import printable, shorten

SIMULATION_SCHEMA = "bookkeeper-auditor/simulation/2"
WIDTH = 80
DEFAULT_COMMAND = "bkaudit simulate RUN"
"""Command that a page shows if the caller does not pass a command."""

MAX_ROWS = 20
"""Largest number of bookies, racks or regions in a text. The costliest losses come first."""
_LABEL_COLUMNS = 20
_MAX_NAMES_SHOWN = 3
_MAX_NAME_CHARACTERS = 60

_LEGEND = (
    "lost: ledgers that lose an entry, based on the current indexes. bytes: size of these entries. "
    "all copies: ledgers that lose an entry even if no copy is missing now. <Qa, <Qw: ledgers "
    "below ack quorum, below write quorum. open: ledgers that recovery could not close. "
    "3-5: between 3 and 5, because some copies are unknown."
)


def text(
    simulation: Simulation, width: int = WIDTH, command: str = DEFAULT_COMMAND, whole_names: bool = False
) -> str:
    """Return the page: the inputs of the simulation, then the effects of one failure or of all failures.

    Args:
        simulation: The result of the simulation.
        width: Columns of a line.
        command: The command that ran the simulation. Hints show it with options that print complete tables.
        whole_names: Whether names in tables are never shortened.
    """
    return "\n".join(lay_out(_page_parts(simulation, command), width, _LABEL_COLUMNS, whole_names))


def _page_parts(simulation: Simulation, command: str) -> Iterator[PagePart]:
    yield from _inputs_parts(simulation)
    if simulation.failure is not None:
        yield ""
        yield from _failure_parts(simulation.failure)
        yield from _write_parts(simulation.writes, command)
        yield from _affected_parts(simulation, command)
    if simulation.failure is None and simulation.levels:
        yield ""
        yield from _near_loss_parts(simulation.levels)
        for level in simulation.levels:
            yield ""
            yield from _single_failure_parts(level, command)
        yield from ("", _LEGEND)
    for level in simulation.levels:
        yield from _failure_set_parts(level)
    if simulation.copysets is not None:
        yield ""
        yield from _copyset_parts(simulation.copysets)
    if simulation.balance is not None:
        yield ""
        yield from _balance_parts(simulation.balance, command)
    if simulation.failure is None and simulation.writes:
        yield ""
        yield from _write_parts(simulation.writes, command)


def to_json(simulation: Simulation) -> str:
    """Return the result of a simulation as one JSON object. Ledger and scope ids are decimal strings."""
    return json.dumps({"schema": SIMULATION_SCHEMA, **asdict(simulation)}, indent=2, ensure_ascii=False)


def near_loss_sentences(levels: Iterable[NearLoss]) -> list[str]:
    """Return a sentence for each level, such as rack, on the ledgers that one failure would damage.

    >>> near_loss_sentences([NearLoss("rack", Amount(3, 40, 900), 1, ("r2",), 0)])
    ['3 ledgers (rack r2)']
    """
    clauses = []
    for level in levels:
        if level.found.ledgers:
            names = first_names([*map(printable, level.names)], _MAX_NAMES_SHOWN, level.domains)
            level_text = f"{level.level} {names if level.names else 'not known'}"
            clauses.append(f"{plural(level.found.ledgers, 'ledger')} ({level_text})")
    return clauses


def possible_loss_sentences(levels: Iterable[NearLoss]) -> list[str]:
    """Return a sentence by level, such as rack, on ledgers with unknown copies that one failure may damage.

    >>> possible_loss_sentences([NearLoss("bookie", Amount(1, 40, 900), 1, ("bk1",), 15)])
    ['15 more ledgers may lose an entry if one bookie fails: copies are unknown']
    """
    return [
        f"{plural(level.perhaps, 'more ledger')} may lose an entry if one {level.level} fails: "
        "copies are unknown"
        for level in levels
        if level.perhaps
    ]


def _inputs_parts(simulation: Simulation) -> Iterator[PagePart]:
    """Yield the placement policy and the locations that the simulation used, and its unknown inputs."""
    doubts = simulation.doubts
    policy_text = f"policy {simulation.policy}" + (
        f" ({simulation.policy_origin})" if simulation.policy_origin else ""
    )
    mapping_text = (
        f"locations from {simulation.mapping}"
        if simulation.mapping
        else "no locations are known; pass --racks FILE"
    )
    yield LabelledText("placement", f"{policy_text}; {mapping_text}")
    yield LabelledText("ledgers", f"{doubts.ledgers:,}, {doubts.not_closed:,} of them not closed")
    doubt_texts = []
    if doubts.undecided:
        doubt_texts.append(f"{plural(doubts.undecided, 'ledger')} not counted: they could not be judged")
    if doubts.gaps:
        doubt_texts.append(f"at least {plural(doubts.gaps, 'metadata path')} could not be read")
    if doubts.in_doubt:
        doubt_texts.append(f"ledgers may exist that could not be read: {doubtful_ids_line(doubts.in_doubt)}")
    if doubts.unread:
        doubt_texts.append(f"{plural(len(doubts.unread), 'bookie')} not read: {_names_text(doubts.unread)}")
    if simulation.mapping and doubts.unplaced:
        doubt_texts.append(
            f"{plural(len(doubts.unplaced), 'bookie')} without a location: {_names_text(doubts.unplaced)}"
        )
    if not doubts.registered:
        doubt_texts.append("which bookies respond, and whether writes continue: no bookie is registered")
    if doubts.not_closed:
        doubt_texts.append("entries and bytes at the end of ledgers that are not closed")
    for number, sentence in enumerate(doubt_texts):
        yield LabelledText("unknown" if not number else "", sentence)


def _near_loss_parts(levels: Sequence[LevelLoss]) -> Iterator[PagePart]:
    near_loss_text = near_loss_sentences(level.near for level in levels)
    yield LabelledText("one failure from loss", "; ".join(near_loss_text) or "no known ledgers")
    for level in levels:
        for sentence in possible_loss_sentences([level.near]):
            yield LabelledText("", sentence)
        yield from _distance_parts(level)


def _distance_parts(level: LevelLoss) -> Iterator[PagePart]:
    """Yield numbers of ledgers by the fewest racks (or other domains) whose failure loses an entry."""
    counts = [f"{ledgers:,} with {number}" for number, ledgers in level.distance.items() if number]
    texts = [f"ledgers that lose an entry if {level.level}s fail: {', '.join(counts)}"] if counts else []
    if lost_ledgers := level.distance.get(0):
        texts.append(f"{plural(lost_ledgers, 'ledger has', 'ledgers have')} already lost an entry")
    if texts:
        yield LabelledText("", "; ".join(texts))


def _single_failure_parts(level: LevelLoss, command: str) -> Iterator[PagePart]:
    titles = (f"{level.level} lost", "lost", "bytes", "all copies", "<Qa", "<Qw", "open")
    costly_failures = [failure for failure in level.singles if failure.today.possible != Outcome()]
    yield NameTable(titles, [_failure_row(failure) for failure in costly_failures[:MAX_ROWS]])
    yield from _more_rows(len(costly_failures) - MAX_ROWS, f"more {level.level}", f"{command} --format csv")
    if (harmless_count := len(level.singles) - len(costly_failures)) > 0:
        yield f"no entry depends on the other {plural(harmless_count, f'{level.level}')}"


def _failure_row(failure: Failure) -> tuple[str, ...]:
    outcome_bounds = failure.today
    return (
        failure.names[0],
        _range_text(outcome_bounds, lambda outcome: outcome.lost.ledgers),
        _sizes_text(outcome_bounds.sure.lost, outcome_bounds.possible.lost),
        _range_text(failure.promise, lambda outcome: outcome.lost.ledgers),
        _range_text(outcome_bounds, lambda outcome: outcome.below_ack.ledgers),
        _range_text(outcome_bounds, lambda outcome: outcome.below_write.ledgers),
        _range_text(outcome_bounds, lambda outcome: outcome.unrecoverable),
    )


def _range_text(bounds: Bounds, amount_of: Any) -> str:
    minimum, maximum = amount_of(bounds.sure), amount_of(bounds.possible)
    return f"{minimum:,}" if minimum == maximum else f"{minimum:,}-{maximum:,}"


def _sizes_text(sure_loss: Amount, possible_loss: Amount) -> str:
    minimum, maximum = size(sure_loss.bytes), size(possible_loss.bytes)
    return minimum if minimum == maximum else f"{minimum}-{maximum}"


def _failure_set_parts(level: LevelLoss) -> Iterator[PagePart]:
    if level.together < 2 or level.domains < level.together:
        return
    sets_noun = "pairs" if level.together == 2 else f"sets of {level.together}"
    losing_clause = "" if level.losing is None else f"; {level.losing:,} of {level.of:,} lose an entry"
    worst_sets_label = "worst" if level.proved else "worst found (there may be worse):"
    yield ""
    if not level.sets:
        yield f"no {sets_noun} of {level.level}s are known whose failure loses an entry"
        return
    yield f"{worst_sets_label} {sets_noun} of {level.level}s{losing_clause}"
    rows = [
        (
            " + ".join(failed_set.names),
            f"{failed_set.entries:,}",
            size(failed_set.bytes),
            size(failed_set.promise_bytes),
        )
        for failed_set in level.sets
    ]
    yield NameTable(("together", "entries", "bytes", "all copies"), rows)


def _failure_parts(failure: Failure) -> Iterator[PagePart]:
    names = _names_text(failure.names)
    yield f"loss of {failure.level} {names} ({plural(failure.bookies, 'bookie')}):"
    for label, amount_of in (
        ("lost", lambda outcome: outcome.lost),
        ("below ack quorum", lambda outcome: outcome.below_ack),
        ("below write quorum", lambda outcome: outcome.below_write),
    ):
        yield LabelledText(label, f"{_amounts_text(failure.today, amount_of)}, based on the current indexes")
        yield LabelledText("", f"{_amounts_text(failure.promise, amount_of)}, with all copies present")
    for label, outcome_bounds in (("not recoverable", failure.today), ("", failure.promise)):
        low, high = outcome_bounds.sure.unrecoverable, outcome_bounds.possible.unrecoverable
        count = plural(low, "open ledger") if low == high else f"{low:,} to {plural(high, 'open ledger')}"
        condition_text = "with the bookies that are down now" if label else "if all other bookies answer"
        yield LabelledText(label, f"{count}, {condition_text}")


def _amounts_text(bounds: Bounds, amount_of: Any) -> str:
    least_amount, most_amount = amount_of(bounds.sure), amount_of(bounds.possible)
    if least_amount == most_amount:
        return _amount_text(least_amount)
    if not least_amount.ledgers:
        return f"at most {_amount_text(most_amount)}"
    return f"at least {_amount_text(least_amount)}, at most {_amount_text(most_amount)}"


def _amount_text(amount: Amount) -> str:
    if not amount.ledgers:
        return "nothing"
    entries = f"{plural(amount.entries, 'entry')} ({size(amount.bytes)})"
    return f"{entries} of {plural(amount.ledgers, 'ledger')}"


def _write_parts(answers: Sequence[WriteAnswer], command: str) -> Iterator[PagePart]:
    """Yield whether writes go on, by ensemble size, quorums and groups. Answers other than yes come first."""
    sentences = [
        f"{answer.answer} for {_shape_text(answer)}: {answer.why}"
        for answer in answers
        if answer.answer != YES
    ]
    for reason in dict.fromkeys(answer.why for answer in answers if answer.answer == YES):
        quorums = [_shape_text(answer) for answer in answers if (answer.answer, answer.why) == (YES, reason)]
        sentences.append(f"yes for {first_names(quorums, MAX_ROWS)}: {reason}")
    for number, sentence in enumerate(sentences[:MAX_ROWS]):
        yield LabelledText("" if number else "writes go on", sentence)
    yield from _more_rows(len(sentences) - MAX_ROWS, "more answer", f"{command} --format json")


def _shape_text(answer: WriteAnswer) -> str:
    open_clause = f" ({answer.open_ledgers:,} open)" if answer.open_ledgers else ""
    groups_clause = f" in {printable(answer.groups)}" if answer.groups else ""
    return f"E{answer.ensemble} Qw{answer.write_quorum} Qa{answer.ack_quorum}{groups_clause}{open_clause}"


def _more_rows(hidden_count: int, object_noun: str, command: str) -> Iterator[PagePart]:
    """Yield the number of rows left out, if there are any, and the command that prints all rows."""
    if hidden_count > 0:
        yield f"and {plural(hidden_count, object_noun)}; to print all, run:"
        yield UnfoldedCommand(command)


def _affected_parts(simulation: Simulation, command: str) -> Iterator[PagePart]:
    if not simulation.ledgers_concerned:
        return
    yield ""
    titles = ("ledger", "fate", "entries", "bytes")
    rows = [
        (_id_text(ledger.scope_id, ledger.ledger_id), ledger.fate, f"{ledger.entries:,}", size(ledger.bytes))
        for ledger in simulation.ledgers
    ]
    yield NameTable(titles, rows)
    hidden_count = simulation.ledgers_concerned - len(simulation.ledgers)
    yield from _more_rows(hidden_count, "more ledger", f"{command} --format csv")
    if simulation.namespaces is None or simulation.topics is None:
        yield "owners: this run did not read any; audit with --owners"
        return
    for name, totals, total_count in (
        ("namespace", simulation.namespaces, simulation.namespaces_concerned),
        ("topic", simulation.topics, simulation.topics_concerned),
    ):
        yield ""
        columns = (name, "ledgers", "entries", "bytes", "open", "offloaded")
        yield NameTable(columns, [_owner_row(total) for total in totals])
        hidden_count = total_count - len(totals)
        yield from _more_rows(hidden_count, f"more {name}", f"{command} --table {name}s --format csv")


def _id_text(scope_id: str, ledger_id: str) -> str:
    return ledger_id if scope_id == "0" else f"{ledger_id} of scope {scope_id}"


def _owner_row(owner: OwnerLoss) -> tuple[str, ...]:
    return (
        NO_OWNER_LABEL if owner.name == NOBODY else owner.name,
        f"{owner.ledgers:,}",
        f"{owner.entries:,}",
        size(owner.bytes),
        f"{owner.unrecoverable:,}",
        f"{owner.offloaded:,}",
    )


def _copyset_parts(copysets: Copysets) -> Iterator[PagePart]:
    set_text = ", ".join(
        f"{plural(count, 'set')} of {plural(size, 'bookie')}" for size, count in copysets.sizes.items()
    )
    yield LabelledText("copysets", f"{set_text or 'none'}; {plural(copysets.bookies, 'bookie')} in all")
    least, most = copysets.scatter_least, copysets.scatter_most
    partners = plural(most, "partner")
    width = partners if least == most else f"{least:,} to {partners}, {copysets.scatter_mean:.1f} on average"
    yield LabelledText("scatter width", f"a bookie has {width}")
    for bookies, chance in copysets.chance.items():
        if bookies <= copysets.bookies:
            yield LabelledText("", f"probability {chance:.2g} of loss if {bookies} random bookies fail")
    if copysets.mttdl_years is not None:
        assumption = (
            f"a bookie fails every {copysets.mttf_days:g} days and is replaced in {copysets.mttr_hours:g} h"
        )
        years = f"{copysets.mttdl_years:,.3g} years"
        yield LabelledText("time to data loss", f"{years} on average, if {assumption}; only for comparisons")


def _balance_parts(balance: Balance, command: str) -> Iterator[PagePart]:
    for level, loads in balance.domains.items():
        yield from _load_parts(level, loads, command)
        yield ""
    yield from _load_parts("bookie", balance.bookies, command)
    if balance.disks:
        yield ""
        yield from _disk_parts(balance.disks, command)
    idle_bookies = [bookie for bookie in balance.bookies if bookie.idle is not None]
    for idle_bookie in idle_bookies[:MAX_ROWS]:
        yield LabelledText("gets nothing new", f"{printable(idle_bookie.name)}: {idle_bookie.idle}")
    yield from _more_rows(len(idle_bookies) - MAX_ROWS, "more bookie", f"{command} --format json")


def _load_parts(level: str, loads: Sequence[BookieLoad], command: str) -> Iterator[PagePart]:
    mean_bytes = sum(load.bytes for load in loads) / len(loads) if loads else 0
    disks = any(load.disk is not None for load in loads)
    titles = (f"{level} has", "bytes", "of mean", "entries", "ledgers", "open", *(("disk",) if disks else ()))
    rows = []
    for bookie_load in loads[:MAX_ROWS]:
        of_mean = f"{bookie_load.bytes / mean_bytes:.2f}x" if mean_bytes else "-"
        disk = ("not read" if bookie_load.disk is None else size(bookie_load.disk),) if disks else ()
        counts = (f"{bookie_load.entries:,}", f"{bookie_load.ledgers:,}", f"{bookie_load.open_ensembles:,}")
        rows.append((bookie_load.name, size(bookie_load.bytes), of_mean, *counts, *disk))
    yield NameTable(titles, rows)
    if (hidden_count := len(loads) - MAX_ROWS) > 0:
        lightest_load = loads[-1]
        yield f"the smallest: {size(lightest_load.bytes)} on {printable(lightest_load.name)}"
        yield from _more_rows(hidden_count, f"more {level}", f"{command} --format json")


def _disk_parts(disks: Sequence[DiskLoad], command: str) -> Iterator[PagePart]:
    mean_bytes = sum(disk.bytes for disk in disks) / len(disks)
    rows = []
    for disk_load in disks[:MAX_ROWS]:
        of_mean = f"{disk_load.bytes / mean_bytes:.2f}x" if mean_bytes else "-"
        entries = "not known" if disk_load.entries is None else f"{disk_load.entries:,}"
        used_share = "not seen" if disk_load.used is None else f"{disk_load.used:.0%}"
        name = f"{disk_load.bookie} {disk_load.directory}"
        rows.append((name, size(disk_load.bytes), of_mean, entries, f"{disk_load.ledgers:,}", used_share))
    yield NameTable(("disk has", "bytes", "of mean", "entries", "ledgers", "used"), rows)
    yield from _more_rows(len(disks) - MAX_ROWS, "more disk", f"{command} --format json")


def _names_text(names: Sequence[str]) -> str:
    return first_names([shorten(name, _MAX_NAME_CHARACTERS) for name in names], _MAX_NAMES_SHOWN)

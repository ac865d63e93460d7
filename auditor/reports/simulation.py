"""What failures would cost, as text of 80 columns and as JSON with its schema."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from auditor.model.amounts import first_names, plural, size
from auditor.model.report_source import NO_OWNER, NOBODY
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
from auditor.reports.plain_text import columns_of, fold_text, labelled, printable, shorten, text_table

SIMULATION_SCHEMA = "bookkeeper-auditor/simulation/1"
WIDTH = 80
ROWS = 20
"""Domains of a level that a text shows, those that cost most."""
_LABEL = 20
_NAMES = 3
_NAME_LENGTH = 60

_LEGEND = (
    "lost: ledgers that lose an entry, as indexes hold them today; bytes: of these entries; promised: "
    "ledgers that lose one if every copy were there; <Qa, <Qw: ledgers below ack quorum, below write quorum; "
    "open: ledgers that recovery could not close. 3-5: between these, as what is unknown decides."
)


def text(found: Simulation) -> str:
    """Lines for a terminal: what was known, then one failure or all of them."""
    lines = [*_known(found)]
    if found.failure is not None:
        lines += ["", *_failure(found.failure), *_writes(found.writes), *_concerned(found)]
    if found.levels:
        if found.failure is None:
            lines += ["", *_near(found.levels)]
            for level in found.levels:
                lines += ["", *_singles(level)]
            lines += ["", *labelled("", _LEGEND, WIDTH, columns=0)]
        for level in found.levels:
            lines += _sets(level)
    if found.copysets is not None:
        lines += ["", *_copysets(found.copysets)]
    if found.balance is not None:
        lines += ["", *_balance(found.balance)]
    if found.failure is None and found.writes:
        lines += ["", *_writes(found.writes)]
    return "\n".join(lines)


def to_json(found: Simulation) -> str:
    """One object with all of it; ids of ledgers and scopes are decimal strings, as everywhere."""
    return json.dumps({"schema": SIMULATION_SCHEMA, **asdict(found)}, indent=2, ensure_ascii=False)


def near_words(levels: Iterable[NearLoss]) -> list[str]:
    """What is one failure from loss, of each level that has any; nothing where there is none.

    >>> near_words([NearLoss("rack", Amount(3, 40, 900), 1, ("r2",), 0)])
    ['3 ledgers (rack r2)']
    """
    found = []
    for level in levels:
        if level.found.ledgers:
            names = first_names([*map(printable, level.names)], _NAMES, level.domains)
            where = f"{level.level} {names if level.names else 'not known'}"
            found.append(f"{plural(level.found.ledgers, 'ledger')} ({where})")
    return found


def _known(found: Simulation) -> Iterator[str]:
    """By what the answer was found, and what was not known."""
    doubts = found.doubts
    policy = f"policy {found.policy}" + (f" ({found.policy_origin})" if found.policy_origin else "")
    mapping = f"locations from {found.mapping}" if found.mapping else "no location is known (--racks FILE)"
    yield from _said("placement", f"{policy}; {mapping}")
    yield from _said("ledgers", f"{doubts.ledgers:,}, {doubts.not_closed:,} of them not closed")
    unknown = []
    if doubts.undecided:
        unknown.append(f"{plural(doubts.undecided, 'ledger')} that cannot be judged are in no number")
    if doubts.gaps:
        unknown.append(f"{plural(doubts.gaps, 'place')} of the metadata, at least, could not be read")
    if doubts.in_doubt:
        unknown.append(f"ledgers may be there unseen: {doubtful_ids_line(doubts.in_doubt)}")
    if doubts.unread:
        unknown.append(f"{plural(len(doubts.unread), 'bookie')} not read: {_names(doubts.unread)}")
    if found.mapping and doubts.unplaced:
        unknown.append(
            f"{plural(len(doubts.unplaced), 'bookie')} without a location: {_names(doubts.unplaced)}"
        )
    if not doubts.registered:
        unknown.append("no bookie is registered: which of them answer, and whether writes go on")
    if doubts.not_closed:
        unknown.append("entries and bytes at the end of ledgers that are not closed")
    for number, each in enumerate(unknown):
        yield from _said("unknown" if not number else "", each)


def _near(levels: Sequence[LevelLoss]) -> Iterator[str]:
    words = near_words(level.near for level in levels)
    yield from _said("one failure from loss", "; ".join(words) or "no ledger that is known")
    for level in levels:
        if level.near.perhaps:
            more = plural(level.near.perhaps, "more ledger")
            yield from _said("", f"{more} may be one {level.level} from loss: what is unknown decides")
        yield from _distances(level)


def _distances(level: LevelLoss) -> Iterator[str]:
    """How many ledgers lose an entry if so many domains fail, and no fewer."""
    counts = [f"{ledgers:,} with {number}" for number, ledgers in level.distance.items() if number]
    words = [f"ledgers that lose an entry if {level.level}s fail: {', '.join(counts)}"] if counts else []
    if lost := level.distance.get(0):
        words.append(f"{plural(lost, 'ledger has', 'ledgers have')} lost one before")
    if words:
        yield from _said("", "; ".join(words))


def _singles(level: LevelLoss) -> Iterator[str]:
    head = (f"{level.level} lost", "lost", "bytes", "promised", "<Qa", "<Qw", "open")
    costly = [each for each in level.singles if each.today.possible != Outcome()]
    yield from _table(head, [_single_row(each) for each in costly[:ROWS]])
    if (more := len(costly) - ROWS) > 0:
        yield f"and {plural(more, f'more {level.level}')}: --format json has all"
    if (idle := len(level.singles) - len(costly)) > 0:
        yield f"and {plural(idle, f'{level.level}')} that no entry depends on"


def _single_row(each: Failure) -> tuple[str, ...]:
    today = each.today
    return (
        each.names[0],
        _range(today, lambda outcome: outcome.lost.ledgers),
        _sizes(today.sure.lost, today.possible.lost),
        _range(each.promise, lambda outcome: outcome.lost.ledgers),
        _range(today, lambda outcome: outcome.below_ack.ledgers),
        _range(today, lambda outcome: outcome.below_write.ledgers),
        _range(today, lambda outcome: outcome.unrecoverable),
    )


def _range(bounds: Bounds, of: Any) -> str:
    low, high = sorted((of(bounds.sure), of(bounds.possible)))
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


def _sizes(sure: Amount, possible: Amount) -> str:
    low, high = size(sure.bytes), size(possible.bytes)
    return low if low == high else f"{low}-{high}"


def _sets(level: LevelLoss) -> Iterator[str]:
    if level.together < 2 or level.domains < level.together:
        return
    many = "pairs" if level.together == 2 else f"sets of {level.together}"
    counted = "" if level.losing is None else f"; {level.losing:,} of {level.of:,} lose an entry"
    exact = "worst" if level.proved else "worst found, not proved:"
    yield ""
    if not level.sets:
        yield f"no {level.level} {many} is known to lose an entry"
        return
    yield f"{exact} {many} of {level.level}s{counted}"
    rows = [
        (" + ".join(each.names), f"{each.entries:,}", size(each.bytes), size(each.promise_bytes))
        for each in level.sets
    ]
    yield from _table(("together", "entries", "bytes", "promised"), rows)


def _failure(failure: Failure) -> Iterator[str]:
    names = _names(failure.names)
    yield from fold_text(f"loss of {failure.level} {names} ({plural(failure.bookies, 'bookie')}):", WIDTH)
    for label, of in (
        ("lost", lambda outcome: outcome.lost),
        ("below ack quorum", lambda outcome: outcome.below_ack),
        ("below write quorum", lambda outcome: outcome.below_write),
    ):
        yield from _said(label, f"{_amounts(failure.today, of)}, as indexes hold them")
        yield from _said("", f"{_amounts(failure.promise, of)}, as promised")
    for label, bounds in (("not recoverable", failure.today), ("", failure.promise)):
        low, high = bounds.sure.unrecoverable, bounds.possible.unrecoverable
        count = plural(low, "open ledger") if low == high else f"{low:,} to {plural(high, 'open ledger')}"
        how = "with the bookies that are down now" if label else "if all others answer"
        yield from _said(label, f"{count}, {how}")


def _amounts(bounds: Bounds, of: Any) -> str:
    best, worst = of(bounds.sure), of(bounds.possible)
    if best == worst:
        return _amount(best)
    if worst.entries < best.entries:  # they are lost then, or below the ack quorum
        return f"{_amount(best)} at best; at worst counted above"
    return f"{_amount(best)} at best, {_amount(worst)} at worst"


def _amount(amount: Amount) -> str:
    if not amount.ledgers:
        return "nothing"
    entries = f"{plural(amount.entries, 'entry')} ({size(amount.bytes)})"
    return f"{entries} of {plural(amount.ledgers, 'ledger')}"


def _writes(writes: Sequence[WriteAnswer]) -> Iterator[str]:
    """What cannot be written, or is not known, each; all that can by why, in a line."""
    said = [f"{each.answer} for {_shape(each)}: {each.why}" for each in writes if each.answer != YES]
    for why in dict.fromkeys(each.why for each in writes if each.answer == YES):
        shapes = [_shape(each) for each in writes if (each.answer, each.why) == (YES, why)]
        said.append(f"yes for {first_names(shapes, ROWS)}: {why}")
    if (more := len(said) - ROWS) > 0:
        said[ROWS:] = [f"and {plural(more, 'more answer')}: --format json has all"]
    for number, each in enumerate(said):
        yield from _said("" if number else "writes go on", each)


def _shape(each: WriteAnswer) -> str:
    still = f" ({each.open_ledgers:,} open)" if each.open_ledgers else ""
    groups = f" in {printable(each.groups)}" if each.groups else ""
    return f"E{each.ensemble} Qw{each.write_quorum} Qa{each.ack_quorum}{groups}{still}"


def _concerned(found: Simulation) -> Iterator[str]:
    if not found.ledgers_concerned:
        return
    yield ""
    head = ("ledger", "fate", "entries", "bytes")
    rows = [
        (_ledger(each.scope_id, each.ledger_id), each.fate, f"{each.entries:,}", size(each.bytes))
        for each in found.ledgers
    ]
    yield from _table(head, rows)
    if (more := found.ledgers_concerned - len(found.ledgers)) > 0:
        yield f"and {plural(more, 'more ledger')}"
    if found.namespaces is None or found.topics is None:
        yield "whose they are: this run read no owners (audit with --owners)"
        return
    for name, totals in (("namespace", found.namespaces), ("topic", found.topics)):
        yield ""
        yield from _table((name, "ledgers", "entries", "bytes", "open", "offloaded"), map(_owner_row, totals))
    if (more := found.topics_concerned - len(found.topics)) > 0:
        yield f"and {plural(more, 'more topic')}"


def _ledger(scope: str, ledger: str) -> str:
    return ledger if scope == "0" else f"{ledger} of scope {scope}"


def _owner_row(owner: OwnerLoss) -> tuple[str, ...]:
    return (
        NO_OWNER if owner.name == NOBODY else owner.name,
        f"{owner.ledgers:,}",
        f"{owner.entries:,}",
        size(owner.bytes),
        f"{owner.unrecoverable:,}",
        f"{owner.offloaded:,}",
    )


def _copysets(copysets: Copysets) -> Iterator[str]:
    sizes = ", ".join(
        f"{plural(count, 'set')} of {plural(size, 'bookie')}" for size, count in copysets.sizes.items()
    )
    yield from _said("copysets", f"{sizes or 'none'}; {plural(copysets.bookies, 'bookie')} in all")
    least, most = copysets.scatter_least, copysets.scatter_most
    partners = plural(most, "partner")
    width = partners if least == most else f"{least:,} to {partners}, {copysets.scatter_mean:.1f} on average"
    yield from _said("scatter width", f"a bookie has {width}")
    for failed, chance in copysets.chance.items():
        if failed <= copysets.bookies:
            yield from _said("", f"{failed} random bookies lose an entry with probability {chance:.2g}")
    if copysets.mttdl_years is not None:
        inputs = (
            f"a bookie fails every {copysets.mttf_days:g} days and is replaced in {copysets.mttr_hours:g} h"
        )
        years = f"{copysets.mttdl_years:,.3g} years"
        yield from _said("time to data loss", f"{years} on average, if {inputs}: to rank clusters only")


def _balance(balance: Balance) -> Iterator[str]:
    for level, loads in balance.domains.items():
        yield from _loads(level, loads)
        yield ""
    yield from _loads("bookie", balance.bookies)
    if balance.disks:
        yield ""
        yield from _disks(balance.disks)
    idle = [each for each in balance.bookies if each.idle is not None]
    for each in idle[:ROWS]:
        yield from _said("gets nothing new", f"{printable(each.name)}: {each.idle}")
    if len(idle) > ROWS:
        yield f"and {plural(len(idle) - ROWS, 'more bookie')}: --format json has all"


def _loads(level: str, loads: Sequence[BookieLoad]) -> Iterator[str]:
    mean = sum(each.bytes for each in loads) / len(loads) if loads else 0
    disks = any(each.disk is not None for each in loads)
    head = (f"{level} has", "bytes", "of mean", "entries", "ledgers", "open", *(("disk",) if disks else ()))
    rows = []
    for each in loads[:ROWS]:
        share = f"{each.bytes / mean:.2f}x" if mean else "-"
        disk = ("not read" if each.disk is None else size(each.disk),) if disks else ()
        counts = (f"{each.entries:,}", f"{each.ledgers:,}", f"{each.open_ensembles:,}")
        rows.append((each.name, size(each.bytes), share, *counts, *disk))
    yield from _table(head, rows)
    if (more := len(loads) - ROWS) > 0:
        least = loads[-1]
        yield f"and {plural(more, f'more {level}')}, down to {size(least.bytes)} on {printable(least.name)}"


def _disks(disks: Sequence[DiskLoad]) -> Iterator[str]:
    mean = sum(each.bytes for each in disks) / len(disks)
    rows = []
    for each in disks[:ROWS]:
        share = f"{each.bytes / mean:.2f}x" if mean else "-"
        entries = "not known" if each.entries is None else f"{each.entries:,}"
        used = "not seen" if each.used is None else f"{each.used:.0%}"
        name = f"{each.bookie} {each.directory}"
        rows.append((name, size(each.bytes), share, entries, f"{each.ledgers:,}", used))
    yield from _table(("disk has", "bytes", "of mean", "entries", "ledgers", "used"), rows)
    if (more := len(disks) - ROWS) > 0:
        yield f"and {plural(more, 'more disk')}: --format json has all"


def _names(names: Sequence[str]) -> str:
    return first_names([shorten(name, _NAME_LENGTH) for name in names], _NAMES)


def _said(label: str, words: str) -> list[str]:
    """A label of up to 20 columns and a text beside it; a longer label has a line of its own."""
    if len(label) >= _LABEL:
        return [label, *labelled("", words, WIDTH, columns=_LABEL)]
    return labelled(label, words, WIDTH, columns=_LABEL)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table no wider than a terminal: the first column gives way."""
    cells = [head, *rows]
    others = sum(max(columns_of(row[place]) for row in cells) + 2 for place in range(1, len(head)))
    room = max(WIDTH - others, 16)
    return text_table(head, [(shorten(row[0], room), *row[1:]) for row in cells[1:]])

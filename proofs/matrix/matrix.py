"""The runner of cells: audits, commands, and the rules that check them, one cell after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from proofs.matrix import rules
from proofs.matrix.bench import Audit, Bench, Hang
from proofs.matrix.cells import NO_VALUE, Cell
from proofs.matrix.commands import blindness, forms_of, leftovers, on_damaged_run, on_run, on_sources, printed
from proofs.matrix.facts import verdict_line

ALWAYS_READ = ("store", "record", "cookie", "collection")
"""Targets of damage that every audit reads completely."""

REPRODUCE = "python -m proofs.matrix --only '{}'"


@dataclass(frozen=True)
class Result:
    """The result of a cell. ``failures`` has the broken rules with a sentence for each violation."""

    cell: str
    seconds: float
    audits: int
    exit_code: int
    failures: dict[str, list[str]]
    command: str

    @property
    def reproduction(self) -> str:
        return REPRODUCE.format(self.cell)


def run_cell(bench: Bench, cell: Cell) -> Result:
    """Audit a cell and the cells to compare it with, run every command, and check all rules."""
    began, start = time.monotonic(), bench.count
    failures: dict[str, list[str]] = {}
    code, command = -1, ""
    try:
        audit = bench.audit(cell)
        code, command = audit.outcome.exit_code, audit.outcome.command
        for rule, sentence in broken_rules(bench, audit):
            failures.setdefault(rule, []).append(sentence)
    except Hang as hang:
        failures["no bug"] = [str(hang)]
    return Result(cell.name, round(time.monotonic() - began, 1), bench.count - start, code, failures, command)


def broken_rules(bench: Bench, audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield the rules that a cell breaks, each with a sentence."""
    cell = audit.cell
    outcomes = [audit.outcome, on_sources(bench, audit)]
    yield from _label("ends", rules.ends(audit.outcome, cell.target in ("store", "record")))
    if audit.run is not None:
        formed, facts = forms_of(bench, audit)
        on = [*on_run(bench, audit)]
        outcomes += [*formed, *on]
        yield from _label("forms agree", rules.forms_agree(facts, audit.findings))
        [junit] = [outcome.stdout for outcome in formed if outcome.arguments[-1] == "junit"]
        yield from _label("forms agree", rules.blind_is_not_passed(*blindness(audit.run, junit)))
        json_facts = facts["json"]
        shown = {} if json_facts.full is None else rules.summed(json_facts.full, lambda key: key[:2])
        verdict = verdict_line(formed[0].stdout.splitlines())
        yield from _label("fits", rules.fits(80, printed(audit.run, on), shown, verdict))
        yield from _label("never good", rules.never_good_unseen(on, bool(audit.run.report.run.gaps)))
        yield from _label("no sure doubt", rules.no_sure_doubt(audit.findings))
        if cell.target == "run":
            outcomes += on_damaged_run(bench, audit)
    yield from _label("no nulls", rules.no_nulls(audit.findings, outcomes))
    for companion in companions(cell):
        outcomes.append(bench.audit(companion).outcome)
    yield from _compared(bench, audit)
    yield from _label("no bug", rules.no_bug(outcomes))
    leftovers(audit.path.parent)


def companions(cell: Cell) -> list[Cell]:
    """Return the cells to compare a cell with."""
    cells = [*cell.single()]
    if cell.reads_less().options != cell.shared_cell().options:
        cells.append(cell.reads_less())
    if rules.is_spoilt(cell):
        cells.append(cell.plain())
    return cells


def _compared(bench: Bench, audit: Audit) -> Iterator[tuple[str, str]]:
    """Yield the broken rules that compare the audit with other audits of the same data."""
    cell = audit.cell
    plain = bench.audits.get(cell.plain())
    if plain is not None and cell.target in ALWAYS_READ:
        yield from _label("accuses", rules.notices(cell.kind, reported_facts(plain), reported_facts(audit)))
    if audit.run is None:
        return
    for companion in companions(cell):
        less = bench.audit(companion)
        if companion != cell.plain():
            what = f"beside {companion.bookies} it" if companion in cell.single() else "reading more"
            yield from _label("never less", rules.never_less(less.findings, audit.findings, what))
    if rules.is_spoilt(cell) and plain is not None and plain.run is not None:
        members, sound = ensembles(plain.path, audit.path), ensembles(plain.path)
        bookies = {name for ledger in audit.damage.ledgers for name in members.get(ledger, ())}
        names = frozenset(bookies.difference(*sound.values()))
        damage = replace(audit.damage, names=names)
        sentences = rules.accuses(damage, plain.findings, audit.findings, members)
        yield from _label("accuses", sentences)


def reported_facts(audit: Audit) -> object:
    """Return everything that a run reports except its own names, or the exit code if there is no report."""
    if audit.run is None:
        return audit.outcome.exit_code
    report = audit.run.report
    rows = [
        (row["fingerprint"], row["severity"], row["confidence"], row["message"]) for row in audit.findings
    ]
    return rows, report.coverage, report.run.gaps, report.run.remarks, report.cluster.layout


def ensembles(*runs: Path) -> Mapping[int, set[str]]:
    """Return the bookies of each ledger's ensembles, from all given runs."""
    members: dict[int, set[str]] = {}
    for run in runs:
        for row in pq.read_table(run / "tables" / "ledgers", columns=["ledger_id", "segments"]).to_pylist():
            for segment in row["segments"] or ():
                members.setdefault(row["ledger_id"], set()).update(segment["ensemble"])
    return members


def _label(rule: str, sentences: Iterable[str]) -> Iterator[tuple[str, str]]:
    for sentence in sentences:
        yield rule, sentence


@dataclass
class Record:
    """A file with one result per line. Cells with a result are not run again."""

    file: Path

    def read_results(self) -> dict[str, Result]:
        if not self.file.exists():
            return {}
        results = [Result(**json.loads(line)) for line in self.file.read_text().splitlines()]
        return {result.cell: result for result in results}

    def add(self, result: Result) -> None:
        with self.file.open("a") as out:
            out.write(json.dumps(asdict(result)) + "\n")


def summary(results: Iterable[Result]) -> list[str]:
    """Return lines with the numbers of cells, audits, seconds, and failures by rule."""
    rows = list(results)
    by_rule: dict[str, int] = {}
    for result in rows:
        for rule in result.failures:
            by_rule[rule] = by_rule.get(rule, 0) + 1
    failed = sum(bool(result.failures) for result in rows)
    seconds, audits = sum(row.seconds for row in rows), sum(row.audits for row in rows)
    lines = [f"{len(rows)} cells, {audits} audits, {seconds:,.0f} s: {failed} failed"]
    return lines + [f"{count:>5}  {rule}" for rule, count in sorted(by_rule.items())]


def select_cells(cells: Iterable[Cell], only: str | None, count: int | None) -> list[Cell]:
    """Return the cells to run.

    If ``only`` is a complete name, it is that cell, otherwise the cells whose names contain it. ``count``
    limits their number.
    """
    if only is not None and only.count("/") == NAME_PARTS - 1:
        return [Cell.parse(only)]
    chosen = [cell for cell in cells if only is None or only in cell.name]
    return chosen[:count]


NAME_PARTS = len(Cell("", "", "", NO_VALUE).name.split("/"))

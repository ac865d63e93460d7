"""All commands on the run of a cell, and one command on its sources."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET
from zlib import crc32

from auditor.notebook.run import Run
from auditor.reports import blind_spots, first_screen, text
from proofs.matrix.bench import Audit, Bench, Outcome
from proofs.matrix.cells import KINDS
from proofs.matrix.damage import damage_file
from proofs.matrix.facts import PARSERS, Facts, of_notebook, of_parquet

UNUSED_COMMANDS = {
    "audit": "the cell itself",
    "demo": "it has a cluster of its own",
    "conf": "it asks no data",
    "help": "likewise",
    "version": "likewise",
    "decode": "every kind has its bytes in proofs/fuzz",
    "encode": "its input is a list of entry ids: properties in tests/codecs/availability",
    "watch": "it is audits in rounds: tests/watch",
}
"""Commands that no cell has, and the reason."""

WIDTH = 80
SHOWN = 3
"""Number of ledgers, bookies and topics that ``explain`` gets."""


def forms_of(bench: Bench, audit: Audit) -> tuple[list[Outcome], dict[str, Facts]]:
    """Write the report in every format; return the outcomes and the facts in each format."""
    assert audit.run is not None
    outcomes, facts = [], {}
    for form, parse in PARSERS.items():
        outcomes.append(bench.command("report", str(audit.path), "--format", form))
        if outcomes[-1].exit_code == 0:
            facts[form] = parse(outcomes[-1].stdout)
    file = audit.path.parent / "report.parquet"
    outcomes.append(bench.command("report", str(audit.path), "--format", f"parquet={file}"))
    facts["parquet"] = of_parquet(file.read_bytes())
    facts["notebook"] = of_notebook(audit.run)
    return outcomes, facts


def on_run(bench: Bench, audit: Audit) -> Iterator[Outcome]:
    """Run the commands that read a finished run, except for the report formats."""
    run, cell = str(audit.path), audit.cell
    yield bench.command("explain", "run", run)
    yield bench.command("report", run, "--all", "--show-suppressed")
    ledgers = [row for row in audit.findings if row["ledger_id"] is not None]
    for row in list({row["id"]: row for row in ledgers}.values())[:SHOWN]:
        ledger_args = (
            ["--ledger-id", str(row["ledger_id"]), "--ledger-scope-id", str(row["scope_id"])]
            if row["scope_id"]
            else ["--ledger-id", str(row["ledger_id"])]
        )
        yield bench.command("explain", "ledger", *ledger_args, "--run", run)
        yield bench.command("report", run, "--ledger", str(row["ledger_id"]))
    for bookie in sorted(audit.place.ids())[:SHOWN]:
        yield bench.command("explain", "bookie", bookie, "--run", run)
    yield bench.command("report", run, "--bookie", sorted(audit.place.ids())[0], "--format", "jsonl")
    yield bench.command("report", run, "--severity", "error", "--format", "csv")
    for check in sorted({row["id"] for row in audit.findings})[:SHOWN]:
        yield bench.command("explain", "check", check)
    yield bench.command("report", run, "--by", "namespace")
    yield bench.command("report", run, "--leaks")
    for topic in topics(audit)[:SHOWN]:
        yield bench.command("explain", "topic", topic, "--run", run)
    for by in ("bookie", "ledger", "application"):
        yield bench.command("space", run, "--by", by)
    yield bench.command("status", str(audit.path.parent))
    yield bench.command("history", str(audit.path.parent))
    yield bench.command("prune", str(audit.path.parent), "--keep-last", "1")
    yield from failures(bench, run, sorted(audit.place.ids()))
    yield from repairs(bench, run)
    plain = bench.audits.get(cell.plain(), audit)
    baseline = str(plain.path) if plain.run is not None else run
    for form in ("text", "json", "jsonl", "markdown"):
        yield bench.command("diff", baseline, run, "--format", form)


def failures(bench: Bench, run: str, bookies: Sequence[str]) -> Iterator[Outcome]:
    """Run ``simulate`` and ``decommission`` on a run."""
    for losses in ([], ["--lose", "bookie", bookies[0]], ["--lose", "rack", "r1"], ["--any", "2", "bookie"]):
        for form in ("text", "json"):
            yield bench.command("simulate", run, *losses, "--format", form)
    for going in (bookies[:1], bookies[-2:]):
        for form in ("text", "json"):
            yield bench.command("decommission", run, *going, "--rate", "20M", "--format", form)


def repairs(bench: Bench, run: str) -> Iterator[Outcome]:
    """Make a repair plan of a run, show it, and check it against the same run."""
    file = Path(run).parent / "plan.toml"
    file.unlink(missing_ok=True)
    yield bench.command("plan", "make", run, "--out", str(file), "--format", "markdown")
    if file.exists():
        for form in ("text", "json"):
            yield bench.command("plan", "show", str(file), "--format", form)
        yield bench.command("plan", "check", str(file), "--run", run)


def topics(audit: Audit) -> list[str]:
    """Return the topics that findings name."""
    names = []
    for row in audit.findings:
        owner = json.loads(row["evidence"]).get("owner") or json.loads(row["evidence"]).get("topic")
        if isinstance(owner, str) and owner.count("/") >= 2:
            names.append(owner)
    return list(dict.fromkeys(names))


def on_sources(bench: Bench, audit: Audit) -> Outcome:
    """Run the cell's command on the sources of its audit."""
    cell = audit.cell
    _, uri, sources, _ = bench.sources(cell)
    flags = [argument for source in sources for argument in ("--bookies", source)]
    out = audit.path.parent
    ledger_id = next((str(row["ledger_id"]) for row in audit.findings if row["ledger_id"] is not None), "1")
    arguments = {
        "doctor": ["doctor", "--metadata", uri, *flags, "--timeout", "3"],
        "scan": ["scan", "--metadata", uri, "--out", str(out / "scan"), "--timeout", "3"],
        "collect": ["collect", *flags, "--out", str(out / "collected"), "--entry-logs"],
        "dump": ["dump", uri, str(out / "dumped.jsonl"), "--timeout", "3"],
        "compare": ["compare", audit.place.uri("dump"), uri, "--timeout", "3"],
        "ledger": ["ledger", "show", ledger_id, "--metadata", uri],
    }[cell.command]
    return bench.command(*arguments)


def on_damaged_run(bench: Bench, audit: Audit) -> Iterator[Outcome]:
    """Run the commands on a copy of the run with one damaged file."""
    copy = audit.path.parent / "damaged" / "run"
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(audit.path, copy)
    random = Random(crc32(audit.cell.name.encode()))
    files = sorted(
        path for path in copy.rglob("*") if path.is_file() and path.suffix in (".json", ".parquet")
    )
    kinds = [candidate for candidate in KINDS if candidate not in ("mixed", "older")]
    for kind in random.sample(kinds, 2) if audit.cell.kind == "mixed" else [audit.cell.kind]:
        file = random.choice([path for path in files if path.is_file()])
        damage_file(kind, file, files[0] if files[0].is_file() else file, random)
    for form in ("text", "json", "jsonl", "csv", "html", "junit", "openmetrics", "sarif", "markdown"):
        yield bench.command("report", str(copy), "--format", form)
    ledger = next((str(row["ledger_id"]) for row in audit.findings if row["ledger_id"] is not None), "1")
    bookie = min(audit.place.ids())
    yield bench.command("explain", "run", str(copy))
    yield bench.command("explain", "ledger", "--ledger-id", ledger, "--run", str(copy))
    yield bench.command("explain", "bookie", bookie, "--run", str(copy))
    yield bench.command("space", str(copy))
    yield from failures(bench, str(copy), sorted(audit.place.ids()))
    yield from repairs(bench, str(copy))
    yield bench.command("status", str(copy.parent))
    yield bench.command("history", str(copy.parent))
    yield bench.command("diff", str(audit.path), str(copy))


def printed(run: Run, outcomes: list[Outcome]) -> dict[str, str]:
    """Return the texts that a terminal of `WIDTH` columns shows, by name."""
    texts = {
        "screen": first_screen.render(run.report, "RUN", WIDTH),
        "text": text.render(run.report, "RUN", WIDTH, run.statuses()),
    }
    for outcome in outcomes:
        shown = outcome.arguments[0] in ("simulate", "decommission") or outcome.arguments[:2] == (
            "plan",
            "show",
        )
        if shown and outcome.writes("text"):
            texts[" ".join(outcome.arguments[:1] + outcome.arguments[2:])] = outcome.stdout
        # The picture and the paths of a ledger are not wrapped.
        if outcome.arguments[0] == "explain" and outcome.arguments[1] != "ledger":
            texts[" ".join(outcome.arguments[:3])] = outcome.stdout
    return texts


def blindness(run: Run, junit: str) -> tuple[set[str], set[str]]:
    """Return the checks that had no data at all, and those that JUnit reports as passed."""
    blind = {*blind_spots.checks_without_input(run.report)}
    passed = set()
    for case in ET.fromstring(junit).iter("testcase"):
        if all(case.find(name) is None for name in ("skipped", "failure", "system-out")):
            passed.add(case.get("name", ""))
    return blind, passed


def leftovers(path: Path) -> None:
    """Delete a finished cell's files. Its audits stay, because other cells are compared with them."""
    for name in ("damaged", "scan", "collected"):
        shutil.rmtree(path / name, ignore_errors=True)

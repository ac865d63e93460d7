"""Run commands whose streams lose their reader, each in a fork of one process that has loaded them.

    python -m tests.cli.stream_cells PLACE      prints JSON: the outcome of each command and cell

A substitute for audits names its stages and copies a run that was made before. All else is real:
arguments, streams, and the files that a command writes.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import re
import selectors
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from auditor.cli import COMMAND_HELP_TEXTS, main
from auditor.model.audit_stage import AuditStage
from auditor.model.comparison import Comparison, StoreSummary
from auditor.model.finding import Finding
from auditor.model.report import Report
from tests.made_runs import change_row, made_run
from tests.reports.samples import BELOW, LOST, coverage, report, tally

STREAMS = {"stdout": (1,), "stderr": (2,), "both": (1, 2)}
MOMENTS = ("closed", "start", "midway", "end")
"""``closed``: no such descriptor; ``start``: a pipe whose reader left before the command began."""

ZNODE = '{"path": "/ledgers", "data": "", "czxid": 1, "mzxid": 1, "ctime": 1, "mtime": 1, "version": 0}\n'
COOKIE = '4\nbookieHost: "bk-a:3181"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\ninstanceId: "a-1"\n'
SOURCES = ("--metadata", "dump://{place}/metadata.jsonl", "--bookies", "{place}/bookies")
RUN_NAME = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
CASES: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "--version": ("--version",),
    "no command": ("nonsense",),
    "demo": ("demo", "--out", "{new}", "-v"),
    "doctor": ("doctor", *SOURCES),
    "audit": ("audit", *SOURCES, "--out", "{new}", "-v"),
    "audit --format json": ("audit", *SOURCES, "--out", "{new}", "-v", "--format", "json"),
    "watch": ("watch", "{new}", *SOURCES, "--rounds", "2", "--interval", "1s", "-v"),
    "scan": ("scan", *SOURCES[:2], "--out", "{new}", "-v"),
    "collect": ("collect", "--bookies", "{place}/bookies", "--out", "{new}", "-v"),
    "dump": ("dump", "zk://127.0.0.1:1/ledgers", "{new}"),
    "dump to standard output": ("dump", "zk://127.0.0.1:1/ledgers", "-"),
    "status": ("status", "{place}/runs"),
    "report": ("report", "{place}/runs/1", "--all"),
    "report --format json": ("report", "{place}/runs/1", "--format", "json"),
    "diff": ("diff", "{place}/runs/1", "{place}/runs/2"),
    "compare": ("compare", "dump://{place}/metadata.jsonl", "dump://{place}/metadata.jsonl", "-v"),
    "history": ("history", "{place}/runs"),
    "decommission": ("decommission", "{place}/runs/1", "bk-a:3181"),
    "plan make": ("plan", "{place}/runs/1", "--out", "{new}.toml"),
    "plan show": ("plan", "show", "{place}/plan.toml"),
    "plan check": ("plan", "check", "{place}/plan.toml", "--run", "{place}/runs/2"),
    "space": ("space", "{place}/runs/1"),
    "simulate": ("simulate", "{place}/runs/1"),
    "prune": ("prune", "{place}/runs", "--keep-last", "1"),
    "explain run": ("explain", "run", "{place}/runs/1"),
    "explain ledger": ("explain", "ledger", "7", "--run", "{place}/runs/1"),
    "explain bookie": ("explain", "bookie", "bk-a:3181", "--run", "{place}/runs/1"),
    "explain topic": ("explain", "topic", "a/b/c", "--run", "{place}/runs/1"),
    "explain check": ("explain", "check"),
    "ledger show": ("ledger", "show", "1", *SOURCES[:2]),
    "ledger list": ("ledger", "list", *SOURCES[:2]),
    "conf list": ("conf", "list"),
    "conf show": ("conf", "show", "schemas/tables.json"),
    "conf path": ("conf", "path", "schemas/tables.json"),
    "decode": ("decode", "cookie", "{place}/VERSION"),
    "encode": ("encode", "availability", "{place}/entries", "--out", "{new}"),
    "simulate --format csv": ("simulate", "{place}/runs/1", "--format", "csv"),
    "simulate --format parquet": ("simulate", "{place}/runs/1", "--format", "parquet"),
    "decommission --format jsonl": ("decommission", "{place}/runs/1", "bk-a:3181", "--format", "jsonl"),
    "help": ("help",),
    "help --man": ("help", "--man"),
    "version": ("version",),
}
"""A call of every command, by what it shows; ``{new}`` is a path that nothing has yet."""


def functions(
    group: click.Group = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Callable[..., Any] | None]]:
    """Yield all commands of the program, including those of groups, with the function of each."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from functions(command, (*words, name))
        else:
            yield (*words, name), command.callback


def known_row(finding: Finding, finished: int) -> dict[str, Any]:
    """Return the row of the table changes that later runs compare a finding with."""
    facts = {"severity": str(finding.severity), "confidence": str(finding.confidence), "missing": 0}
    known_columns = {f"known_{name}": value for name, value in facts.items()}
    row = change_row(finding, finished, "new", trouble=finding.fingerprint)
    return row | facts | known_columns


def prepare(place: Path) -> None:
    """Write the runs, the plan and the sources that the calls name."""
    tallies = [tally("entry-lost", "critical"), tally("below-ack-quorum", "error", confidence="suspect")]
    findings = (LOST, replace(BELOW, fingerprint="fedcba9876543210"))
    run_report = report(tallies, findings, coverage(True), changes=None, suppressions=[])
    bookie = {"bookie_id": "bk-a:3181", "named": True, "found": True, "read": "read", "replicas": 2}
    segments = [{"first_entry_id": 0, "ensemble": ["bk-a:3181"]}]
    ledger = {"scope_id": 0, "path": "/l/7", "status": "ok", "state": "CLOSED", "version": 1, "length": 70}
    ledger |= {"last_entry_id": 6, "ensemble_size": 1, "write_quorum": 1, "ack_quorum": 1}
    ledger |= {"segments": segments}
    for name in ("1", "2"):
        made_run(
            place / "runs" / name,
            findings,
            run_report,
            changes=[known_row(finding, run_report.run.finished) for finding in findings],
            bookies=[bookie | {"ledgers": 2, "depending": 2}],
            identities=[{"bookie_id": "bk-a:3181", "aliases": []}],
            ledgers=[ledger | {"ledger_id": finding.ledger_id} for finding in findings],
        )
        run = place / "runs" / name
        (run / "tables" / "changes" / "_SUCCESS").touch()
        sizes = {part.name: part.stat().st_size for part in (run / "findings").iterdir()}
        options = {"fail_on": "error", "fail_on_suspect": False}
        (run / "manifest.json").write_text(json.dumps({"identity": {"options": options}, "findings": sizes}))
    sample = files("auditor.demo") / "sample" / "metadata.jsonl.gz"
    (place / "metadata.jsonl").write_bytes(gzip.decompress(sample.read_bytes()))
    (place / "VERSION").write_text(COOKIE)
    (place / "entries").write_text("0-9,12\n")
    (place / "bookies" / "bk-a" / "current").mkdir(parents=True)


@contextmanager
def replaced_audits(place: Path) -> Iterator[None]:
    """Let commands that need Spark or a server use results that were made before, stage by stage."""
    import pytest

    from auditor.demo.sample import DemoResult
    from auditor.sources.metadata.dump.save import DumpSummary

    def work(progress: Any) -> None:
        for number, stage in enumerate(AuditStage, 1):
            progress.stage(stage, number, len(AuditStage))
            progress.table("ledgers")
            time.sleep(0.005)  # for the reader to leave meanwhile

    def report_of_run() -> Report:
        return Report.from_json((place / "runs" / "1" / "report.json").read_bytes())

    def run(audit: Any, _: Any, progress: Any) -> Report:
        work(progress)
        shutil.copytree(place / "runs" / "1", audit.out)
        return report_of_run()

    def scan(_: Any, __: Any, progress: Any) -> dict[str, int]:
        work(progress)
        return {"ledgers": 2, "marks": 0}

    def show(out: str, _: Any, progress: Any) -> DemoResult:
        work(progress)
        shutil.copytree(place / "runs" / "1", out)
        return DemoResult(report_of_run(), [("entry-lost", "7", None)], [])

    def save(_: Any, out: Any, __: Any) -> DumpSummary:
        for _ in range(2_000):
            out.write(ZNODE.encode())
        return DumpSummary(2_000, 1, [("/ledgers/x", "no permission")])

    @contextmanager
    def compare(source: str, copy: str, *options: Any) -> Iterator[tuple[Comparison, Any]]:
        work(options[-1])
        sides = [StoreSummary(uri, "zxid 0x7", "flat") for uri in (source, copy)]
        yield Comparison(sides[0], sides[1], (), ("owners were not compared",), ()), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auditor.audit.audit.Audit.run", run)
        patch.setattr("auditor.audit.audit.Audit.scan", scan)
        patch.setattr("auditor.demo.sample.show", show)
        patch.setattr("auditor.sources.metadata.dump.save.save", save)
        patch.setattr("auditor.compare.stores.compare_stores", compare)
        patch.setattr("auditor.compare.stores.first_differences", lambda *_: ())
        patch.setattr("auditor.spark.session.build_session", lambda *_, **__: None)
        yield


def call(arguments: Sequence[str], keep: dict[int, int | None], closed: Sequence[int]) -> dict[str, Any]:
    """Fork and run a command; read as many bytes of each stream as ``keep`` has, then close the reader.

    None in ``keep`` reads all bytes. Streams in ``closed`` have no file descriptor.
    """
    pipes = {number: os.pipe() for number in (1, 2)}
    for _, writer in pipes.values():
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # or a whole report waits in the pipe
    for number, (reader, _) in pipes.items():
        if keep[number] == 0:
            os.close(reader)
    child = os.fork()
    if child == 0:
        for number, (reader, writer) in pipes.items():
            os.dup2(writer, number)
            os.close(writer)
            if keep[number] != 0:
                os.close(reader)  # or a pipe would not break as long as the command itself can read it
            if number in closed:
                os.close(number)
                name = {1: "stdout", 2: "stderr"}[number]
                setattr(sys, name, None)
                setattr(sys, f"__{name}__", None)
        _run(arguments)
    read: dict[int, bytes] = {1: b"", 2: b""}
    with selectors.DefaultSelector() as selector:
        for number, (reader, writer) in pipes.items():
            os.close(writer)
            if keep[number] != 0:
                selector.register(reader, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select():
                limit = keep[key.data]
                read_size = 65_536 if limit is None else limit - len(read[key.data])
                data = os.read(key.fd, read_size)
                read[key.data] += data
                if not data or (len(data) == read_size and limit is not None):
                    selector.unregister(key.fd)
                    os.close(key.fd)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {"code": code, "stdout": read[1].decode("utf-8", "replace"), "stderr": read[2].decode()}


def _run(arguments: Sequence[str]) -> None:
    """Run a command as the program does, and end the process as Python does."""
    code: Any = 0
    try:
        main(list(arguments), prog_name="bkaudit")
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        code = 1
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                code = 120
        os._exit(code)


def bytes_to_read(moment: str, size: int) -> int | None:
    """Return how many bytes of an output of this size are read before the reader leaves. None reads all."""
    bytes_of: dict[str, int | None] = {"closed": None, "start": 0, "midway": size // 2}
    return bytes_of.get(moment, max(size - 1, 0))


def matrix(place: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every call with every stream left at every moment: names of call and cell, and the outcome."""
    whole: dict[int, int | None] = {1: None, 2: None}
    for name, arguments in CASES.items():

        def run(cell: str, keep: dict[int, int | None], closed: Sequence[int] = ()) -> dict[str, Any]:
            new = place / "new" / f"{name}-{cell}".replace(" ", "_")  # noqa: B023
            words = [word.format(place=place, new=new) for word in arguments]  # noqa: B023
            outcome = call(words, keep, closed)
            new_paths = sorted(str(file.relative_to(new.parent)) for file in new.parent.rglob("*"))
            shutil.rmtree(new.parent)
            new.parent.mkdir()
            cut = str(new)
            texts = {key: outcome[key].replace(cut, "NEW") for key in ("stdout", "stderr")}
            files = [RUN_NAME.sub("RUN", file.replace(new.name, "NEW", 1)) for file in new_paths]
            return outcome | texts | {"files": files}

        undisturbed = run("undisturbed", whole)
        yield name, "undisturbed", undisturbed
        for stream, numbers in STREAMS.items():
            for moment in MOMENTS:
                sizes = {1: len(undisturbed["stdout"].encode()), 2: len(undisturbed["stderr"].encode())}
                keep = whole | {number: bytes_to_read(moment, sizes[number]) for number in numbers}
                closed = numbers if moment == "closed" else ()
                yield name, f"{stream} {moment}", run(f"{stream} {moment}", keep, closed)


def write_all(place: Path) -> None:
    """Print the outcome of every cell as JSON."""
    prepare(place)
    (place / "new").mkdir()
    os.chdir(place)
    with replaced_audits(place):
        plan = call(["plan", f"{place}/runs/1", "--out", f"{place}/plan.toml"], {1: None, 2: None}, ())
        assert plan["code"] == 0, plan
        for name in COMMAND_HELP_TEXTS:
            main.get_command(click.Context(main), name)
        began = time.monotonic()
        outcomes: dict[str, dict[str, Any]] = {}
        for name, cell, outcome in matrix(place):
            outcomes.setdefault(name, {})[cell] = outcome
            print(f"{time.monotonic() - began:6.1f} s  {name}, {cell}: {outcome['code']}", file=sys.stderr)
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))

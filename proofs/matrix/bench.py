"""Audits of cells, each made once. Commands run in this process and share one Spark session."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow.parquet as pq
from click.testing import CliRunner

from auditor.cli import main
from auditor.notebook.run import Run, open_run
from proofs.matrix.cells import NO_VALUE, OPTIONS, SOURCES, Cell
from proofs.matrix.damage import SOUND, Damage, damage_file
from proofs.matrix.places import Place, Places, served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELL_LIMIT_S = 300
"""Longest time of a command in seconds."""

OWNED = ("pulsar-a",)
"""Corpora with an application that refers to their ledgers."""

LATER = "2200-01-01T00:00:00Z"
SUPPRESSIONS = """[[suppress]]
id = "orphan-*"
reason = "known"
until = 9999-12-31
[[suppress]]
id = "bookie-unread"
reason = "expired"
until = 2020-01-01
"""
SCRIPT = """#!/bin/sh
for address; do echo /r${#address}; done
"""
ENFORCED = "rack,enforceMinNumRacksPerWriteQuorum=true"
CONFIGURATION = "minorCompactionThreshold=0.3\nmajorCompactionThreshold=0.7\n"
LISTING = "name,size\nno/such/object,12\n"

Row = dict[str, Any]


class Hang(Exception):  # noqa: N818
    """The error that a command did not end within its time limit."""


@dataclass(frozen=True)
class Outcome:
    """The arguments, exit code and output of one command."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    def writes(self, form: str) -> bool:
        """Return whether standard output is a report in this format."""
        return self.arguments[-2:] == ("--format", form)

    @property
    def command(self) -> str:
        return f"bkaudit {shlex.join(self.arguments)}"


@dataclass(frozen=True)
class Audit:
    """The audit of one cell. ``run`` is None if it ended without a report."""

    cell: Cell
    place: Place
    outcome: Outcome
    path: Path
    run: Run | None
    findings: tuple[Row, ...] = ()
    damage: Damage = SOUND

    @property
    def by_fingerprint(self) -> dict[str, Row]:
        return {row["fingerprint"]: row for row in self.findings}


@dataclass
class Bench:
    """The audits of all cells, with their files below ``root``."""

    spark: SparkSession
    root: Path
    audits: dict[Cell, Audit] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.places = Places(self.root / "places")
        self._open = ExitStack()
        self._served: tuple[Place, str] | None = None
        self._collections: dict[tuple[Path, bool, str], tuple[Path, Damage]] = {}
        self._files = {
            "suppressions": self._file("suppressions.toml", SUPPRESSIONS),
            "bookie_conf": self._file("bk_server.conf", CONFIGURATION),
            "offload_listing": self._file("listing.csv", LISTING),
            "rack_script": self._file("racks.sh", SCRIPT),
        }
        self._files["rack_script"].chmod(0o755)

    def close(self) -> None:
        self._open.close()
        self.places.close()

    def audit(self, cell: Cell) -> Audit:
        """Return the audit of a cell. The first call makes it, later calls reuse it."""
        if cell not in self.audits:
            self.audits[cell] = self._audit(cell)
            self.count += 1
        return self.audits[cell]

    def command(self, *arguments: str, in_spark: bool = True) -> Outcome:
        """Run ``bkaudit`` in this process."""
        session = (lambda: self.spark) if in_spark else None
        with time_limit(CELL_LIMIT_S, self.spark):
            result = CliRunner().invoke(main, list(arguments), obj=session, env={"COLUMNS": "80"})
        return Outcome(tuple(arguments), result.exit_code, result.stdout, result.stderr)

    def sources(self, cell: Cell) -> tuple[Place, str, list[str], Damage]:
        """Prepare a cell's data; return its place, metadata URI, ``--bookies`` values and damage."""
        place = self.places.damaged(cell.corpus, cell.metadata, cell.damage)
        uri = self._live(place) if cell.metadata == "live" else place.uri(cell.metadata)
        damage = place.damage
        sources = []
        for part in SOURCES[cell.bookies]:
            if part == "rpc":
                sources.append("rpc:")
            elif part == "directories":
                sources.append(str(place.bookies))
            elif part == "inventory":
                sources.append(str(inventory(place)))
            else:
                logs = part == "collection-with-logs"
                directory, spoilt = self._collection(place, logs, cell.damage)
                sources.append(str(directory))
                damage |= spoilt
        return place, uri, sources, damage

    def arguments(self, cell: Cell, place: Place) -> list[str]:
        """Return a cell's options as command-line arguments."""
        flags: list[str] = []
        for name, value in cell.options:
            flag = f"--{name.replace('_', '-')}"
            if name == "offload_listing" and (cell.corpus not in OWNED or cell.option("owners") == NO_VALUE):
                continue  # wrong usage: there are no owners
            if name == "rack_script" and cell.option("racks") != OPTIONS["racks"][0]:
                continue  # wrong usage: there is one mapping
            if name in self._files:
                flags += [flag, str(self._files[name])]
            elif name == "entry_logs":
                flags += {
                    "yes": ["--entry-logs"],
                    "deep": ["--entry-logs", "--deep"],
                    "all": ["--entry-logs", "--deep", "--digest-percent", "100"],
                }[value]
            elif name == "since":
                plain = self.audit(cell.plain())
                flags += [flag, str(plain.path)] if plain.run is not None else []
            elif name == "racks":
                flags += [flag, str(racks(place, value))]
            elif value == "enforced":
                flags += [flag, ENFORCED]
            elif name == "fail_on_suspect":
                flags.append(flag)
            elif value == "later":
                flags += [flag, LATER]
            else:
                flags += [flag, value]
        if cell.metadata == "live" and place.scan_time is not None and cell.option("scan_time") == "own":
            flags += ["--scan-time", str(place.scan_time)]
        return [*flags, "--timeout", "3"]

    def _audit(self, cell: Cell) -> Audit:
        if cell.option("since") != OPTIONS["since"][0]:
            self.audit(cell.plain())  # before the store of this audit starts
        place, uri, sources, damage = self.sources(cell)
        out = self.root / "runs" / f"{crc32(cell.name.encode()):08x}" / "run"
        shutil.rmtree(out.parent, ignore_errors=True)
        flags = [argument for source in sources for argument in ("--bookies", source)]
        arguments = ["audit", "--metadata", uri, *flags, "--out", str(out), *self.arguments(cell, place)]
        outcome = self.command(*arguments)
        if not (out / "report.json").exists():
            return Audit(cell, place, outcome, out, None, damage=damage)
        rows = tuple(pq.read_table(out / "findings").to_pylist())
        return Audit(cell, place, outcome, out, open_run(out), rows, damage)

    def _live(self, place: Place) -> str:
        # The leases of an etcd expire and delete the registrations, so each audit gets a new server.
        if self._served is None or self._served[0] != place or place.on_etcd:
            self._open.close()
            uri = self._open.enter_context(served(place, self.root / "server"))
            self._served = place, uri
        return self._served[1]

    def _collection(self, place: Place, logs: bool, damage: str) -> tuple[Path, Damage]:
        kind, _, target = damage.partition(":")
        key = place.root, logs, damage if target == "collection" else NO_VALUE
        if key not in self._collections:
            out = self.root / "collections" / f"{crc32(repr(key).encode()):08x}"
            shutil.rmtree(out, ignore_errors=True)
            out.parent.mkdir(exist_ok=True)
            flags = ["--bookies", str(place.bookies), "--out", str(out), *["--entry-logs"][: int(logs)]]
            outcome = self.command("collect", *flags, in_spark=False)
            assert outcome.exit_code in (0, 3), outcome.stderr
            spoilt = Damage()
            if target == "collection":
                random = Random(crc32(repr((place.corpus, damage)).encode()))
                files = sorted(path for ending in ("json", "parquet") for path in out.rglob(f"*.{ending}"))
                for way in random.sample(("empty", "cut", "missing"), 2) if kind == "mixed" else [kind]:
                    file = random.choice([path for path in files if path.exists()])
                    damage_file(way, file, files[0] if file != files[0] else files[-1], random)
                    spoilt |= Damage(frozenset(place.ids()), paths=(str(file),))
            self._collections[key] = out, spoilt
        return self._collections[key]

    def _file(self, name: str, text: str) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        file = self.root / name
        file.write_text(text)
        return file


def inventory(place: Place) -> Path:
    """Write an inventory file of a place's bookie directories; return its path."""
    lines = []
    for id, directory in place.ids().items():
        lines.append(f'[bookies."{id}"]')
        roles: dict[str, list[str]] = {}
        for below in sorted(path for path in directory.iterdir() if path.is_dir()):
            role = next((role for role in ("journal", "index") if role in below.name), "ledgers")
            roles.setdefault(role, []).append(str(below))
        lines += [f"{role} = {paths!r}" for role, paths in roles.items()]
    file = place.root / "inventory.toml"
    file.write_text("\n".join([*lines, ""]))
    return file


def racks(place: Place, form: str) -> Path:
    """Write a mapping of a place's bookies to two racks; return its path.

    The JSON form is Pulsar's, with an omitted bookie and racks of different depths.
    """
    ids = [*place.ids()]
    if form == "columns":
        file, text = "racks", "".join(f"{id} /r{number % 2}\n" for number, id in enumerate(ids))
    elif form == "toml":
        lines = [f'"{id}" = "/z{number % 2}/u{number % 3}"' for number, id in enumerate(ids)]
        file, text = "racks.toml", "\n".join(["[bookies]", *lines, ""])
    else:
        rack_by_id = {id: {"rack": "east/r1" if number else "r2"} for number, id in enumerate(ids[:-1])}
        file, text = "racks.json", json.dumps({"default": rack_by_id})
    (place.root / file).write_text(text)
    return place.root / file


@contextmanager
def time_limit(seconds: int, spark: SparkSession) -> Iterator[None]:
    """Raise `Hang` if the block takes longer than ``seconds``, and cancel its Spark jobs."""

    def ring(number: int, frame: FrameType | None) -> None:
        spark.sparkContext.cancelAllJobs()
        raise Hang(f"no end within {seconds} s")

    before: Callable[[int, FrameType | None], Any] | int | None = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)  # commands run in the main thread, so the signal can end them
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

"""Calls of all commands, drawn from click's parameters, so that a new command or option needs no line here.

An option's or argument's name decides its value. An option with an unknown name gets a value by its type, or
is left out. An argument with an unknown name fails the trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import click

from auditor.cli import main
from auditor.cli.decode import FILE_KINDS
from tests.command_lines import program_context
from tests.hostile.ground import BOOKIES, Source, TrialData

ROOT = Path(__file__).parents[2]
SPARK = ("demo", "audit", "scan", "watch", "compare")
"""Commands that start Spark by themselves: they take seconds."""

EXCLUDED = {"master", "driver_memory", "listen", "rack_script", "start_spark", "in_spark", "help", "version"}
"""Options of Spark's start, of a port and of a program, and those that end at once."""


@dataclass(frozen=True)
class Input:
    """An input that a call reads.

    Args:
        name: Its path, relative to the directory of the call.
        kind: ``run``, ``runs``, ``metadata``, ``bookies``, ``collected``, ``plan``, ``text`` or ``decode``.
        copied: The original that has to be copied for it.
    """

    name: str
    kind: str
    copied: str


@dataclass
class Call:
    """A call of a command.

    Args:
        command: The words that name it; for a job, the path of its file.
        words: All arguments after the program's name.
        inputs: The inputs that it reads.
        outputs: The files and directories that it writes, relative to the directory of the call.
        servers: The kinds of servers that it contacts: ``zookeeper`` or ``etcd``.
    """

    command: tuple[str, ...]
    words: list[str] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the command as a key of the summary."""
        return " ".join(self.command)

    @property
    def is_slow(self) -> bool:
        """Return whether the command has work for Spark."""
        return self.command[0] in SPARK or self.command[0].startswith("jobs/")


def commands() -> dict[tuple[str, ...], click.Command]:
    """Return all commands, subcommands and jobs, by the words that name them."""
    by_words = dict(_below(main, program_context(), ()))
    for job in sorted((ROOT / "jobs").glob("*.py")):
        by_words[f"jobs/{job.name}",] = by_words[job.stem,]
    return by_words


def _below(
    command: click.Command, context: click.Context, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from _below(child, click.Context(child, context, info_name=name), (*words, name))


def draw(trial_data: TrialData, words: tuple[str, ...], random: Random) -> Call:
    """Return a call of a command with sensible arguments."""
    return _Drawer(trial_data, words, random).call()


class _Drawer:
    """A generator of the arguments of one call."""

    def __init__(self, trial_data: TrialData, words: tuple[str, ...], random: Random) -> None:
        self._trial_data, self._random = trial_data, random
        self._command = commands()[words]
        self._call = Call(words)
        self._source = self._draw_source(words)
        self._decoded = random.choice([*FILE_KINDS])

    def _draw_source(self, words: tuple[str, ...]) -> Source:
        names = [*self._trial_data.sources]
        if words[0] in ("doctor", "ledger", "audit", "scan", "dump", "plan") and "live" in names:
            names += ["live"] * (len(names) // 3)
        return self._trial_data.sources[self._random.choice(names)]

    def call(self) -> Call:
        """Return a call with required arguments, the command's usual ones, and sometimes another."""
        words: list[str] = []
        options = [param for param in self._command.params if isinstance(param, click.Option)]
        names = {option.name for option in options}
        chance = 1.2 / max(len(options), 1) if self._call.is_slow else 1.0 / max(len(options), 3)
        for option in options:
            name = option.name or ""
            usual = name in ("metadata", "bookies", "out", "run") or (name, self._call.command[0]) in _USUAL
            if name in EXCLUDED or not (usual or option.required or self._random.random() < chance):
                continue
            values = self._value(name, option)
            if values is None:
                continue
            flag = option.opts[0]
            if option.is_flag:
                words.append(self._random.choice([flag, *option.secondary_opts]))
            else:
                words += [flag, *values]
        if "--timeout" not in words and "timeout" in names and self._call.servers:
            words += ["--timeout", "2"]
        if "--cluster" in words and "--conf" not in words:
            words += ["--conf", *(self._value("conf", None) or ())]
        for argument in self._command.params:
            if isinstance(argument, click.Argument):
                values = self._value(argument.name or "", argument)
                assert values is not None, f"{self._call.name}: nothing is known of {argument.name}"
                words += values
        command = self._call.command
        self._call.words = [*([command[0]] if command[0].startswith("jobs/") else command), *words]
        return self._call

    def _value(self, name: str, param: click.Parameter | None) -> list[str] | None:
        draw_value: Callable[[], list[str] | None] | None = getattr(self, f"_{name}_value", None)
        if draw_value is not None:
            return draw_value()
        if isinstance(param, click.Argument):
            return None
        kind = param.type if param is not None else None
        if isinstance(param, click.Option) and param.is_flag:
            return []
        if isinstance(kind, click.Choice):
            return [str(self._random.choice([*kind.choices]))]
        if isinstance(kind, (click.types.IntParamType, click.IntRange)):
            return ["2"]
        if isinstance(kind, (click.types.FloatParamType, click.FloatRange)):
            return ["1.5"]
        return None

    def _read(self, name: str, kind: str, copied: str | None = None) -> str:
        """Add an input to the call, and return the input's path."""
        self._call.inputs.append(Input(name, kind, copied or name))
        return str(self._trial_data.place / name)

    def _file(self, name: str) -> list[str]:
        return [self._read(name, "text")]

    # What parameters are, by their names.

    def _metadata_value(self) -> list[str]:
        return [self._uri(self._source)]

    def _uri(self, source: Source) -> str:
        if source.metadata is None:
            self._call.servers.append(source.uri.partition(":")[0].replace("zk", "zookeeper"))
        else:
            self._read(source.metadata, "metadata", source.metadata.partition("/")[0])
        return source.uri.format(place=self._trial_data.place)

    def _bookies_value(self) -> list[str]:
        if self._call.command[0] == "decommission":
            return [self._random.choice(_LONG_BOOKIES)]
        words: list[str] = []
        for name in self._source.bookies:
            kind = {"collected": "collected", "inventory.toml": "text"}.get(name, "bookies")
            if self._call.command[-1].startswith(("collect", "jobs/collect")) and kind == "collected":
                name, kind = "healthy/bookies", "bookies"
            words.append(self._read(name, kind, name.partition("/")[0]))
            if kind == "text":
                self._call.inputs.append(Input("healthy/bookies", "bookies", "healthy"))
        return words

    def _out_value(self) -> list[str]:
        name = "new/plan.toml" if self._call.command[0] == "plan" else "new/out"
        self._call.outputs.append(name)
        return [str(self._trial_data.place / name)]

    def _forms_value(self) -> list[str]:
        form = self._random.choice(["text", "json", "html", "csv", "jsonl", "sarif", "openmetrics"])
        if self._random.random() < 0.5:
            return [form] if form != "html" else ["text"]
        self._call.outputs.append("new/report")
        return [f"{form}={self._trial_data.place}/new/report"]

    def _run_value(self) -> list[str]:
        if self._call.command == ("plan", "check"):
            return [self._read("runs/2", "run")]
        return [self._read(self._random.choice(["runs/1", "runs/2", "healthy-runs/1"]), "run")]

    def _runs_value(self) -> list[str]:
        if self._call.command[0] == "watch":
            self._call.outputs.append("new/runs")
            return [str(self._trial_data.place / "new" / "runs")]
        return [self._read("runs", "runs")]

    def _directory_value(self) -> list[str]:
        return self._runs_value()

    def _old_value(self) -> list[str]:
        return [self._read("runs/1", "run")]

    def _new_value(self) -> list[str]:
        return [self._read("runs/2", "run")]

    def _since_value(self) -> list[str]:
        return [self._read("runs/1", "run")]

    def _kind_value(self) -> list[str]:
        return [self._decoded]

    def _file_value(self) -> list[str]:
        if self._call.command == ("decode",):
            return [self._read(f"decode/{self._decoded}", "decode")]
        if self._call.command[0] == "encode":
            return [self._read("entries.txt", "text")]
        return [self._read("plan.toml", "plan")]

    def _availability_value(self) -> list[str]:
        return [self._read("decode/availability", "decode")]

    def _names_value(self) -> list[str]:
        self._call.outputs.append("new/dump.jsonl")
        return [self._uri(self._live()), str(self._trial_data.place / "new" / "dump.jsonl")]

    def _live(self) -> Source:
        live = [source for source in self._trial_data.sources.values() if source.metadata is None]
        return self._random.choice(live)

    def _source_value(self) -> list[str]:
        return self._metadata_value()

    def _copy_value(self) -> list[str]:
        return self._metadata_value()

    def _id_value(self) -> list[str]:
        if self._call.command == ("explain", "bookie"):
            return [self._random.choice(_LONG_BOOKIES)]
        return [self._source.ledger if self._call.command[0] == "ledger" else self._random.choice("12")]

    def _name_value(self) -> list[str]:
        names = {"check": "entry-lost", "topic": "public/default/t"}
        return [names.get(self._call.command[1], "schemas/tables.json")]

    def _words_value(self) -> list[str]:
        return self._random.choice([[], ["audit"], ["plan", "show"]])

    def _scope_value(self) -> list[str]:
        return []

    def _conf_value(self) -> list[str]:
        return self._file("conf.toml")

    def _cluster_value(self) -> list[str]:
        self._call.inputs += [
            Input("healthy/metadata.jsonl", "metadata", "healthy"),
            Input("runs", "runs", "runs"),
        ]
        return ["one"]

    def _suppressions_value(self) -> list[str]:
        return self._file("suppressions.toml")

    def _credentials_value(self) -> list[str]:
        return self._file("credentials.toml")

    def _racks_value(self) -> list[str]:
        return self._file(self._random.choice(["racks.txt", "racks.toml", "racks.json"]))

    def _mapping_value(self) -> list[str]:
        return self._racks_value()

    def _bookie_conf_value(self) -> list[str]:
        return self._file("bk_server.conf")

    def _offload_listing_value(self) -> list[str]:
        return self._file("listing.csv")

    def _rounds_value(self) -> list[str]:
        return ["1"]

    def _interval_value(self) -> list[str]:
        return ["1s"]

    def _lose_value(self) -> list[str]:
        return ["bookie", self._random.choice(_LONG_BOOKIES)]

    def _together_value(self) -> list[str]:
        return ["1", "bookie"]

    def _bookie_value(self) -> list[str]:
        return [self._random.choice([*_LONG_BOOKIES, *BOOKIES])]

    def _ledger_value(self) -> list[str]:
        return ["1"]

    def _ledger_id_value(self) -> None:
        return None  # the argument names it

    def _ledger_scope_id_value(self) -> list[str]:
        return ["0"]

    def _owners_value(self) -> list[str] | None:
        return ["none"] if self._call.command[0] != "compare" else None


_LONG_BOOKIES = ("bk-a.rack1", "bk-b.rack1", "bk-c.rack2")
_USUAL = {
    ("rounds", "watch"),
    ("interval", "watch"),
    ("keep_last", "prune"),
    ("entry_logs", "collect"),
}

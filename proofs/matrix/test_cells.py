"""The cells of the matrix contain every possible pair of values, and depend only on the seed."""

from __future__ import annotations

import re
from itertools import combinations, product
from pathlib import Path

import pytest

from auditor.cli import COMMAND_HELP_TEXTS as EVERY_COMMAND
from auditor.model.options import option_types
from proofs.matrix import commands
from proofs.matrix.cells import (
    COMMANDS,
    KINDS,
    METADATA,
    NO_VALUE,
    OPTIONS,
    SOURCES,
    TARGETS,
    UNUSED_OPTIONS,
    Cell,
    pairwise,
)

CORPORA = ("etcd", "flat-v1")


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return pairwise(7, CORPORA)


def test_cell_parsed_from_its_name_equals_the_cell(cells: list[Cell]) -> None:
    assert [Cell.parse(cell.name) for cell in cells] == cells


def test_equal_seeds_give_equal_cells_in_equal_order(cells: list[Cell]) -> None:
    assert pairwise(7, CORPORA) == cells


def test_damage_kinds_meet_all_options_and_sources_meet_all_commands(cells: list[Cell]) -> None:
    names = ("metadata", "bookies", "kind", "target", "command", *OPTIONS)
    pairs = set()
    for cell in cells:
        values = [cell.metadata, cell.bookies, cell.kind, cell.target, cell.command]
        pairs |= {*combinations(zip(names, [*values, *map(cell.option, OPTIONS)], strict=True), 2)}
    for kind, target in product(KINDS, TARGETS):
        if target != "journal":  # neither corpus has a journal
            assert (("kind", kind), ("target", target)) in pairs
    for kind, metadata in product(KINDS, METADATA):
        assert (("metadata", metadata), ("kind", kind)) in pairs
    for (option, ways), kind in product(OPTIONS.items(), KINDS):
        assert {(("kind", kind), (option, way)) for way in ways} <= pairs
    for bookies, command in product(SOURCES, COMMANDS):
        assert (("bookies", bookies), ("command", command)) in pairs


def test_every_audit_option_is_in_the_matrix_or_listed_as_unused() -> None:
    assert {*OPTIONS} | {*UNUSED_OPTIONS} == {*option_types()}
    assert not {*OPTIONS} & {*UNUSED_OPTIONS}


def test_every_command_is_in_the_matrix_or_listed_as_unused() -> None:
    run_commands = {*re.findall(r'command\(\s*"(\w+)"', Path(commands.__file__).read_text("utf-8"))}
    assert {*run_commands, *COMMANDS} | {*commands.UNUSED_COMMANDS} == {*EVERY_COMMAND}
    assert not {*run_commands, *COMMANDS} & {*commands.UNUSED_COMMANDS}


def test_companion_cells_drop_options_that_change_no_finding() -> None:
    cell = Cell.parse("flat-v1/live/directories-and-rpc/cut:index/entry_logs=deep,samples=1,since=plain/scan")
    assert [single.name for single in cell.single()] == [
        "flat-v1/live/directories/cut:index/entry_logs=deep,since=plain/doctor",
        "flat-v1/live/rpc/cut:index/entry_logs=deep,since=plain/doctor",
    ]
    assert cell.plain().name == f"flat-v1/live/directories-and-rpc/{NO_VALUE}/entry_logs=deep/doctor"
    less = cell.reads_less()
    assert {name: less.option(name) for name in ("entry_logs", "since", "samples")} == {
        "entry_logs": "no",
        "since": "no",
        "samples": "20",
    }

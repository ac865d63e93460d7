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
    APART,
    COMMANDS,
    KINDS,
    METADATA,
    NONE,
    OPTIONS,
    SOURCES,
    TARGETS,
    Cell,
    pairwise,
)

CORPORA = ("etcd", "flat-v1")


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return pairwise(7, CORPORA)


def test_a_cell_is_made_again_from_its_name(cells: list[Cell]) -> None:
    assert [Cell.parse(cell.name) for cell in cells] == cells


def test_the_order_follows_from_the_seed(cells: list[Cell]) -> None:
    assert pairwise(7, CORPORA) == cells


def test_every_pair_that_can_meet_does(cells: list[Cell]) -> None:
    names = ("metadata", "bookies", "kind", "target", "command", *OPTIONS)
    seen = set()
    for cell in cells:
        values = [cell.metadata, cell.bookies, cell.kind, cell.target, cell.command]
        seen |= {*combinations(zip(names, [*values, *map(cell.option, OPTIONS)], strict=True), 2)}
    for kind, target in product(KINDS, TARGETS):
        if target != "journal":  # neither corpus has a journal
            assert (("kind", kind), ("target", target)) in seen
    for kind, metadata in product(KINDS, METADATA):
        assert (("metadata", metadata), ("kind", kind)) in seen
    for (option, ways), kind in product(OPTIONS.items(), KINDS):
        assert {(("kind", kind), (option, way)) for way in ways} <= seen
    for bookies, command in product(SOURCES, COMMANDS):
        assert (("bookies", bookies), ("command", command)) in seen


def test_every_option_is_in_it_or_said_to_be_apart() -> None:
    assert {*OPTIONS} | {*APART} == {*option_types()}
    assert not {*OPTIONS} & {*APART}


def test_every_command_is_in_it_or_said_to_be_apart() -> None:
    asked = {*re.findall(r'command\(\s*"(\w+)"', Path(commands.__file__).read_text("utf-8"))}
    assert {*asked, *COMMANDS} | {*commands.APART} == {*EVERY_COMMAND}
    assert not {*asked, *COMMANDS} & {*commands.APART}


def test_what_is_compared_shares_what_changes_no_finding() -> None:
    cell = Cell.parse("flat-v1/live/directories-and-rpc/cut:index/entry_logs=deep,samples=1,since=plain/scan")
    assert [each.name for each in cell.single()] == [
        "flat-v1/live/directories/cut:index/entry_logs=deep,since=plain/doctor",
        "flat-v1/live/rpc/cut:index/entry_logs=deep,since=plain/doctor",
    ]
    assert cell.plain().name == f"flat-v1/live/directories-and-rpc/{NONE}/entry_logs=deep/doctor"
    less = cell.reads_less()
    assert {name: less.option(name) for name in ("entry_logs", "since", "samples")} == {
        "entry_logs": "no",
        "since": "no",
        "samples": "20",
    }

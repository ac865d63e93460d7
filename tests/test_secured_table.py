"""docs/sources.md: each store, plain and secured, and each server names an existing release and test."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import pytest

from auditor.embedded.zookeeper import zookeeper_jars
from tests.servers import oxia
from tests.servers.bookies.jars import RELEASES
from tests.servers.zookeeper_debian import debian_jars
from tests.tiers import Tier, tier_reached

ROOT = Path(__file__).parents[1]
COLUMNS = ["store or server", "how it is secured", "what works", "release tested", "test"]


class Row(NamedTuple):
    server: str
    secured: str
    works: str
    releases: str
    test: str


def rows() -> list[Row]:
    text = (ROOT / "docs" / "sources.md").read_text("utf-8")
    lines = text.partition("## Stores and servers\n\n")[2].partition("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == COLUMNS
    return [Row(*row_cells) for row_cells in cells[2:]]


def _zookeeper() -> set[str]:
    names = [path.stem for path in zookeeper_jars()]
    ours = {name.removeprefix("zookeeper-") for name in names if re.match(r"zookeeper-\d", name)}
    debian_jars()  # skips where the package is not
    return ours | {_packaged("libzookeeper-java")}


def _etcd() -> set[str]:
    if shutil.which("etcd") is None:
        pytest.skip("needs etcd")
    return {_packaged("etcd-server")}


def _packaged(name: str) -> str:
    """Return the upstream version of a Debian package."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", name]
    version_text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.split(r"[-+]", version_text)[0]


STARTED_RELEASES: dict[str, Callable[[], set[str]]] = {
    "ZooKeeper": _zookeeper,
    "etcd": _etcd,
    "Oxia": lambda: {oxia.RELEASE},
    "bookies": lambda: {RELEASES[0], RELEASES[-1]},
    "S3": lambda: {f"moto {version('moto')}"},
}
"""The releases that the tests of a server start."""


def test_rows_are_unique_and_every_server_has_a_row() -> None:
    ways = [(row.server, row.secured) for row in rows()]
    assert len(set(ways)) == len(ways)
    assert {row.server for row in rows()} == {*STARTED_RELEASES}


def tier_of_test(file: str, name: str) -> Tier:
    """Return the tier of a test by its code and by its module's fixtures that it uses, even indirectly."""
    module = import_module(file.removesuffix(".py").replace("/", "."))
    highest, pending_names, names = Tier.UNIT, [name], set[str]()
    while pending_names:
        names.add(code_name := pending_names.pop())
        value = getattr(module, code_name, None)
        code = getattr(value, "__wrapped__", value)  # of a fixture
        if callable(code):
            highest = max(highest, tier_reached(code))
            pending_names += [parameter for parameter in signature(code).parameters if parameter not in names]
    return highest


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.server}-{row.secured}")
def test_the_test_of_a_row_starts_a_server(row: Row) -> None:
    file, _, name = row.test.strip("`").partition("::")
    assert tier_of_test(file, name) >= (Tier.CLUSTER if row.server == "bookies" else Tier.SERVER)


@pytest.mark.process
@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.server}-{row.secured}")
def test_a_row_names_a_test_and_the_releases_that_it_starts(row: Row) -> None:
    file, _, name = row.test.strip("`").partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), row.test
    releases = set(row.releases.split(", "))
    assert releases <= STARTED_RELEASES[row.server]()
    if row.server == "bookies":
        assert releases == {RELEASES[0], RELEASES[-1]}

"""``bkaudit collect`` as a scheduler calls it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.sources.bookies.collections.collection import Collection
from tests.sources.bookie_corpora import cookie, make_directory, unpack_bookies

SOURCES = Path(__file__).parents[2] / "docs/sources.md"
BASE_PACKAGES = {"setuptools", "pip"}
"""What an environment has by itself."""


def bkaudit(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_whole_collection_exits_0_and_counts_its_tables(tmp_path: Path) -> None:
    make_directory(tmp_path / "bookies/bk-a_3181/ledgers0", cookie("bk-a:3181", ["/data/ledgers0"]))
    outcome = bkaudit("collect", "--bookies", tmp_path / "bookies", "--out", tmp_path / "out")
    assert outcome.exit_code == 0
    assert [line.split() for line in outcome.stdout.splitlines()] == [
        ["1", "places"],
        ["2", "directories"],
        ["1", "cookies"],
        ["0", "availability"],
        ["1", "journal_tails"],
        ["0", "entry_logs"],
    ]
    assert outcome.stderr == f"bkaudit: the collection is in {tmp_path}/out\n"


def test_unreadable_file_is_reported_and_exits_3(tmp_path: Path) -> None:
    root = unpack_bookies("interleaved-hier", tmp_path)
    outcome = bkaudit("collect", "--bookies", root, "--out", tmp_path / "out", "--threads", 4)
    assert outcome.exit_code == 3
    assert "0/5/5.idx: version 7 is newer than 1" in outcome.stderr
    assert "not read" not in outcome.stdout
    Collection(str(tmp_path / "out")).manifest()


def test_first_unread_paths_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    current = (
        make_directory(tmp_path / "bookies/bk/ledgers0", cookie("bk:3181", ["/data/ledgers0"])) / "current"
    )
    for number in range(25):
        (current / f"{number:x}.log").touch()
    outcome = bkaudit("collect", "--bookies", tmp_path / "bookies", "--out", tmp_path / "out")
    assert outcome.exit_code == 3
    assert outcome.stderr.count("bkaudit: not read: ") == 20
    assert "bkaudit: and 5 more\n" in outcome.stderr


def test_wrong_usage_exits_2(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    (tmp_path / "out").mkdir()
    for arguments in (
        ("--bookies", root),
        ("--bookies", root, "--out", tmp_path / "out"),
        ("--bookies", tmp_path / "gone", "--out", tmp_path / "new"),
        ("--bookies", "rpc:", "--out", tmp_path / "new"),
        ("--bookies", root, "--out", tmp_path / "new", "--threads", 0),
    ):
        assert bkaudit("collect", *arguments).exit_code == 2, arguments


def test_collect_loads_neither_spark_nor_other_store_clients(tmp_path: Path) -> None:
    root = unpack_bookies("flat-v1", tmp_path)
    script = (
        # pyarrow takes pandas where it is there, and does without it.
        "import sys\nsys.modules['pandas'] = None\nfrom auditor.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print('loaded:', *(name for name, module in sys.modules.items() if module), file=sys.stderr)"
    )
    command = [
        sys.executable,
        "-c",
        script,
        "collect",
        "--bookies",
        str(root),
        "--out",
        str(tmp_path / "out"),
    ]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    loaded = set(outcome.stderr.rpartition("loaded:")[2].split())
    assert not loaded & {"pyspark", "py4j", "kazoo", "grpc", "etcd3"}
    # What documents install on a host that only collects is all of it.
    [line] = re.findall(r"pip install --no-deps (.*)", SOURCES.read_text("utf-8"))
    modules = packages_distributions()
    used = {name for module in loaded & modules.keys() for name in modules[module]}
    installed = {"bookkeeper-auditor" if word.endswith(".whl") else word for word in line.split()}
    assert {name.lower() for name in used} <= installed | BASE_PACKAGES

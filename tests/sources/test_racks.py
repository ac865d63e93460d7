"""Mappings of bookies to locations: three kinds of files, and topology scripts."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.model.placement import Location
from auditor.sources.racks import ask_script, locate, mapping_of_pulsar, read_racks

COLUMNS = "# racks\nbk1:3181  /r1/\nbk2\t/r2   # by host\n\n"
TOML = '[bookies]\n"bk1:3181" = "/r1/"\nbk2 = { rack = "/r2", group = "fast" }\n'
JSON = '{"a": {"bk1:3181": {"rack": "r1"}}, "b": {"bk1:3181": {"rack": "r2"}, "bk2": null}}'


def write_file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_two_columns_are_read(tmp_path: Path) -> None:
    path = write_file(tmp_path / "racks", COLUMNS)
    assert read_racks(path) == {
        "bk1:3181": Location("/r1", (), path, "/r1/"),
        "bk2": Location("/r2", (), path, "/r2"),
    }


def test_toml_racks_have_groups(tmp_path: Path) -> None:
    path = write_file(tmp_path / "racks.toml", TOML)
    assert read_racks(path) == {
        "bk1:3181": Location("/r1", (), path, "/r1/"),
        "bk2": Location("/r2", ("fast",), path, "/r2"),
    }


def test_pulsar_racks_are_read(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bookies.json", JSON)
    assert read_racks(path) == {
        "bk1:3181": Location("/r2", ("a", "b"), path, "r2"),
        "bk2": Location(None, ("b",), path, None),
    }


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("racks", "bk1 /r1 /r2\n", ": line 1 has 3 columns; it must have two, a bookie and a location"),
        ("racks", "bk1 /r1\nbk1 /r2\n", ": line 2: bk1 appears twice"),
        ("racks", "bk1 r1\n", ": line 1: 'r1' does not begin with a slash; servers refuse such a location"),
        ("r.toml", "bk1 = 3\n", ": must have one table, [bookies]"),
        ("r.toml", "[bookies]\nbk1 = 3\n", ": bk1: has no location; set one, or a rack and a group"),
        (
            "r.toml",
            "[bookies]\nbk1 = {rack = '/a', zone = 'b'}\n",
            ": bk1: has no location; set one, or a rack and a group",
        ),
        ("r.toml", "[bookies]\nbk1 = {rack = 3}\n", ": bk1: rack and group must be strings"),
        ("r.toml", "[bookies", "not TOML"),
        ("r.json", "[1]", ": Pulsar bookie racks: the value is not an object (at byte 0)"),
        ("racks", None, ": No such file or directory"),
    ],
)
def test_invalid_racks_file_is_a_usage_error(
    tmp_path: Path, name: str, text: str | None, reason: str
) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_racks(str(path))
    assert name in str(error.value)
    assert reason in str(error.value)


def test_racks_file_that_is_not_text_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "racks").write_bytes(b"bk1 /r\xff\n")
    with pytest.raises(UsageError, match=r"is not UTF-8 text \(at byte 6\)"):
        read_racks(str(tmp_path / "racks"))


def script(path: Path, body: str) -> str:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_script_is_called_with_a_hundred_addresses_at_a_time(tmp_path: Path) -> None:
    calls = tmp_path / "asked"
    path = script(tmp_path / "topology.sh", f'echo $# >> {calls}; for a in "$@"; do echo "/r-$a/"; done')
    hosts = [f"127.0.0.{number}" for number in range(1, 151)]
    locations = ask_script(path, [*hosts, "no-such-host.invalid"])
    assert len(locations) == 150
    assert locations["127.0.0.7"] == Location("/r-127.0.0.7", (), path, "/r-127.0.0.7/")
    assert calls.read_text().split() == ["100", "50"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("echo /r1", "printed 1 locations for 2 addresses; servers ignore all locations in this case"),
        ("echo broken >&2; exit 3", "failed with exit code 3: broken"),
        ("exit 1", "failed with exit code 1"),
        ("echo r1 r2", "127.0.0.1: 'r1' does not begin with a slash"),
    ],
)
def test_failing_script_is_a_usage_error(tmp_path: Path, body: str, reason: str) -> None:
    path = script(tmp_path / "topology.sh", body)
    with pytest.raises(UsageError) as error:
        ask_script(path, ["127.0.0.1", "127.0.0.2"])
    assert reason in str(error.value)


def test_missing_script_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        ask_script(str(tmp_path / "none"), ["127.0.0.1"])


def test_a_bookie_is_looked_up_by_its_id_before_its_host() -> None:
    racks = {"bk1:3181": Location("/id"), "bk1": Location("/host"), "10.0.0.1": Location("/there")}
    assert locate("bk1:3181", "10.0.0.1", racks) == Location("/id")
    assert locate("bk1:3182", "10.0.0.1", racks) == Location("/there")
    assert locate("bk1:3182", None, racks) == Location("/host")
    assert locate("bk2:3181", None, racks) is None


def test_last_group_of_a_bookie_decides_its_rack() -> None:
    from auditor.codecs.pulsar.bookie_racks import RackEntry

    mapping = mapping_of_pulsar([RackEntry("a", "bk", "r1"), RackEntry("b", "bk", None)], "here")
    assert mapping == {"bk": Location(None, ("a", "b"), "here", None)}


def test_racks_file_written_by_pulsar_is_read() -> None:
    written = Path(__file__).parents[1] / "data" / "pulsar-racks-4.2.4" / "bookies.json"
    racks = read_racks(str(written))
    assert {name: (location.path, location.groups) for name, location in racks.items()} == {
        "bk1:3181": ("/rack1", ("default",)),
        "bk2:3181": ("/reg/rack2", ("default",)),
        "bk3:3181": ("/reg/rack 3", ("isolated",)),
    }

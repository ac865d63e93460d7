"""``bkaudit decode`` and ``bkaudit ledger``: bytes and records, without Spark."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.kinds import KINDS
from tests.cli.test_doors import bkaudit

V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\tbk1:3181\tbk2:3181\n9\tCLOSED"
GROUP = struct.pack(">qqii", 1, 4, 2, 3)
INDEX = b"BKLE" + struct.pack(">ii", 0, 6) + b"secret" + bytes(1006) + struct.pack(">4q", 9, 0, 9, 9)

GOOD: dict[str, tuple[bytes, Any]] = {
    "ledger-metadata": (V1, lambda value: value["segments"][0]["ensemble"] == ["bk1:3181", "bk2:3181"]),
    "cookie": (
        b'4\nbookieHost: "a:1"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\n',
        lambda value: value["bookie_id"] == "a:1",
    ),
    "availability": (
        struct.pack(">ii", 0, 1) + bytes(56) + GROUP,
        lambda value: value == {"groups": [[1, 4, 2, 3]], "total": 4},
    ),
    "index": (INDEX, lambda value: value["groups"] == [[0, 0, 1, 0], [2, 2, 2, 0]] and value["total"] == 3),
    "last-mark": (struct.pack(">qq", 5, 6), lambda value: value == {"file_id": 5, "offset": 6}),
    "layout": (
        b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1",
        lambda value: value["kind"] == "flat",
    ),
    "service-info": (b"", lambda value: value["endpoints"][0]["port"] == 3181),
    "mark": (b'replica: "bk1:3181"\nctime: 5\n', lambda value: value["replicas"] == ["bk1:3181"]),
    "lock": (b'bookieId: "host"\n', lambda value: value == {"owner": "host"}),
    "vote": (b'bookieId: "bk1:3181"\n', lambda value: value == {"bookie_id": "bk1:3181"}),
    "replication-layout": (b'type: "BASIC"\nversion: 1\n', lambda value: value["version"] == 1),
    "check-all-ledgers-time": (b"\x08\x05", lambda value: value == {"time": 5}),
    "placement-policy-check-time": (b"\x08\x05", lambda value: value == {"time": 5}),
    "replicas-check-time": (b"\x08\x05", lambda value: value == {"time": 5}),
}


def decode(kind: str, data: bytes, *more: str) -> Any:
    extra = ("--bookie-id", "bk1:3181") if kind == "service-info" else ()
    return bkaudit("decode", kind, "-", *extra, *more, input=data)


def test_there_is_a_good_example_of_every_kind() -> None:
    assert set(GOOD) == set(KINDS)


@pytest.mark.parametrize("kind", GOOD)
def test_every_kind_is_decoded_to_json(kind: str) -> None:
    data, is_right = GOOD[kind]
    outcome = decode(kind, data)
    assert outcome.exit_code == 0, outcome.output
    assert is_right(json.loads(outcome.stdout)), outcome.stdout


@pytest.mark.parametrize("kind", GOOD)
def test_damage_is_said_with_its_byte_and_exits_with_5(kind: str) -> None:
    outcome = decode(kind, b"\xff\x00\xff")
    assert outcome.exit_code == 5
    assert outcome.stderr.startswith("bkaudit: ")
    assert "(at byte " in outcome.stderr


def test_a_file_is_read_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "lastMark").write_bytes(bytes(16))
    assert bkaudit("decode", "last-mark", str(tmp_path / "lastMark")).exit_code == 0
    assert bkaudit("decode", "last-mark", str(tmp_path / "none")).exit_code == 2


def test_what_breaks_a_rule_is_shown_all_the_same() -> None:
    outcome = decode("ledger-metadata", V1.replace(b"\n2\n2\n", b"\n3\n2\n"))
    assert outcome.exit_code == 5
    assert json.loads(outcome.stdout)["write_quorum"] == 3
    assert "write quorum 3 is above ensemble size 2" in outcome.stderr


def test_the_server_is_mimicked_where_asked_to() -> None:
    data = struct.pack(">ii", -1, 1) + bytes(56) + GROUP + b"more"
    assert decode("availability", data).exit_code == 5
    outcome = decode("availability", data, "--java")
    assert json.loads(outcome.stdout) == {"groups": [[1, 4, 2, 3]], "total": 4}


def test_entries_are_listed_where_asked_to() -> None:
    assert json.loads(decode("index", INDEX, "--entries").stdout)["entries"] == [0, 2, 3]


def test_a_setting_that_means_nothing_is_usage() -> None:
    outcome = decode("lock", b"", "--java")
    assert (outcome.exit_code, outcome.stderr) == (2, "bkaudit: --java: it means nothing for lock\n")


def test_no_key_is_shown() -> None:
    outcome = decode("index", INDEX)
    assert "secret" not in outcome.output
    assert json.loads(outcome.stdout)["header"]["has_master_key"] is True


@pytest.fixture
def dump(tmp_path: Path) -> str:
    import base64

    lines = []
    layout = b"1\nhierarchical:1"
    for path, data in (("", b""), ("/LAYOUT", layout), ("/00/0000/L0005", V1), ("/00/0000/X1", b"")):
        record = {"path": f"/ledgers{path}", "data": base64.b64encode(data).decode(), "version": 0}
        numbers = dict.fromkeys(("czxid", "mzxid", "ctime", "mtime", "ephemeralOwner"), 0)
        lines.append(json.dumps({**record, **numbers}))
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    return f"dump://{tmp_path}/metadata.jsonl"


@pytest.mark.parametrize(
    "name",
    [
        ("--ledger-id", "5"),
        ("--ledger-id", "5", "--ledger-scope-id", "0"),
        ("--ledger-qualified-name", "00000000000000000000000000000005"),
    ],
)
def test_a_ledger_is_shown_by_any_of_its_names(dump: str, name: tuple[str, ...]) -> None:
    outcome = bkaudit("ledger", "show", "--metadata", dump, *name)
    assert outcome.exit_code == 0, outcome.output
    shown = json.loads(outcome.stdout)
    assert (shown["ledger_id"], shown["scope_id"], shown["metadata"]["last_entry_id"]) == ("5", "0", 9)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ((), "name a ledger"),
        (("--ledger-id", "6"), "has no ledger 6"),
        (("--ledger-id", "5", "--ledger-scope-id", "1"), "scopes other than 0"),
        (("--ledger-qualified-name", "5"), "32 hexadecimal digits"),
        (("--ledger-qualified-name", "0" * 32, "--ledger-id", "0"), "leave the other options out"),
    ],
)
def test_a_ledger_that_is_not_named_well_is_usage(dump: str, name: tuple[str, ...], said: str) -> None:
    outcome = bkaudit("ledger", "show", "--metadata", dump, *name)
    assert outcome.exit_code == 2
    assert said in outcome.stderr


def test_all_ledgers_are_listed_and_what_is_none_is_said(dump: str) -> None:
    outcome = bkaudit("ledger", "list", "--metadata", dump)
    assert [json.loads(line)["ledger_id"] for line in outcome.stdout.splitlines()] == ["5"]
    assert "/ledgers/00/0000/X1" in outcome.stderr
    assert outcome.exit_code == 3

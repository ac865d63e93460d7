"""``bkaudit decode`` and ``bkaudit ledger``: bytes and records, without Spark."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from auditor.cli.decode import FILE_KINDS, MAX_FILE_BYTES
from tests.cli.test_doors import bkaudit
from tests.codecs.journals import MASTER_KEY, journal

LOGS = Path(__file__).parents[1] / "data" / "entry-logs"
V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\tbk1:3181\tbk2:3181\n9\tCLOSED"
GROUP = struct.pack(">qqii", 1, 4, 2, 3)
VALUE = struct.pack(">ii", 0, 1) + bytes(56) + GROUP
FRAME = bytes.fromhex("0000006b 0a060803100b1807 1000 e2065e 0800 1063 1a58") + VALUE
V2_ENTRY = struct.pack(">Bqqqqq", 0xA3, -1, -2, 9, 8, 500)
LEDGERS = struct.pack(">iqqi4q", 52, -1, -2, 2, 9, 22, 5, 44)
LOG = struct.pack(">4siqi", b"BKLO", 1, 1090, 2).ljust(1090, b"s") + LEDGERS
INDEX = b"BKLE" + struct.pack(">ii", 0, 6) + b"secret" + bytes(1006) + struct.pack(">4q", 9, 0, 9, 9)

GOOD: dict[str, tuple[bytes, Any]] = {
    "ledger-metadata": (V1, lambda value: value["segments"][0]["ensemble"] == ["bk1:3181", "bk2:3181"]),
    "cookie": (
        b'4\nbookieHost: "a:1"\njournalDir: "/j"\nledgerDirs: "1\\t/l"\n',
        lambda value: value["bookie_id"] == "a:1",
    ),
    "availability": (
        VALUE,
        lambda value: value == {"groups": [[1, 4, 2, 3]], "total": 4},
    ),
    "index": (
        INDEX,
        lambda value: (
            (value["groups"], value["total"]) == ([[0, 0, 1, 0], [2, 2, 2, 0]], 3)
            and value["columns_of_groups"] == ["first_start", "last_start", "size", "period"]
        ),
    ),
    "bookie-frame": (
        FRAME,
        lambda value: (
            value
            == {
                "txn_id": 7,
                "status": "EOK (0)",
                "ledger_id": "99",
                "availability": {"groups": [[1, 4, 2, 3]], "total": 4},
            }
        ),
    ),
    "entry-log": (
        LOG,
        lambda value: (
            (value["counted_by"], value["ledgers"], value["bytes"], value["largest"])
            == (
                "map",
                2,
                {"header": 1024, "entries": 66, "padding": 0, "map": 56, "tail": 0, "file": 1146},
                [
                    {"scope_id": "0", "ledger_id": "5", "bytes": 44},
                    {"scope_id": "0", "ledger_id": "9", "bytes": 22},
                ],
            )
        ),
    ),
    "journal": (
        journal([(7, MASTER_KEY), (7, 2), (7, 1), (9, 0)]),
        lambda value: (
            (value["version"], value["entries"], value["master_keys"], value["cut"], value["largest"][0])
            == (6, 3, 1, False, {"scope_id": "0", "ledger_id": "7", "groups": [[1, 1, 2, 0]], "total": 2})
        ),
    ),
    "entry": (
        V2_ENTRY + b"digest",
        lambda value: (
            (value["scope_id"], value["ledger_id"], value["entry_id"], value["digest_type"])
            == ("-1", "-2", 9, "CRC32C")
        ),
    ),
    "ledger-data": (
        bytes.fromhex("080110011a036162632801"),
        lambda value: (
            value
            == {
                "exists": True,
                "fenced": True,
                "has_master_key": True,
                "has_explicit_lac": False,
                "limbo": True,
            }
        ),
    ),
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
    "pulsar-managed-ledger": (
        bytes.fromhex("0a0408032000"),
        lambda value: value["ledgers"][0]["ledger_id"] == "3" and value["compression"] == "none",
    ),
    "pulsar-cursor": (
        bytes.fromhex("082e102a18ffffffffffffffffff01"),
        lambda value: (value["ledger_id"], value["mark_delete"]["ledger_id"]) == ("46", "42"),
    ),
    "pulsar-cursor-position": (
        bytes.fromhex("0832100122180a14436f6d706163746564546f7069634c65646765721033"),
        lambda value: (value["compacted_ledger"], value["mark_delete"]["entry_id"]) == ("51", 1),
    ),
    "pulsar-schema-locator": (
        bytes.fromhex("0a0a08001204080410001a00120a08001204080410001a00"),
        lambda value: value["versions"][0]["ledger_id"] == "4",
    ),
    "pulsar-placement-config": (
        b'{"policyClass": "a.B", "properties": {"isolationBookieGroups": "x"}}',
        lambda value: value["groups"] == {"primary": ["x"], "secondary": []},
    ),
    "log-segment": (b"5;17;1;0;0;0;0", lambda value: value["ledger_id"] == "17"),
    "log-allocation": (b"17", lambda value: value == {"ledger_id": "17"}),
}


def decode(kind: str, data: bytes, *options: str) -> Any:
    extra = ("--bookie-id", "bk1:3181") if kind == "service-info" else ()
    return bkaudit("decode", kind, "-", *extra, *options, input=data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    cut, odd = tmp_path / "cut", tmp_path / "odd"
    cut.write_bytes(b"")
    odd.write_bytes(V1.replace(b"\n2\n2\n", b"\n3\n2\n"))
    for file in (cut, odd):
        ended = bkaudit("decode", "ledger-metadata", str(file))
        assert ended.exit_code == 5, ended.output
        assert ended.stderr.startswith(f"bkaudit: {file}: ledger metadata: "), ended.stderr


@pytest.mark.parametrize(
    ("kind", "words"), [("cookie", "Input/output error"), ("journal", "Invalid argument")]
)
def test_file_whose_read_fails_is_named(kind: str, words: str) -> None:
    # Address 0 of a process is mapped by nobody: the file can be opened, a read is EIO, its end is nowhere.
    ended = bkaudit("decode", kind, "/proc/self/mem")
    assert (ended.exit_code, ended.stderr) == (4, f"bkaudit: /proc/self/mem: {words}\n")
    encoded = bkaudit("encode", "availability", "/proc/self/mem")
    assert (encoded.exit_code, encoded.stderr) == (4, "bkaudit: /proc/self/mem: Input/output error\n")


def test_there_is_a_good_example_of_every_kind() -> None:
    assert set(GOOD) == set(FILE_KINDS)


@pytest.mark.parametrize("kind", GOOD)
def test_every_kind_is_decoded_to_json(kind: str) -> None:
    data, is_right = GOOD[kind]
    outcome = decode(kind, data)
    assert outcome.exit_code == 0, outcome.output
    assert is_right(json.loads(outcome.stdout)), outcome.stdout


@pytest.mark.parametrize("kind", GOOD)
def test_damage_is_reported_with_its_byte_and_exits_with_5(kind: str) -> None:
    outcome = decode(kind, b"\xff\x00\xff\xff")
    assert outcome.exit_code == 5
    assert outcome.stderr.startswith("bkaudit: ")
    assert "(at byte " in outcome.stderr


def test_file_is_decoded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "lastMark").write_bytes(bytes(16))
    assert bkaudit("decode", "last-mark", str(tmp_path / "lastMark")).exit_code == 0
    assert bkaudit("decode", "last-mark", str(tmp_path / "none")).exit_code == 2


def test_metadata_that_breaks_a_rule_is_shown_with_an_error() -> None:
    outcome = decode("ledger-metadata", V1.replace(b"\n2\n2\n", b"\n3\n2\n"))
    assert outcome.exit_code == 5
    assert json.loads(outcome.stdout)["write_quorum"] == 3
    assert "write quorum 3 is above ensemble size 2" in outcome.stderr


def test_java_option_decodes_as_the_server_does() -> None:
    data = struct.pack(">ii", -1, 1) + bytes(56) + GROUP + b"more"
    assert decode("availability", data).exit_code == 5
    outcome = decode("availability", data, "--java")
    assert json.loads(outcome.stdout) == {"groups": [[1, 4, 2, 3]], "total": 4}
    outcome = decode("availability", data, "--java", "--entries")
    assert json.loads(outcome.stdout) == {"groups": [[1, 4, 2, 3]], "total": 4, "entries": [1, 2, 4, 5]}


def test_entries_option_lists_the_entries() -> None:
    assert json.loads(decode("index", INDEX, "--entries").stdout)["entries"] == [0, 2, 3]


def test_option_without_meaning_for_a_kind_is_wrong_usage() -> None:
    outcome = decode("lock", b"", "--java")
    assert (outcome.exit_code, outcome.stderr) == (2, "bkaudit: --java: not valid for lock\n")


def test_master_key_is_not_shown() -> None:
    outcome = decode("index", INDEX)
    assert "secret" not in outcome.output
    assert json.loads(outcome.stdout)["header"]["has_master_key"] is True
    assert "abc" not in decode("ledger-data", GOOD["ledger-data"][0]).output


def test_no_payload_is_shown() -> None:
    for data in (V2_ENTRY + b"payload", struct.pack(">4q", 7, 0, -1, 7) + b"payload"):
        outcome = decode("entry", data)
        assert outcome.exit_code == 0
        assert "payload" not in outcome.output
        assert not any(shown in outcome.output for shown in ("cGF5bG9hZA", "7061796c6f6164"))


@pytest.mark.parametrize(("name", "entries", "ledgers"), [("interleaved", 8, 2), ("dbledger", 194, 10)])
def test_entries_of_an_entry_log_that_a_bookie_left_open_are_counted(
    name: str, entries: int, ledgers: int, tmp_path: Path
) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    (tmp_path / "0.log").write_bytes(data)
    outcome = bkaudit("decode", "entry-log", str(tmp_path / "0.log"))
    assert outcome.exit_code == 0, outcome.output
    value = json.loads(outcome.stdout)
    assert value["header"] == {"version": 1, "map_offset": 0, "map_ledgers": 0}
    assert (value["counted_by"], value["entries"], value["ledgers"]) == ("scan", entries, ledgers)
    assert value["bytes"]["header"] + value["bytes"]["entries"] == len(data) == value["bytes"]["file"]


def test_only_header_and_map_of_a_very_large_entry_log_are_read(tmp_path: Path) -> None:
    with (tmp_path / "0.log").open("wb") as log:
        log.write(struct.pack(">4siqi", b"BKLO", 1, 2 * MAX_FILE_BYTES, 1))
        log.seek(2 * MAX_FILE_BYTES)
        log.write(struct.pack(">iqqi2q", 36, -1, -2, 1, 9, 2 * MAX_FILE_BYTES - 1024))
    outcome = bkaudit("decode", "entry-log", str(tmp_path / "0.log"))
    assert outcome.exit_code == 0, outcome.output
    assert json.loads(outcome.stdout)["bytes"]["entries"] == 2 * MAX_FILE_BYTES - 1024


@pytest.mark.parametrize(("offset", "ledgers"), [(-(2**40), 5), (2**62, 5), (1030, -1), (1040, 2**30)])
@pytest.mark.parametrize(("name", "entries"), [("interleaved", 8), ("dbledger", 194)])
def test_entries_after_an_uninitialised_header_are_read(
    name: str, entries: int, offset: int, ledgers: int, tmp_path: Path
) -> None:
    data = gzip.decompress((LOGS / f"{name}.log.gz").read_bytes())
    header = struct.pack(">4siqi", b"BKLO", 1, offset, ledgers)
    (tmp_path / "0.log").write_bytes(header + bytes(range(1, 252)) * 4 + data[1024:])
    outcome = bkaudit("decode", "entry-log", str(tmp_path / "0.log"))
    assert outcome.exit_code == 0, outcome.output
    value = json.loads(outcome.stdout)
    assert (value["counted_by"], value["entries"]) == ("scan", entries)
    assert "(at byte " in value["map_damage"]
    (tmp_path / "0.log").write_bytes(header.ljust(1024, b"\0") + data[1024:])
    assert bkaudit("decode", "entry-log", str(tmp_path / "0.log")).exit_code == 5


def test_entry_log_is_decoded_from_a_pipe() -> None:
    command = [sys.executable, "-c", "from auditor.cli import main; main()", "decode", "entry-log", "-"]
    done = subprocess.run(command, input=LOG, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ledgers"] == 2


@pytest.mark.parametrize("offset", [1091, 2**63 - 1])
def test_map_missing_at_the_headers_offset_is_damage_at_the_end_of_the_file(offset: int) -> None:
    outcome = decode("entry-log", struct.pack(">4siqi", b"BKLO", 1, offset, 2).ljust(1024, b"\0") + bytes(66))
    assert (outcome.exit_code, outcome.stdout) == (5, "")
    assert f"expected at byte {offset} (at byte 1090)" in outcome.stderr


@pytest.mark.parametrize(
    ("frame", "offset"),
    [(FRAME[:-1], len(FRAME) - 1), (FRAME + b"x", len(FRAME)), (FRAME[:-1] + b"\x01", len(FRAME) - 24)],
    ids=["cut", "longer", "a period shorter than its runs"],
)
def test_damage_offset_of_a_frame_counts_from_its_length_field(frame: bytes, offset: int) -> None:
    outcome = decode("bookie-frame", frame)
    assert outcome.exit_code == 5
    assert f"(at byte {offset})" in outcome.stderr


def test_bookies_error_status_is_shown() -> None:
    outcome = decode("bookie-frame", bytes.fromhex("00000013 0a060803100b1807 109203 e20605 089203 1063"))
    assert json.loads(outcome.stdout) == {
        "txn_id": 7,
        "status": "ENOLEDGER (402)",
        "ledger_id": "99",
        "availability": None,
    }


@pytest.fixture
def dump(tmp_path: Path) -> str:
    import base64

    lines = []
    layout = b"1\nhierarchical:1"
    for path, data in (("", b""), ("/LAYOUT", layout), ("/00/0000/L0005", V1), ("/00/0000/X1", b"")):
        record = {"path": f"/ledgers{path}", "data": base64.b64encode(data).decode(), "version": 0}
        numbers = dict.fromkeys(("czxid", "mzxid", "ctime", "mtime", "ephemeralOwner"), 0)
        lines.append(json.dumps({**record, **numbers}))
    # Of a dump that does not say how it ends, a ledger that it lacks may have been cut off.
    lines.append(json.dumps({"end": {"nodes": len(lines)}}))
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
    ("name", "message"),
    [
        ((), "no ledger was given"),
        (("--ledger-id", "6"), "has no ledger 6"),
        (("--ledger-id", "5", "--ledger-scope-id", "1"), "has no ledger 5 in scope 1"),
        (("--ledger-id", "18446744073709551621"), "--ledger-id 18446744073709551621: ids are signed 64-bit"),
        (
            ("--ledger-id", "5", "--ledger-scope-id", "18446744073709551616"),
            "--ledger-scope-id 18446744073709551616: scopes are signed 64-bit",
        ),
        (("--ledger-qualified-name", "5"), "32 hexadecimal digits"),
        (("--ledger-qualified-name", "0" * 32, "--ledger-id", "0"), "Omit the other options"),
    ],
)
def test_wrong_ledger_name_is_wrong_usage(dump: str, name: tuple[str, ...], message: str) -> None:
    outcome = bkaudit("ledger", "show", "--metadata", dump, *name)
    assert outcome.exit_code == 2
    assert message in outcome.stderr


def test_all_ledgers_are_listed_and_other_znodes_are_reported(dump: str) -> None:
    outcome = bkaudit("ledger", "list", "--metadata", dump)
    assert [json.loads(line)["ledger_id"] for line in outcome.stdout.splitlines()] == ["5"]
    assert "/ledgers/00/0000/X1" in outcome.stderr
    assert outcome.exit_code == 3


@pytest.mark.parametrize(
    "data", [b"{\n", b'{"schema": "bookkeeper-auditor/report/8"}', bytes(3) + b"\x10rest"]
)
def test_file_without_a_complete_journal_record_is_not_a_journal(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    done = bkaudit("decode", "journal", str(tmp_path / "file"))
    assert (done.exit_code, done.stdout) == (5, "")
    assert "neither a journal header nor a complete record" in done.stderr

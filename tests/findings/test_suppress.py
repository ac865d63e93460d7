"""The suppressions file is parsed strictly, and no suppression lasts longer than it states."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.findings.suppress import MAX_ENTRIES, SuppressionEntry, read_suppressions

CONF = Path(__file__).parents[2] / "conf" / "suppressions.toml"
TAIL = 'reason = "r"\nuntil = 2026-12-31'


def read(directory: Path, text: str) -> tuple[SuppressionEntry, ...]:
    file = directory / "suppressions.toml"
    file.write_text(text)
    return read_suppressions(file)


def test_entries_come_in_order_suppressions_first(tmp_path: Path) -> None:
    entries = read(
        tmp_path,
        f"""
[[baseline]]
run = "runs/1"
{TAIL}
[[suppress]]
id = "orphan-*"
ledger_id = -9223372036854775808
{TAIL}
[[baseline]]
run = "s3://bucket/runs/2"
{TAIL}
[[suppress]]
fingerprint = "a2b8aa759ab37bdf"
{TAIL}
""",
    )
    until = date(2026, 12, 31)
    assert entries == (
        SuppressionEntry("r", until, {"id": "orphan-*", "ledger_id": -(2**63), "scope_id": 0}),
        SuppressionEntry("r", until, {"fingerprint": "a2b8aa759ab37bdf"}),
        SuppressionEntry("r", until, {}, str(tmp_path / "runs" / "1")),
        SuppressionEntry("r", until, {}, "s3://bucket/runs/2"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "x: no such table; valid tables: [[suppress]] and [[baseline]]"),
        ("[suppress]\nid = 'entry-lost'", "suppress: not a list; write [[suppress]] before each entry"),
        ("suppress = 3", "suppress: not a list; write [[suppress]]"),
        ("[[suppress]]\n" + TAIL, "suppress entry 1: the entry would suppress every finding; add one of id"),
        ("[[suppress]]\nledger_id = 1\nuntil = 2026-01-01", "suppress entry 1: reason: missing"),
        ("[[suppress]]\nledger_id = 1\nreason = 'r'", "suppress entry 1: until: missing"),
        ("[[suppress]]\nledger = 1\n" + TAIL, "entry 1: ledger: no such key; valid keys: id, scope_id"),
        ("[[suppress]]\nledger_id = '1'\n" + TAIL, "ledger_id: '1' is not a 64-bit whole number"),
        ("[[suppress]]\nscope_id = true\n" + TAIL, "scope_id: True is not a 64-bit whole number"),
        ("[[suppress]]\nledger_id = 9223372036854775808\n" + TAIL, "not a 64-bit whole number|not TOML"),
        (
            "[[suppress]]\nid = 'orphan'\n" + TAIL,
            "id: 'orphan' is neither the id of a check nor a pattern that matches one",
        ),
        ("[[suppress]]\nid = 3\n" + TAIL, "id: 3 is not a string"),
        ("[[suppress]]\nbookie_id = ' '\n" + TAIL, "bookie_id: ' ' is empty, or not a string"),
        ("[[suppress]]\nfingerprint = 'A2B8AA759AB37BDF'\n" + TAIL, "is not a fingerprint"),
        (
            "[[suppress]]\nledger_id = 1\nreason = 'r'\nuntil = '2026-12-31'",
            "until: '2026-12-31' is not a date; write it without quotes",
        ),
        ("[[suppress]]\nledger_id = 1\nreason = 'r'\nuntil = 2026-12-31T10:00:00", "is not a date"),
        (
            "[[suppress]]\nledger_id = 1\nreason = ''\nuntil = 2026-12-31",
            "reason: '' is empty, or not a string",
        ),
        (f"[[suppress]]\nledger_id = 1\n{TAIL}\n[[suppress]]\nrun = 'x'\n{TAIL}", "entry 2: run: no such"),
        ("[[baseline]]\n" + TAIL, "baseline entry 1: run: missing"),
        ("[[baseline]]\nrun = 'x'\nid = 'entry-lost'\n" + TAIL, "baseline entry 1: id: no such key"),
        ("[[suppress]", "not TOML"),
        (
            f"[[suppress]]\nledger_id = 1\n{TAIL}\n" * (MAX_ENTRIES + 1),
            "1,001 entries, but at most 1,000 are allowed",
        ),
    ],
)
def test_invalid_entry_is_refused_with_file_entry_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "suppressions.toml"))
    assert any(part in str(refused.value) for part in message.split("|"))


def test_missing_suppressions_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_suppressions(tmp_path / "none.toml")


def test_entry_is_valid_through_its_last_day() -> None:
    entry = SuppressionEntry("r", date(2026, 12, 31), {"id": "entry-lost"})
    assert not entry.is_expired(date(2026, 12, 31))
    assert entry.is_expired(date(2027, 1, 1))


def test_example_file_suppresses_nothing_until_it_is_uncommented(tmp_path: Path) -> None:
    assert read_suppressions(CONF) == ()
    text = re.sub(r"^# (\[\[|\w+ = )", r"\1", CONF.read_text("utf-8"), flags=re.MULTILINE)
    kinds = [(sorted(entry.column_values), entry.baseline) for entry in read(tmp_path, text)]
    assert kinds == [
        (["bookie_id", "id"], None),
        (["bookie_id", "id"], None),
        (["ledger_id", "scope_id"], None),
        (["fingerprint"], None),
        (["fingerprint"], None),
        ([], "/var/lib/bkaudit/runs/20261101T050000Z"),
    ]

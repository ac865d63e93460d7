"""Tests of the description of a bookie."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from auditor.model.finding import ChangeStatus, Severity
from auditor.model.views import (
    AliasView,
    BookieView,
    CandidateView,
    CookieView,
    DirectoryView,
    JournalView,
    ProblemView,
    RegistrationView,
)
from auditor.reports import bookie
from tests.actions.test_gate import HOLD, Run
from tests.reports.samples import NO_HOLDS, ORPHAN

WIDTH = 60
render = partial(bookie.render, width=WIDTH)

DISK = DirectoryView(
    path="/mnt/bk-a/ledgers1",
    role="ledger",
    place="bk-a:3181",
    owner="bk-b:3181",
    cookie_bookie_id="bk-b:3181",
    instance_id="a77a8e0d",
    layout=5,
    index_time=1_795_237_660_000,
    ledgers=1200,
    owner_candidates=(CandidateView("bk-b:3181", 1199, 1150), CandidateView("bk-a:3181", 800, 12)),
)
BOOKIE = BookieView(
    bookie_id="bk-a:3181",
    read="partial",
    reason="index directory /data/ledgers1: not found",
    index_time=None,
    suspect=True,
    foreign_instance=False,
    marked=True,
    ledgers=12345,
    depending=12000,
    replicas=11000,
    held_ledgers=11111,
    orphan_ledgers=2,
    cookie=CookieView(5, "bk-a:3181", "/data/journal", ("/data/ledgers0", "/data/ledgers1"), (), "a77a8e0d"),
    registrations=(RegistrationView("writable", (("bookie", "10.0.0.1", 3181, "bookie-rpc"),)),),
    directories=(DISK,),
    problems=(
        ProblemView(
            "alias-gc-danger",
            Severity.CRITICAL,
            1,
            1,
            ("bk-a:3181 holds what 7 ledgers ask of x",),
            (ChangeStatus("worse", 1_795_000_000_000, "being renamed"),),
        ),
        ProblemView(
            "orphan-ledger", Severity.NOTE, 5, 0, ("one", "two", "three"), first_ledger_finding=ORPHAN
        ),
    ),
)
EXPECTED_TEXT = """\
bookie      bk-a:3181
registered  writable
            bookie at 10.0.0.1:3181 (bookie-rpc)
cookie      belongs to bk-a:3181, layout 5
            instance a77a8e0d
            journal /data/journal
            ledgers /data/ledgers0
            ledgers /data/ledgers1
read        in part
            index directory /data/ledgers1: not found
            a directory has the path or the id of another
              bookie
index time  unknown
ledgers     12,345 name this bookie; 12,000 depend on it
            11,000 were checked on this bookie
held        11,111 ledgers; 2 of them not in the metadata
marked      under-replication marks name this bookie

disks
  /mnt/bk-a/ledgers1
    ledger; VERSION names bk-b:3181, layout version 5
    instance a77a8e0d
    last mark was written at 2026-11-21 05:07:40 UTC or
        later
    attributed to bk-b:3181
    ledgers in this directory: 1,200
      bk-b:3181: 1,199 name this id; 1,150 match it entry
          for entry
      bk-a:3181: 800 name this id; 12 match it entry for
          entry

problems
  alias-gc-danger (critical; 1, 1 unconfirmed)
    bk-a:3181 holds what 7 ledgers ask of x [since:
        2026-11-18 11:06:40 UTC; worse than in the previous
        run; suppressed: being renamed]
    why    """


def test_bookie_text_goes_from_cookie_to_problems() -> None:
    assert render(BOOKIE).startswith(EXPECTED_TEXT)


def test_every_problem_has_reason_confidence_and_action() -> None:
    alias, _, orphan = render(BOOKIE).partition("\n\nproblems\n")[2].partition("\n\n")
    for label in ("why ", "sure", "do  "):
        assert f"\n    {label}   " in alias
        assert f"\n    {label}   " in orphan
    assert "\n           bookkeeper shell updateBookieInLedger -sb OLD -db NEW\n" in alias
    assert orphan.startswith(
        "  orphan-ledger (note; 5)\n    one\n    two\n    three\n    and 2 more\n    why "
    )
    assert "\n           bookkeeper shell ledgermetadata -l 36\n" in orphan


def test_confidence_of_a_problem_is_one_line() -> None:
    wide = bookie.render(BOOKIE, 100).splitlines()
    assert [line for line in wide if line.startswith("    sure ")] == [
        "    sure   0 of 1 confirmed; bkaudit explain check alias-gc-danger",
        "    sure   Confirmed: neither scan lists the ledger.",
    ]
    narrow = bookie.render(BOOKIE, 50)
    assert "\n    sure   confirmed;\n           bkaudit explain check orphan-ledger\n" in narrow


def test_commands_match_the_ledger_storage() -> None:
    files, database = "regenerate-interleaved-storage-index-file", "rebuild-db-ledger"
    damaged = replace(BOOKIE, problems=(ProblemView("index-unreadable", Severity.ERROR, 1, 0, ("cut",)),))
    for storage, shown, storage_line in (
        ("idx", files, "storage     index files: InterleavedLedgerStorage or"),
        ("rocksdb", database, "storage     DbLedgerStorage\n"),
    ):
        text = render(replace(damaged, storage=storage))
        assert [f" {command}" in text for command in (files, database)] == [
            shown is files,
            shown is database,
        ]
        assert storage_line in text
    unknown = render(damaged)
    assert files not in unknown
    assert database not in unknown
    assert "the bookie's ledger storage. This run could not determine it." in " ".join(unknown.split())


def test_bookie_id_that_the_shell_refuses_has_a_notice() -> None:
    unused = ProblemView("cookie-unused", Severity.NOTE, 1, 0, ("it has a cookie",))
    refused = "The shell refuses a bookie id that does not have the form host:port."
    unusual = replace(BOOKIE, bookie_id="bk-a.rack1", problems=(unused,))
    custom = " ".join(render(unusual, run=NO_HOLDS).split())
    assert "bookkeeper shell cookie_delete bk-a.rack1" in custom
    assert refused in custom
    usual = " ".join(render(replace(BOOKIE, problems=(unused,)), run=NO_HOLDS).split())
    assert "bookkeeper shell cookie_delete bk-a:3181" in usual
    assert refused not in usual


def test_holds_come_before_findings_and_replace_commands(tmp_path: Path) -> None:
    unused = ProblemView("cookie-unused", Severity.NOTE, 1, 0, ("it has a cookie",))
    lift = {"lift": "data-elsewhere", "carried": True, "certain": False}
    rows = [
        HOLD | {"key": "bk-a:3181", "reason": "bookie-alias", "forbids": ["delete-cookie"], **lift},
        HOLD | {"object": "source", "key": "bookie bk-a:3181", "forbids": ["stop"]},
        HOLD | {"key": "bk-b:3181"},
    ]
    shown = bookie.render(replace(BOOKIE, problems=(unused,)), 80, Run(tmp_path, *rows))
    assert "cookie_delete" not in shown
    text = " ".join(shown.split())
    because = "bk1:3181 has the last known copy of entries of 1 ledger (bookie-alias"
    assert f"do not stop: bk1:3181 has the last known copy of entries of 1 ledger ({HOLD['reason']})" in text
    assert f"delete cookie: {because}, unconfirmed, from an earlier run) until: an audit reads all" in text
    assert f"Do not: delete the cookie of bk-a:3181: {because})" in text
    assert text.index("do not stop") < text.index("problems")


def test_aliases_are_listed_with_evidence_for_and_against() -> None:
    aliases = (
        AliasView("10.0.0.1:3181", True, False, (("endpoint-is-id", "bk-a:3181 is at 10.0.0.1:3181", None),)),
        AliasView("bk-a", False, True, (("short-name", "bk-a may be it", "their directories differ"),)),
    )
    text = render(replace(BOOKIE, aliases=aliases))
    assert (
        """
            ledgers /data/ledgers1
same as     10.0.0.1:3181 (not registered)
            endpoint-is-id: bk-a:3181 is at 10.0.0.1:3181
looks like  bk-a (registered)
            short-name: bk-a may be it; but their
              directories differ
read """
        in text
    )


def test_missing_facts_of_a_bookie_are_reported() -> None:
    bare = BookieView(
        "bk-z:3181", "unread", "no source covers this bookie", None, False, False, False, 3, 2, 1, None, 0
    )
    text = render(bare)
    for line in ("registered  no", "cookie      none in the store", "read        not at all"):
        assert line in text
    assert "held        unknown" in text
    assert text.endswith("disks\n  no disk was found\n\nproblems\n  none")
    assert "held        none" in render(replace(bare, read="read", reason=None))


def test_unreadable_parts_of_a_bookie_have_their_reason() -> None:
    broken = replace(
        BOOKIE,
        cookie=CookieView(damage="byte 3: no layout"),
        registrations=(
            RegistrationView("readonly", (), "byte 0: no such field"),
            RegistrationView("writable", ephemeral=False),
        ),
        directories=(
            replace(DISK, cookie_bookie_id=None, damage="byte 1: no digit"),
            replace(
                DISK, cookie_bookie_id=None, place=None, owner=None, index_time=None, owner_candidates=()
            ),
        ),
    )
    text = render(broken)
    assert "cookie      is in the store, but cannot be read: byte 3: no" in text
    assert "service info cannot be read: byte 0: no such" in text
    assert "            no endpoint" in text
    assert (
        "registered  writable; the node is not ephemeral, so it does\n"
        "              not prove that the bookie is alive\n"
    ) in text
    assert "registered  readonly\n" in text
    assert "ledger; no usable VERSION: byte 1: no digit" in text
    assert "its path belongs to no bookie\n    attributed to no bookie" in text


def test_bookie_text_fits_the_width_and_escapes_control_characters() -> None:
    long = replace(BOOKIE, bookie_id="bk\x1b[31m" + "x" * 200, directories=(replace(DISK, path="/d" * 90),))
    lines = render(long).splitlines()
    commands = ("bookkeeper shell", "bkaudit explain")
    assert all(len(line) <= WIDTH for line in lines if not any(command in line for command in commands))
    assert "\x1b" not in render(long)


def test_journal_text_has_mark_newer_entries_and_old_files() -> None:
    damage = "1a1fc8020c3.txn is missing; the bookie would replay the journal from it"
    journals = (
        JournalView("/mnt/bk-a/journal0", None, "1a1fc8020c3.txn", 6656, 2, 3, 12345),
        JournalView("/mnt/bk-a/journal1", damage, "1a1fc8020c3.txn", 0, 0, 0, 0),
    )
    text = render(replace(BOOKIE, tail="unread", journals=journals))
    shown = text.partition("\n\njournals\n")[2].partition("\n\nproblems")[0]
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert shown.splitlines() == [
        "  incomplete",
        "  /mnt/bk-a/journal0",
        "    mark 1a1fc8020c3.txn, byte 6,656",
        "    12,345 entries after the mark, in 2 files",
        "    3 old files before the mark (by default,",
        "        journalMaxBackups keeps 5). These files may contain",
        "        entries that are lost elsewhere. To list them, run:",
        "        bkaudit decode journal FILE --entries",
        "  /mnt/bk-a/journal1",
        "    mark 1a1fc8020c3.txn, byte 0",
        "    0 entries after the mark, in 0 files",
        "    incomplete: 1a1fc8020c3.txn is missing; the bookie would",
        "        replay the journal from it",
    ]
    assert "journals" not in render(BOOKIE)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("read", "read completely: entries in them count"),
        ("stopped", "not read: the bookie shut down cleanly"),
        (None, "not checked"),
    ],
)
def test_journal_state_has_its_text(tail: str | None, expected: str) -> None:
    view = replace(BOOKIE, tail=tail, journals=(JournalView("/j", None, None, None, 0, 0, 0),))
    assert f"\njournals\n  {expected}" in render(view)


def test_index_time_basis_is_printed() -> None:
    dated = replace(BOOKIE, index_time=1_795_237_660_000, index_time_basis="older-journal")
    assert (
        "index time  2026-11-21 05:07:40 UTC\n"
        "            the file time of the journal before the one in\n"
        "              lastMark; the index may be newer\n"
    ) in render(dated)

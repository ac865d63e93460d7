"""Tests of the drawing of a ledger."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from auditor.codecs.availability.groups import GROUP
from auditor.model.finding import Group
from auditor.model.ledger_metadata import Segment
from auditor.model.states import WitnessAnswer
from auditor.model.views import AnswerView, LedgerView, ReplicaView
from auditor.reports import ledger

HEAD, BODY = (0, 0, 1, 0), (2, 8, 2, 3)


def groups(*entry_groups: Group) -> bytes:
    return np.array(list(entry_groups), GROUP).tobytes()


def replica(name: str, expected: bytes, stored: bytes, **fields: object) -> ReplicaView:
    view = ReplicaView(name, True, expected, stored, known=True, state="ok")
    return replace(view, **fields)  # type: ignore[arg-type]  # fields of any type


LEDGER = LedgerView(
    42,
    status="ok",
    path="/ledgers/00/0000/L0042",
    version=3,
    state="CLOSED",
    ensemble_size=3,
    write_quorum=2,
    ack_quorum=2,
    last_entry_id=11,
    length=120,
    ctime=1_795_237_660_000,
    mtime=1_795_237_664_000,
    segments=(
        Segment(0, ("bk-a:3181", "bk-b:3181", "bk-c:3181")),
        Segment(6, ("bk-a:3181", "bk-b:3181", "bk-d:3181")),
    ),
    judged_class="below-ack-quorum",
    potential_class="entry-lost",
    custom_metadata=(
        ("application", "pulsar"),
        ("pulsar/managed-ledger", "public/default/persistent/orders"),
    ),
    replicas=(
        replica("bk-a:3181", groups(HEAD, BODY, (11, 11, 1, 0)), groups(HEAD, BODY)),
        replica("bk-b:3181", groups((0, 9, 2, 3)), groups((0, 9, 2, 3), (20, 20, 3, 0))),
        replica("bk-c:3181", groups((1, 4, 2, 3)), b"", known=False, state="unread", reason="not mounted"),
        replica("bk-d:3181", groups((7, 10, 2, 3)), b"", state="absent"),
        replica("bk-e:3181", b"", groups((3, 3, 2, 0)), is_member=False),
    ),
)

DRAWN = """\
ledger 42: below-ack-quorum (could be entry-lost)
  at        /ledgers/00/0000/L0042, version 3
  state     CLOSED, last entry 11, 120 bytes
  copies    ensemble 3, write quorum 2, ack quorum 2
  written   created 2026-11-21 05:07:40, changed 2026-11-21 05:07:44
  attached  application = pulsar
  attached  pulsar/managed-ledger = public/default/persistent/orders

segments
  entries 0-5: bk-a:3181 bk-b:3181 bk-c:3181
  entries 6-11: bk-a:3181 bk-b:3181 bk-d:3181

           0         11
segments         |
bk-a:3181  #.##.##.##.X
bk-b:3181  ##.##.##.##.
bk-c:3181  .??.??......
bk-d:3181  .......XX.XX
bk-e:3181  ...++.......
# held  X missing  x some missing  ? unknown  + surplus  . not expected

bk-a:3181 lacks 11 (1 entry)
bk-b:3181 has unexpected entries: 20-22 (3 entries)
bk-c:3181 unknown: 1,2,4,5 (4 entries)
bk-c:3181 is unread: not mounted
bk-d:3181 lacks 7,8,10,11 (4 entries)
bk-d:3181 was read and has no index of this ledger
bk-e:3181 has unexpected entries: 3,4 (2 entries)"""


def test_ledger_drawing_shows_missing_entries() -> None:
    assert ledger.render(LEDGER) == DRAWN


def test_unicode_drawing_uses_block_characters() -> None:
    assert "bk-a:3181  █·██·██·██·○\n" in ledger.render(LEDGER, unicode=True)


def test_huge_ledger_drawing_is_scaled_to_eighty_columns() -> None:
    last = 3_000_000_000
    stored = groups((0, 0, 2**30, 0), (2**30 + 1, 2**30 + 1, last - 2**30, 0))
    whole = groups((0, 0, 2**31 - 1, 0), (2**31 - 1, 2**31 - 1, last - (2**31 - 2), 0))
    name = "a-bookie-with-a-very-long-name.rack-7.data-centre.example:3181"
    view = replace(
        LEDGER,
        last_entry_id=last,
        segments=(Segment(0, (name,)),),
        replicas=(replica(name, whole, stored), replica("bk-b:3181", whole, b"")),
    )
    drawn = ledger.render(view)
    drawing = [line for line in drawn.splitlines() if line.startswith(("a-bookie-with-a~", "bk-b:3181 "))]
    assert drawing[0].count("x") == 1
    assert drawing[0].count("#") == 80 - ledger.MAX_LABEL_COLUMNS - 2 - 1
    assert set(drawing[1].split()[1]) == {"X"}
    assert "each column stands for about 55,555,555 entries" in drawn
    assert max(len(line) for line in drawn.splitlines() if not line.startswith(name)) <= 80


def test_ledger_drawing_bounds_bookies_and_segments() -> None:
    view = replace(
        LEDGER,
        segments=tuple(Segment(n, ("bk-a:3181",)) for n in range(500)),
        replicas=tuple(replica(f"bk{n:03}:3181", groups((0, 0, 12, 0)), b"") for n in range(500)),
    )
    drawn = ledger.render(view)
    assert "and 460 more bookies" in drawn
    assert "and 488 more segments" in drawn
    assert len(drawn.splitlines()) < 170


def test_ledger_missing_from_metadata_shows_entries_stored_on_bookies() -> None:
    view = LedgerView(7, replicas=(replica("bk-a:3181", b"", groups((0, 0, 5, 0)), is_member=False),))
    drawn = ledger.render(view)
    assert drawn.startswith("ledger 7: not in the metadata, but bookies have it")
    assert "bk-a:3181  +++++" in drawn


def test_empty_and_unreadable_ledgers_are_described_in_words() -> None:
    empty = replace(LEDGER, last_entry_id=-1, replicas=(replica("bk-a:3181", b"", b""),))
    assert "the ledger has no entries, so no bookie should hold any" in ledger.render(empty)
    damaged = LedgerView(
        8, status="unreadable", path="/ledgers/00/0000/L0008", damage="no header (at byte 0)"
    )
    assert "damaged   no header (at byte 0)" in ledger.render(damaged)
    assert "no bookie should hold an entry, and none does" in ledger.render(damaged)


def test_entries_beyond_the_end_of_a_cut_index_are_unknown() -> None:
    cut = replica(
        "bk-a:3181",
        groups((0, 0, 12, 0)),
        groups((0, 0, 5, 0)),
        known=False,
        state="cut",
        reason="at slot 5",
    )
    drawn = ledger.render(replace(LEDGER, replicas=(cut,)))
    assert "bk-a:3181  #####???????" in drawn
    assert "bk-a:3181 is cut: at slot 5" in drawn


def test_ledger_of_another_scope_shows_its_qualified_name() -> None:
    lines = ledger.render(replace(LEDGER, ledger_id=-2, scope_id=-1)).splitlines()
    assert lines[0] == "ledger -2 of scope -1: below-ack-quorum (could be entry-lost)"
    assert f"  named     {'f' * 31}e" in lines
    assert not any("named" in line for line in ledger.render(LEDGER).splitlines())


def test_custom_metadata_is_cut_and_made_printable() -> None:
    view = replace(
        LEDGER, custom_metadata=(("k\x1b[31m\n", "v" * 500), *(("key", str(n)) for n in range(30)))
    )
    lines = [line for line in ledger.render(view).splitlines() if line.startswith("  attached")]
    assert lines[0].startswith("  attached  k?[31m? = vvv")
    assert all(len(line) <= 80 and line.isprintable() for line in lines)
    assert (len(lines), lines[-1]) == (9, "  attached  and 23 more")


def test_ledger_shows_the_answer_of_each_bookie_to_reads() -> None:
    answers = (
        AnswerView("bk-a:3181", WitnessAnswer.NO_SUCH_ENTRY, groups((11, 11, 1, 0)), 1),
        AnswerView("bk-b:3181", WitnessAnswer.SERVED, groups((0, 0, 2, 0)), 2),
        AnswerView("bk-c:3181", WitnessAnswer.UNKNOWN, groups((11, 11, 1, 0)), 1, "no connection: refused"),
        AnswerView("bk-d:3181", WitnessAnswer.NO_SUCH_LEDGER, groups((11, 11, 1, 0)), 1),
    )
    drawn = ledger.render(replace(LEDGER, answers=answers))
    assert drawn.startswith(ledger.render(LEDGER))
    assert drawn.removeprefix(ledger.render(LEDGER)).strip().splitlines() == [
        "bookies' answers to reads of single entries",
        "  bk-a:3181 does not have 11 (1 entry)",
        "  bk-b:3181 serves 0,1 (2 entries)",
        "  bk-c:3181 gave no clear answer about 11 (1 entry): no connection: refused",
        "  bk-d:3181 does not have the ledger; requested: 11 (1 entry)",
    ]

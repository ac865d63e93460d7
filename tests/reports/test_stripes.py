"""Tests of a ledger's stripes as cells."""

from __future__ import annotations

from dataclasses import replace

from auditor.model.views import LedgerView
from auditor.reports.ledger import Cell, Stripes, replicas_of, stripes_of
from tests.reports.test_ledger import LEDGER, groups, replica


def draw_stripes(ledger: LedgerView, columns: int = 80, rows: int = 40) -> Stripes:
    return stripes_of(ledger, replicas_of(ledger), columns, rows)


def test_stripe_column_is_one_entry_where_there_is_room() -> None:
    stripes = draw_stripes(LEDGER)
    assert stripes.column_edges == tuple(range(13))
    assert stripes.bookies == tuple(f"bk-{letter}:3181" for letter in "abcde")
    by_bookie = dict(zip(stripes.bookies, stripes.cells, strict=True))
    assert by_bookie["bk-a:3181"].index(Cell.MISSING) == 11
    assert [entry for entry, cell in enumerate(by_bookie["bk-c:3181"]) if cell is Cell.UNKNOWN] == [
        1,
        2,
        4,
        5,
    ]
    assert [entry for entry, cell in enumerate(by_bookie["bk-e:3181"]) if cell is Cell.SURPLUS] == [3, 4]


def test_stripe_column_is_an_entry_range_where_there_is_no_room() -> None:
    huge = 2**62
    whole, holed = groups((0, 0, 2**31 - 1, 0)), groups((0, 0, 2**31 - 1, 0), (2**40, 2**40, 1, 0))
    ledger = replace(LEDGER, last_entry_id=huge, replicas=(replica("bk-a", holed, whole),))
    stripes = draw_stripes(ledger, columns=7)
    assert len(stripes.column_edges) == 8
    assert (stripes.column_edges[0], stripes.column_edges[-1]) == (0, huge + 1)
    assert stripes.cells[0] == (Cell.SOME_MISSING,) + (Cell.NOT_EXPECTED,) * 6


def test_stripes_have_at_most_the_requested_number_of_bookies() -> None:
    stripes = draw_stripes(LEDGER, rows=2)
    assert (len(stripes.bookies), len(stripes.cells), stripes.bookies_total) == (2, 2, 5)


def test_ledger_without_entries_has_no_cells() -> None:
    empty = replace(LEDGER, last_entry_id=-1, replicas=(replica("bk-a", b"", b""),))
    assert draw_stripes(empty) == Stripes((), (), (), 1)
    assert draw_stripes(replace(LEDGER, replicas=())) == Stripes((), (), (), 0)

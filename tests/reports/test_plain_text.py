"""Tests of widths, cuts and tables for texts whose characters take zero, one or two columns."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.reports.layout import NameTable, name_table_lines
from auditor.reports.plain_text import (
    columns_of,
    cut_middle,
    cut_text,
    fold_text,
    pad_text,
    printable,
    text_table,
)

COLUMNS = {
    "bk-1": 4,
    "\u53f0\u5e33": 4,  # CJK
    "\uff76": 1,  # half-width katakana
    "e\u0301": 1,  # a combining mark
    "\u0e17\u0e35\u0e48": 1,  # two marks on a Thai letter
    unicodedata.normalize("NFC", "\ud55c\uae00"): 4,
    unicodedata.normalize("NFD", "\ud55c\uae00"): 4,  # Hangul as six jamo
    "\U0001f44d\U0001f3fd": 2,  # an emoji with a skin tone
    "\U0001f1e9\U0001f1ea": 2,  # a flag
    "1\ufe0f\u20e3": 2,  # a keycap
    "\u231a\ufe0e": 1,  # an emoji as text
}
TEXTS = (
    st.lists(st.sampled_from([*COLUMNS, " ", "\u3164", "\u1161", "\u0915\u094d\u0937"])).map("".join)
    | st.text()
)


@pytest.mark.parametrize("text", COLUMNS, ids=ascii)
def test_text_width_is_that_of_a_terminal(text: str) -> None:
    assert columns_of(text) == COLUMNS[text]


@pytest.mark.parametrize("name", COLUMNS, ids=ascii)
def test_tables_stay_aligned_for_any_name_width(name: str) -> None:
    titles, rows = ("topic", "bytes"), [(name, "1"), ("bk-1:3181", "2")]
    for lines in (text_table(titles, rows), name_table_lines(NameTable(titles, rows), 40)):
        name_cells = [line[: -len(cell)] for line, cell in zip(lines, ("bytes", "1", "2"), strict=True)]
        assert {columns_of(cell) for cell in name_cells} == {len("bk-1:3181  ")}


@given(TEXTS, st.integers(0, 30))
def test_cut_texts_fit_the_width_and_keep_their_ends(text: str, columns: int) -> None:
    head = cut_text(text, columns)
    assert text.startswith(head)
    assert columns_of(head) <= columns
    middle = cut_middle(text, columns + 3)
    assert columns_of(middle) <= columns + 3
    assert middle == printable(text) or "..." in middle


@given(TEXTS, st.integers(10, 40))
def test_folded_lines_fit(text: str, width: int) -> None:
    assert all(columns_of(line) <= width for line in fold_text(text, width, "  ", "    "))


@given(TEXTS, st.integers(0, 30))
def test_padded_texts_have_the_requested_width(text: str, columns: int) -> None:
    visible = printable(text)
    assert columns_of(pad_text(visible, columns)) == max(columns, columns_of(visible))

"""Tests of a diagnosis as text: every line fits, and each problem has its remedy below it."""

from __future__ import annotations

import pytest

from auditor.reports.doctor import WIDTH, AnswerLine, AnswerState, Diagnosis, render

LONG = "the first: /mnt/a-disk-of-many/with-a-path-that-goes-on/ledgers0: Permission denied " * 3
LINES = (
    AnswerLine("here", "Java", AnswerState.OK, "version 17"),
    AnswerLine("store", "access", AnswerState.NOT_ASKED, "no --metadata URI was given"),
    AnswerLine("bookies", "rights", AnswerState.WARN, LONG, "run as a user with read access", 3),
    AnswerLine("out", "place", AnswerState.FAIL, "holds a finished run", "choose a new directory", 2),
)


def test_diagnosis_fits_eighty_columns_and_is_grouped_by_topic() -> None:
    shown = render(Diagnosis(LINES, ("under-replication marks: etcd has none",))).splitlines()
    assert max(map(len, shown)) <= WIDTH
    titles = [line for line in shown if line and not line.startswith(" ")]
    assert titles == [
        "This machine",
        "The metadata store",
        "The bookies",
        "The run directory",
        "What such an audit cannot see",
        "1 ok, 1 warn, 1 fail, 1 not asked. An audit with these options would be refused",
        "as wrong usage.",
    ]
    assert "  ok         Java         version 17" in shown
    assert shown[shown.index("  fail       place        holds a finished run") + 1].strip() == (
        "-> choose a new directory"
    )


@pytest.mark.parametrize("width", [60, 100])
def test_diagnosis_lines_fill_the_terminal_width(width: int) -> None:
    detail = "of the bookies in cookies or registrations 3 can be read in full " * 3
    lines = (AnswerLine("bookies", "coverage", AnswerState.WARN, detail, detail, 3),)
    longest = max(map(len, render(Diagnosis(lines, (detail,)), width).splitlines()))
    assert width - 15 < longest <= width


@pytest.mark.parametrize(("codes", "code"), [((0, 3), 3), ((3, 4), 4), ((4, 2, 3), 2), ((0,), 0), ((), 0)])
def test_diagnosis_exit_code_follows_the_precedence_of_an_audit(codes: tuple[int, ...], code: int) -> None:
    lines = tuple(AnswerLine("out", "place", AnswerState.WARN, "", None, exit_code) for exit_code in codes)
    assert Diagnosis(lines, ()).exit_code == code


def test_each_exit_code_has_its_own_text() -> None:
    texts = {
        render(Diagnosis((AnswerLine("out", "a", AnswerState.WARN, "b", None, code),), ()))
        for code in (0, 2, 3, 4)
    }
    assert len(texts) == 4

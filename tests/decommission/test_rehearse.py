"""Decommissioning forecasts compared with the plain worker, on runs of small clusters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Cause, Rehearsal
from auditor.runs.reader import RunReader
from tests.decommission.made_clusters import reopen_run, run_of, tables_of
from tests.decommission.plain_worker import Outcome, judge
from tests.made_runs import write_tables
from tests.simulate.small_clusters import BOOKIES, Ledger, ledgers

LEDGER_LISTS = st.lists(ledgers(), min_size=1, max_size=8)


def number_ledgers(samples: list[Ledger]) -> list[Ledger]:
    return [replace(ledger, id=number, scope=number % 2) for number, ledger in enumerate(samples)]


@pytest.fixture(scope="module")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> RunReader:
    """Return an empty run. Each example of a property writes the tables that it needs."""
    return run_of(tmp_path_factory.mktemp("drawn-run"), [], dict.fromkeys(BOOKIES), set())


@given(
    several=LEDGER_LISTS,
    asked=st.sets(st.sampled_from(BOOKIES), min_size=1, max_size=3),
    modes=st.fixed_dictionaries(
        dict.fromkeys(BOOKIES, st.sampled_from(("writable", "writable", "readonly", None)))
    ),
    unread=st.sets(st.sampled_from(BOOKIES), max_size=2),
)
def test_rehearsal_equals_an_entry_by_entry_worker(
    drawn_run: RunReader,
    several: list[Ledger],
    asked: set[str],
    modes: dict[str, str | None],
    unread: set[str],
) -> None:
    samples = number_ledgers(several)
    absent = {name for name in BOOKIES if modes[name] is None} - asked
    spares = {name for name in BOOKIES if modes[name] == "writable"} - asked
    write_tables(Path(drawn_run.path), **tables_of(samples, modes, unread))
    rehearsal = rehearse(reopen_run(drawn_run.path), sorted(asked))
    fates = [judge(ledger, asked, absent, spares, unread) for ledger in samples]
    _agree(rehearsal, samples, fates)


def _agree(rehearsal: Rehearsal, samples: list[Ledger], fates: list[Outcome]) -> None:
    causes = Counter(fate.cause for fate in fates if fate.waits and fate.cause)
    blockers = {row.cause: row.ledgers for row in rehearsal.together.blockers}
    assert blockers == causes
    moving = [fate for fate in fates if fate.waits and not fate.cause]
    work = rehearsal.together.work
    assert work.ledgers == len(moving)
    assert work.renamed == sum(fate.named and not fate.waits for fate in fates)
    assert work.needed == sum(fate.needed for fate in moving)
    assert work.copied == sum(fate.copied for fate in moving)
    assert (sum(row.number for row in rehearsal.together.doubts) > 0) == any(fate.doubtful for fate in moving)
    assert Cause.NO_ALLOWED_SPARE not in blockers
    assert sum(row.entries_read for row in rehearsal.together.loads) <= work.read + len(BOOKIES)

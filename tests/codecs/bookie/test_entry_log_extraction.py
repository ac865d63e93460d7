"""Garbage collectors on damaged headers and ledgers maps, compared with the answers of the real classes."""

from __future__ import annotations

from collections import Counter

import pytest

from auditor.codecs.bookie.entry_log import decode_unchecked_header, is_direct
from auditor.codecs.bookie.entry_log_records import extract_ledgers
from auditor.errors import DecodeError
from auditor.model.states import EntryLogState
from auditor.sources.bookies.entry_logs.reader import contents_of
from auditor.sources.bookies.entry_logs.rows import state_of
from tests.codecs.bookie.entry_log_oracle import DIRECT, LARGER_BUFFER_BYTES, Case, golden, sound_log

LOGS = {case.log: sound_log(case.log) for case in golden()}
NO_BUFFER = 0


def test_ledgers_extracted_from_damaged_logs_match_the_real_collector() -> None:
    outcomes: Counter[str] = Counter()
    for case in golden():
        data = case.data(LOGS[case.log])

        def read_at(offset: int, length: int, data: bytes = data) -> bytes:
            return data[offset : offset + length]

        try:
            header = decode_unchecked_header(data)
        except DecodeError:
            continue
        buffer = NO_BUFFER if case.logger == DIRECT else int(case.logger)
        ledgers = extract_ledgers(read_at, len(data), header, case.logger == DIRECT, buffer)
        if ledgers is not None:
            assert ledgers == dict(case.collector), case
        elif (contents := contents_of(read_at, len(data))).damage is None:
            truth = dict(zip(contents.ledger_ids.tolist(), contents.bytes.tolist(), strict=True))
            # An exception has the collector leave the log alone.
            assert isinstance(case.collector, str) or dict(case.collector) == truth, case
        outcomes["taken" if ledgers is not None else "read"] += 1
    assert outcomes["taken"] > 200
    assert outcomes["read"] > 400


def state(case: Case) -> str:
    data = case.data(LOGS[case.log])
    return state_of(contents_of(lambda offset, length: data[offset : offset + length], len(data)))


def loses(case: Case) -> bool:
    """Return whether the real collector misses a ledger that the log contains."""
    data = case.data(LOGS[case.log])
    contents = contents_of(lambda offset, length: data[offset : offset + length], len(data))
    return (
        isinstance(case.collector, list)
        and not set(contents.ledger_ids.tolist()) <= dict(case.collector).keys()
    )


@pytest.mark.parametrize("logger", ["512", LARGER_BUFFER_BYTES, DIRECT])
def test_log_that_the_real_collector_misreads_is_never_marked_sound(logger: str) -> None:
    cases = [case for case in golden() if case.logger == logger and loses(case)]
    states = Counter(state(case) for case in cases if is_direct(LOGS[case.log]) == (logger == DIRECT))
    astray, wrong = EntryLogState.ASTRAY, EntryLogState.MAP_WRONG
    assert set(states) == {astray if logger == LARGER_BUFFER_BYTES else wrong}
    assert states.total() >= 6


def test_damage_harmless_to_collectors_is_not_marked_as_a_wrong_map() -> None:
    """Collectors read the entries despite an offset amid them, a wrong number of ledgers or a cut map."""
    harmless = [
        case
        for case in golden()
        if case.logger == "512" and case.log == "mixed" and not loses(case) and case.collector != case.map
    ]
    states = Counter(state(case) for case in harmless)
    # Offsets below 0 are harmless to a small buffer alone, and what is found does not know how large it is.
    assert states.keys() - {EntryLogState.ASTRAY} <= {
        EntryLogState.OK,
        EntryLogState.MAP_UNREADABLE,
        EntryLogState.NO_MAP,
        EntryLogState.UNREADABLE,
        EntryLogState.DAMAGED,
    }, states
    assert states[EntryLogState.MAP_UNREADABLE] > 60

"""Responses captured from 4.17.2 bookies on each storage, compared with the entries they acknowledged."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from auditor.codecs.availability import wire as availability
from auditor.codecs.bookie.wire import HEAD_BYTES, LENGTH, Status, frame_length, list_answer, read_answer

HOME = Path(__file__).parents[2] / "data" / "frames-4.17.2"
FRAMES: list[dict[str, Any]] = json.loads(gzip.decompress((HOME / "frames.json.gz").read_bytes()))
DB = "DbLedgerStorage"


def message_of(frame: dict[str, Any]) -> bytes:
    data = bytes.fromhex(frame["response"])
    assert frame_length(data[: LENGTH.size]) == len(data) - LENGTH.size
    return data[LENGTH.size :]


@pytest.mark.parametrize(
    "frame", [case for case in FRAMES if case["kind"] == "list"], ids=lambda case: str(case["ledger"])
)
def test_listing_matches_the_entries_on_the_bookie(frame: dict[str, Any]) -> None:
    if frame["response"] is None:
        assert frame["storage"] == DB
        assert frame["held"]
        return
    answer = list_answer(message_of(frame))
    assert (answer.txn_id, answer.ledger_id) == (7, frame["ledger"])
    assert answer.status == (Status.EOK if frame["held"] else Status.ENOLEDGER)
    if answer.availability is not None:
        assert availability.expand(availability.decode(answer.availability)).tolist() == frame["held"]


def test_plain_read_status_matches_the_entries_on_the_bookie() -> None:
    reads = [record for record in FRAMES if record["kind"] == "read"]
    for frame in reads:
        message = message_of(frame)
        answer = read_answer(message[:HEAD_BYTES], len(message), frame["version"])
        assert (answer.ledger_id, answer.entry_id) == (frame["ledger"], frame["entry"])
        lacked = Status.ENOENTRY if frame["held"] else Status.ENOLEDGER
        assert answer.status == (Status.EOK if frame["entry"] in frame["held"] else lacked), frame
    assert len(reads) > 100

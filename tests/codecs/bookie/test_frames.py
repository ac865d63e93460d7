"""Answers of 4.17.2 bookies on each storage, as they came, against the entries that they had acknowledged."""

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
    "frame", [each for each in FRAMES if each["kind"] == "list"], ids=lambda each: str(each["ledger"])
)
def test_a_listing_has_what_the_bookie_holds(frame: dict[str, Any]) -> None:
    if frame["response"] is None:
        assert frame["storage"] == DB
        assert frame["held"]
        return
    read = list_answer(message_of(frame))
    assert (read.txn_id, read.ledger_id) == (7, frame["ledger"])
    assert read.status == (Status.EOK if frame["held"] else Status.ENOLEDGER)
    if read.availability is not None:
        assert availability.expand(availability.decode(read.availability)).tolist() == frame["held"]


def test_a_plain_read_finds_what_the_bookie_holds_and_nothing_else() -> None:
    reads = [each for each in FRAMES if each["kind"] == "read"]
    for frame in reads:
        message = message_of(frame)
        read = read_answer(message[:HEAD_BYTES], len(message), frame["version"])
        assert (read.ledger_id, read.entry_id) == (frame["ledger"], frame["entry"])
        lacked = Status.ENOENTRY if frame["held"] else Status.ENOLEDGER
        assert read.status == (Status.EOK if frame["entry"] in frame["held"] else lacked), frame
    assert len(reads) > 100

"""Our encoder and decoder compared with the server's own class in both directions, in one Java process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.codecs.availability.groups import GROUP
from auditor.codecs.availability.wire import (
    decode,
    encode,
    encode_unfolded,
    expand,
    groups_of_entries,
    holds_entries,
    missing_entries,
)
from auditor.spark.java import find_java
from tests.codecs.strategies import entry_sets
from tests.servers.bookies.jars import classpath
from tests.servers.java import SHORT_LIVED


class ServersClass:
    """``AvailabilityOfEntriesOfLedger`` of BookKeeper's server, which is queried line by line."""

    def __init__(self) -> None:
        source = Path(__file__).parent / "java" / "AvailabilityOracle.java"
        command = [str(find_java().executable), *SHORT_LIVED, "-cp", classpath(java_files=[source])]
        self._process = subprocess.Popen(
            [*command, "AvailabilityOracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def write(self, entries: list[int]) -> bytes:
        return bytes.fromhex(self._ask("write", *([_words(entries)] if entries else [])))

    def read(self, value: bytes, entries: list[int]) -> tuple[int, list[bool]]:
        total, _, flags = self._ask("read", value.hex(), _words(entries)).partition(" ")
        return int(total), [flag == "1" for flag in flags.split(",")]

    def lacks(self, value: bytes, first: int, last: int) -> list[int]:
        answer = self._ask("lack", value.hex(), str(first), str(last))
        return [int(word) for word in answer.split(",") if word]

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the Java process ended"
        return answer.rstrip("\n")


def _words(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


@pytest.fixture(scope="module")
def servers_class() -> Iterator[ServersClass]:
    started = ServersClass()
    yield started
    started.close()


@given(entries=entry_sets)
def test_server_writes_the_same_bytes_as_encode_unfolded(
    servers_class: ServersClass, entries: list[int]
) -> None:
    assert servers_class.write(entries) == encode_unfolded(groups_of_entries(entries))
    assert expand(decode(servers_class.write(entries))).tolist() == entries


@given(entries=entry_sets.filter(bool), asked=st.lists(st.integers(0, 400), min_size=1))
def test_server_reads_the_same_entries_from_both_encodings(
    servers_class: ServersClass, entries: list[int], asked: list[int]
) -> None:
    groups = groups_of_entries(entries)
    for value in (encode(groups), encode_unfolded(groups)):
        answer = servers_class.read(value, asked)
        assert answer == (len(entries), holds_entries(groups, asked).tolist())


@given(entries=entry_sets.filter(bool), first=st.integers(0, 40), length=st.integers(0, 200))
def test_model_and_server_agree_on_unavailable_entries(
    servers_class: ServersClass, entries: list[int], first: int, length: int
) -> None:
    value, last = encode(groups_of_entries(entries)), first + length
    query = range(first, last + 1)
    answer = servers_class.lacks(value, first, last)
    assert answer == decode(value, mode="java").unavailable(first, last, query)
    # The server may call a held entry unavailable, but never a missing one available.
    assert {*expand(missing_entries(groups_of_entries(entries), groups_of_entries(query))).tolist()} <= {
        *answer
    }


def test_server_reads_a_run_of_the_largest_int_length(servers_class: ServersClass) -> None:
    longest = 2**31 - 1
    value = encode(np.array([(5, 5, longest, 0), (5 + longest, 5 + longest, 3, 0)], GROUP))
    total, available = servers_class.read(value, [4, 5, 4 + longest, 5 + longest, 7 + longest])
    assert available == [False, True, True, True, True]
    assert total == longest + 3

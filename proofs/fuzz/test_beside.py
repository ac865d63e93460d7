"""The server's classes accept and refuse the same bytes as this program, except for the listed reasons."""

from __future__ import annotations

from proofs.fuzz.beside import differences

RUNS = 300

KNOWN = {
    # A cookie of before layout 3 does not say whose it is, and one that is cut says less.
    ("cookie", "here", "cookie: layout N says nothing about its bookie"),
    ("cookie", "here", "cookie: the text ends before the bookie id"),
    ("cookie", "here", "cookie: the text ends before the journal directory"),
    ("cookie", "here", "cookie: the text ends before the list of ledger directories"),
    # Java's split drops what is empty at the end: "flat:1:" is a name and a version.
    ("layout", "here", "layout: the ledger manager is not a name and version"),
    # The number of a field in more bytes than 32 bits take: Java drops the upper ones.
    ("ledger-data", "here", "ledger data: a field that is cut or no field at all"),
    # A message that ends before its promised length, between two fields, is whole to Java.
    ("ledger-metadata", "here", "ledger metadata: N bytes promised, N present"),
}


def test_the_servers_classes_take_what_is_taken_here() -> None:
    found = differences(RUNS, "test")
    assert {key: min(inputs, key=len) for key, inputs in found.items() if key not in KNOWN} == {}

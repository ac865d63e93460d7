"""BookKeeper's classes and this program accept the same bytes, except for the listed reasons."""

from __future__ import annotations

from proofs.fuzz.beside import differences

RUNS = 300

KNOWN_DIFFERENCES = {
    # A cookie before layout 3 does not name its bookie. Java also accepts a cut cookie.
    ("cookie", "here", "cookie: layout N does not contain the bookie's id and directories"),
    ("cookie", "here", "cookie: the text ends before the bookie id"),
    ("cookie", "here", "cookie: the text ends before the journal directory"),
    ("cookie", "here", "cookie: the text ends before the list of ledger directories"),
    # Java's split drops empty parts at the end, so "flat:1:" is a name and a version.
    ("layout", "here", "layout: the ledger manager is not a name and version"),
    # A field number in more bytes than 32 bits need: Java drops the upper bits.
    ("ledger-data", "here", "ledger data: a field that is cut off or invalid"),
    # Java accepts a message that ends before its stated length, if it ends between two fields.
    ("ledger-metadata", "here", "ledger metadata: N bytes declared, N present"),
}


def test_server_classes_accept_the_same_bytes_except_known_differences() -> None:
    cases = differences(RUNS, "test")
    assert {key: min(inputs, key=len) for key, inputs in cases.items() if key not in KNOWN_DIFFERENCES} == {}

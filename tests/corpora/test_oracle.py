"""BookKeeper's own answers for the corpora, a brute force over single entries, and the audit all agree.

The tests use the exact form of the server's replicas check (every entry looked up). The check skips marked
ledgers, so only the brute force decides those of ``replicas-check-tests``. For the other corpora the check
ran again without the marks.
"""

from __future__ import annotations

from tests.corpora.audited import FinishedRun, entries, in_class
from tests.corpora.brute_force import assert_classes, class_of, foreign, judge, orphans
from tests.corpora.corpora import Corpus
from tests.corpora.plain_readers import read_availability

# Index files that were spoiled after the entries were written. The server found them so, and then gave what
# its memory still had, or re-created the file and read nothing. What such a file does not say is unknown.
UNREADABLE: dict[str, dict[tuple[int, str], str]] = {
    "interleaved-hier": {
        (0, "127.0.101.3:3181"): "bad magic",
        (1, "127.0.101.2:3181"): "zero length",
        (2, "127.0.101.2:3181"): "half a header",
        (
            4,
            "127.0.101.1:3181",
        ): "cut inside its page: the server, on pages of 8192 bytes, reads no slot at all",
        (5, "127.0.101.1:3181"): "version from the future",
    },
    "flat-v1": {},
    "dbledger-long": {
        (2, "bk-c.rack2"): "not in the index of ledgers",
        (3, "bk-b.rack1"): "not in the index of ledgers",
    },
}
# The verdicts of these ledgers are compared with brute force alone.
EXEMPT = {name: {ledger for ledger, _ in pairs} for name, pairs in UNREADABLE.items()}

# Where the server's check as it is (`stock`) says something else than the truth, and than we do.
GAP = "E - Qw is 2 or more: after a gap of two entries the server calls all the rest unavailable"
SEGMENT = "a bookie skipped a segment: to the server everything after the gap is unavailable"
HOLE = "two neighbouring entries are gone from a bookie: to the server so is everything after them"
MARKED = "the server passes over marked ledgers"
LOST_INDEX = "the server judged an index as empty that could not be read: unknown here"
STOCK_DIFFERS = {
    "interleaved-hier": {
        1: (LOST_INDEX, "below-ack-quorum"),
        2: (LOST_INDEX, "below-write-quorum"),
        4: (LOST_INDEX, "below-write-quorum"),
        5: (GAP, "entry-lost"),
        23: (GAP, "entry-lost"),
        29: (SEGMENT, "below-ack-quorum"),
        43: (MARKED, "healthy"),
        48: (MARKED, "healthy"),
        55: (HOLE, "below-ack-quorum"),
    },
    "flat-v1": {
        15: (GAP, "entry-lost"),
        33: (GAP, "entry-lost"),
        45: (SEGMENT, "below-ack-quorum"),
        67: (MARKED, "healthy"),
        77: (MARKED, "healthy"),
    },
    "dbledger-long": {
        2: (LOST_INDEX, "below-write-quorum"),
        3: (LOST_INDEX, "below-ack-quorum"),
        5: (GAP, "entry-lost"),
        10000000005: (GAP, "entry-lost"),
        9223372036854770002: (MARKED, "healthy"),
        9223372036854770007: (MARKED, "healthy"),
        9223372036854770015: (HOLE, "entry-lost"),
    },
}


def test_brute_force_reads_the_indexes_that_the_bookies_served(corpus: Corpus) -> None:
    world = corpus.world()
    served = {}
    for ledger, answers in corpus.oracle["availability"].items():
        for bookie, answer in answers.items():
            answer = answer.get("askedAgain", answer)
            if "bytes" in answer:
                served[int(ledger), bookie] = read_availability(bytes.fromhex(answer["bytes"]))
    # A ledger that the bookie does not know is in its other index all the same.
    unserved = {pair for pair, index in world.indexes.items() if not index.served}
    assert set(served) == set(world.indexes) - unserved
    unreadable = {pair for pair, index in world.indexes.items() if not index.readable}
    assert unreadable == set(UNREADABLE[corpus.name])
    for pair in served.keys() - unreadable:
        assert world.indexes[pair].entries == served[pair], pair


def test_brute_force_judges_every_closed_ledger_as_the_servers_exact_check(corpus: Corpus) -> None:
    world = corpus.world()
    for ledger in world.ledgers.keys() - EXEMPT[corpus.name]:
        if world.ledgers[ledger].state == "CLOSED":
            assert judge(world, ledger).name == corpus.exact(ledger), ledger


def test_stock_server_check_differs_only_on_listed_ledgers_for_listed_reasons(corpus: Corpus) -> None:
    world = corpus.world()
    differs = {}
    for ledger, plain in world.ledgers.items():
        stock = corpus.stock(ledger)
        if plain.state == "CLOSED" and stock != judge(world, ledger).name:
            differs[ledger] = stock
    assert differs == {ledger: stock for ledger, (_, stock) in STOCK_DIFFERS[corpus.name].items()}
    for ledger, (reason, _) in STOCK_DIFFERS[corpus.name].items():
        plain = world.ledgers[ledger]
        if reason is GAP:
            assert plain.ensemble_size - plain.write_quorum >= 2
        elif reason is SEGMENT:
            assert len(plain.segments) > 1
        elif reason is MARKED:
            assert ledger in world.marks
        elif reason is LOST_INDEX:
            assert ledger in EXEMPT[corpus.name]


def test_unreadable_index_leaves_ledger_healthy_and_its_bookie_unknown(corpus: Corpus) -> None:
    """Copies in an unreadable index are unknown, never lost, whatever the server concluded."""
    world = corpus.world()
    for ledger, bookie in UNREADABLE[corpus.name]:
        verdict = judge(world, ledger)
        assert (verdict.name, list(verdict.unknown)) == ("healthy", [bookie]), ledger
        assert class_of(world.ledgers[ledger], 1) == verdict.potential


def test_availability_rows_match_the_indexes_that_bookies_served(
    corpus: Corpus, audited: FinishedRun
) -> None:
    rows = {(row["ledger_id"], row["bookie_id"]): row for row in audited.table("availability")}
    rows = {pair: row for pair, row in rows.items() if row["state"] != "stray"}
    served = set()
    for ledger, answers in corpus.oracle["availability"].items():
        for bookie, answer in answers.items():
            answer = answer.get("askedAgain", answer)
            if "bytes" in answer:
                pair = int(ledger), bookie
                served.add(pair)
                if pair not in UNREADABLE[corpus.name]:
                    assert rows[pair]["state"] == "ok", pair
                    assert entries(rows[pair]["groups"]) == read_availability(bytes.fromhex(answer["bytes"]))
    unserved = {pair for pair, row in rows.items() if row["state"] == "not-indexed"}
    assert set(rows) == served | unserved
    assert {pair for pair, row in rows.items() if row["state"] != "ok"} == set(UNREADABLE[corpus.name])


def test_every_ledger_has_the_class_that_brute_force_gives(corpus: Corpus, audited: FinishedRun) -> None:
    assert_classes(corpus.world(), audited.verdicts())


def test_a_finding_lists_the_entries_that_brute_force_has_in_its_class(
    corpus: Corpus, audited: FinishedRun
) -> None:
    world = corpus.world()
    for id in ("entry-lost", "below-ack-quorum", "below-write-quorum"):
        for row in audited.findings_of(id):
            listed = in_class(row)
            assert listed == judge(world, row["ledger_id"]).in_class, row["ledger_id"]
            assert listed


def test_every_closed_ledger_has_the_class_that_the_server_gives(
    corpus: Corpus, audited: FinishedRun
) -> None:
    for ledger, row in audited.verdicts().items():
        if row["state"] == "CLOSED" and ledger not in EXEMPT[corpus.name]:
            assert row["class"] == corpus.exact(ledger), ledger


def test_orphans_are_the_ledgers_that_the_collector_would_delete(
    corpus: Corpus, audited: FinishedRun
) -> None:
    audit_orphans: dict[str, list[int]] = {bookie: [] for bookie in corpus.oracle["garbageCollector"]}
    for row in audited.findings_of("orphan-ledger"):
        audit_orphans[row["bookie_id"]].append(row["ledger_id"])
    server_deletions = {bookie: runs["gc"] for bookie, runs in corpus.oracle["garbageCollector"].items()}
    assert {bookie: sorted(ledgers) for bookie, ledgers in audit_orphans.items()} == server_deletions
    assert {(ledger, bookie) for bookie, ledgers in audit_orphans.items() for ledger in ledgers} == orphans(
        corpus.world()
    )


def test_over_replicated_ledgers_are_extra_gc_deletions_or_not_closed(
    corpus: Corpus, audited: FinishedRun
) -> None:
    """The collector skips ledgers that are not closed; none of these ledgers is marked or locked."""
    world = corpus.world()
    copies = {(row["ledger_id"], row["bookie_id"]) for row in audited.findings_of("over-replicated-ledger")}
    server_deletions = {
        (ledger, bookie)
        for bookie, runs in corpus.oracle["garbageCollector"].items()
        for ledger in set(runs["gcWithOverReplicated"]) - set(runs["gc"])
    }
    not_closed = {(ledger, bookie) for ledger, bookie in copies if world.ledgers[ledger].state != "CLOSED"}
    assert copies - not_closed == server_deletions
    assert copies == foreign(world)
    assert (
        not_closed
        == {
            "interleaved-hier": {(66, "127.0.101.4:3181")},
            "flat-v1": {(113, "bookie4.dc1.example:3181")},
            "dbledger-long": {(5000000000002, "127.0.103.4:3181")},
        }[corpus.name]
    )
    assert not {ledger for ledger, _ in copies} & (world.marks.keys() | world.locks)

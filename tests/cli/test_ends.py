"""The end of commands that cannot do their work: one line, an exit code, and a way to continue."""

from __future__ import annotations

import errno
import inspect
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import py4j.java_gateway
import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.audit.run_store import run_identity
from auditor.cli import INTERRUPTED_EXIT_CODE, main
from auditor.cli.verbosity import GATEWAY_MESSAGES
from auditor.errors import DiskFullError, FileSystemError, RunError, SparkError, UsageError
from auditor.model.options import AuditOptions
from auditor.model.run_facts import DONE_FILE, MANIFEST
from auditor.runs.directory import RunDirectory
from auditor.spark.session import _scratch_parent, check_master
from auditor.spark.tasks import DISK_FULL_ERRNOS, HADOOP_AWS, translate_run_errors

LIVE, SAVED = "zk://h1:2181/ledgers", "dump:///saved/metadata.jsonl"


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


def break_audit(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(*_: Any) -> None:
        raise error

    monkeypatch.setattr(audit_module.Audit, "run", run)


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_ctrl_c_prints_one_line_with_the_resume_command(monkeypatch: pytest.MonkeyPatch) -> None:
    break_audit(monkeypatch, KeyboardInterrupt())
    ended = bkaudit("audit", "--metadata", "zk://h1:2181;h2:2181/ledgers", "--out", "a b")
    command = "bkaudit audit --metadata 'zk://h1:2181;h2:2181/ledgers' --out 'a b'"
    assert (ended.exit_code, ended.stdout) == (INTERRUPTED_EXIT_CODE, "")
    assert ended.stderr == f"bkaudit: interrupted; to resume: {command}\n"
    ended = bkaudit("audit", "--metadata", SAVED)
    assert f"to resume: bkaudit audit --metadata {SAVED} --out runs/2" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.spark
def test_gateway_log_of_an_interruption_is_not_shown() -> None:
    code = (
        "import logging\nfrom auditor.audit.audit import Audit\nfrom auditor.cli import main\n"
        "def run(*_):\n    try:\n        raise KeyboardInterrupt\n    except KeyboardInterrupt:\n"
        f"        logging.exception({GATEWAY_MESSAGES[0]!r})\n        raise\n"
        f"Audit.run = run\nmain(['audit', '--metadata', {SAVED!r}, '--out', 'a'], prog_name='bkaudit')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    expected = f"bkaudit: interrupted; to resume: bkaudit audit --metadata {SAVED} --out a\n"
    assert (ended.returncode, ended.stderr) == (INTERRUPTED_EXIT_CODE, expected)
    source = inspect.getsource(py4j.java_gateway.GatewayClient.send_command)
    assert all(message in source for message in GATEWAY_MESSAGES)


def test_ctrl_c_before_and_after_a_command_exits_as_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """click itself would print "Aborted!" and exit with 1, which is the code for findings."""

    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    for name in ("click.Group.make_context", "auditor.cli.guard_streams"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(name, interrupt)
            ended = bkaudit("status")
        assert (ended.exit_code, ended.stdout, ended.stderr) == (
            INTERRUPTED_EXIT_CODE,
            "",
            "bkaudit: interrupted\n",
        ), name


PROGRAM = (errno.EPIPE, errno.EBADF)


@pytest.mark.parametrize("number", sorted(errno.errorcode.keys() - PROGRAM))
def test_system_errors_exit_as_environment_errors(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    break_audit(monkeypatch, OSError(number, os.strerror(number), "/runs/a"))
    ended = bkaudit("audit", "--metadata", SAVED)
    if number in DISK_FULL_ERRNOS:
        assert (ended.exit_code, "/runs/a" in ended.stderr) == (4, True)
        return
    assert (ended.exit_code, ended.stderr) == (4, f"bkaudit: /runs/a: {os.strerror(number)}\n")


@pytest.mark.parametrize("number", PROGRAM)
def test_broken_pipe_and_bad_descriptor_are_bugs(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    break_audit(monkeypatch, OSError(number, os.strerror(number)))
    ended = bkaudit("audit", "--metadata", SAVED)
    assert (ended.exit_code, "internal error (this is a bug)" in ended.stderr) == (70, True)


def test_file_system_error_without_a_number_shows_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    break_audit(monkeypatch, OSError("Failed to open local file '/runs/a'. Detail: Stale file handle"))
    ended = bkaudit("audit", "--metadata", SAVED)
    message = "bkaudit: Failed to open local file '/runs/a'. Detail: Stale file handle\n"
    assert (ended.exit_code, ended.stderr) == (4, message)


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    break_audit(monkeypatch, ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"))
    ended = bkaudit("audit", "--metadata", SAVED)
    run = f"{sys.executable} -m pip install pyspark"
    assert ended.stderr == f"bkaudit: pyspark: this Python package is not installed. Run: {run}\n"
    assert ended.exit_code == 4
    break_audit(monkeypatch, ModuleNotFoundError("No module named 'auditor.x'", name="auditor.x"))
    assert bkaudit("audit", "--metadata", SAVED).exit_code == 70


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"identity": 3}', '{"reusable": []}', "[" * 100_000])
def test_damaged_manifest_of_an_unfinished_run_is_damage(tmp_path: Path, text: str) -> None:
    line = '{"path": "/ledgers", "data": "", "czxid": 1, "mzxid": 1, "ctime": 1, "mtime": 1, "version": 0}'
    (tmp_path / "metadata.jsonl").write_text(f"{line}\n")
    (tmp_path / "run" / "tables" / "ledgers").mkdir(parents=True)
    (tmp_path / "run" / MANIFEST).write_text(text)
    ended = bkaudit("audit", "--metadata", f"dump://{tmp_path}/metadata.jsonl", "--out", "run")
    assert ended.exit_code == 5, ended.output
    [error_line] = ended.stderr.splitlines()
    assert error_line.startswith(f"bkaudit: {tmp_path}/run/{MANIFEST} is damaged (")
    run = RunDirectory(str(tmp_path / "run"))
    for step in (
        run.read_manifest,
        run.delete_tables,
        lambda: run.begin_run({}),
        lambda: run.add_to_manifest({"a": 1}),
    ):
        with pytest.raises(RunError, match="is damaged"):
            step()


def test_out_option_at_or_below_a_file_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    line = '{"path": "/ledgers", "data": "", "czxid": 1, "mzxid": 1, "ctime": 1, "mtime": 1, "version": 0}'
    (tmp_path / "metadata.jsonl").write_text(f"{line}\n")
    for out in ("file", "file/run"):
        ended = bkaudit("audit", "--metadata", f"dump://{tmp_path}/metadata.jsonl", "--out", out)
        assert ended.exit_code == 2, ended.stderr
        assert ended.stderr.startswith("bkaudit: --out "), ended.stderr
        assert ended.stderr.count("\n") == 1
    with pytest.raises(RunError, match="is a file; choose a new directory"):
        RunDirectory(str(tmp_path / "file")).begin_run({})


@pytest.mark.parametrize("value", ["2x", "g", "-1g", "0g", "2 g", "1.5g"])
def test_memory_value_that_java_refuses_is_wrong_usage(value: str) -> None:
    ended = bkaudit("audit", "--metadata", SAVED, "--driver-memory", value)
    assert ended.exit_code == 2
    assert (
        ended.stderr == f"bkaudit: driver_memory: {value!r} is not a number with k, m, g or t, such as 4g\n"
    )


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2, 3]", "k8s://https://h:6443"])
def test_valid_spark_masters_are_accepted(master: str) -> None:
    check_master(master)


def test_invalid_spark_master_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="yarn needs Hadoop's configuration: set HADOOP_CONF_DIR or YARN"):
        check_master("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    check_master("yarn")
    with pytest.raises(UsageError, match="is not one of local"):
        check_master("http://h:1")
    with pytest.raises(SparkError, match=r"127\.0\.0\.1:1: Connection refused; 'h:x' is not HOST:PORT"):
        check_master("spark://127.0.0.1:1,h:x")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            OSError(28, "No space left on device", "/r/x"),
            DiskFullError,
            "/r/x: No space left on device.",
        ),
        (RuntimeError("java.io.IOException: No space left on device\n\tat"), DiskFullError, "in /r, or in"),
        (
            RuntimeError(
                "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"
            ),
            UsageError,
            f"^/r: Spark has no file system for this path: S3 needs the package {HADOOP_AWS} ",
        ),
        (
            # As Spark said it of a hadoop-aws without what it stands on.
            RuntimeError(
                "NoClassDefFoundError: software/amazon/s3/analyticsaccelerator/request/ObjectClient\n\tat x"
            ),
            UsageError,
            f"^/r: Spark has no file system for this path: S3 needs the package {HADOOP_AWS} and "
            "its dependencies ",
        ),
        (
            RuntimeError('UnsupportedFileSystemException: No FileSystem for scheme "s3"'),
            UsageError,
            "Spark uses the scheme s3a://; use it in the URI$",
        ),
        (
            RuntimeError("x\n: java.nio.file.AccessDeniedException: s3a://b/r: no credentials\n\tat y"),
            FileSystemError,
            "^/r: access denied to Spark: s3a://b/r: no credentials; Spark needs its own credentials ",
        ),
        (
            RuntimeError("Answer from Java side is empty"),
            SparkError,
            "^Spark: answer from Java side is empty, although its Java process does not seem to have ended",
        ),
        (ConnectionRefusedError(111, "Connection refused"), ConnectionRefusedError, "Connection refused"),
        (BrokenPipeError(32, "Broken pipe"), BrokenPipeError, "Broken pipe"),
        (
            RuntimeError("Python worker exited unexpectedly (crashed)"),
            SparkError,
            "^Spark: a Python process of its tasks ended without an error.*Run the same command again",
        ),
        (OSError(13, "Permission denied"), OSError, "Permission denied"),
        (UsageError("mine"), UsageError, "^mine$"),
        (RuntimeError("a bug"), RuntimeError, "^a bug$"),
    ],
)
def test_run_errors_are_translated_with_a_remedy(
    error: Exception, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message), translate_run_errors("/r"):
        raise error


def test_s3_package_matches_the_hadoop_of_pyspark() -> None:
    import pyspark

    [client] = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert HADOOP_AWS.endswith(client.stem.removeprefix("hadoop-client-api-"))
    operate = (Path(__file__).parents[2] / "docs" / "operate.md").read_text("utf-8")
    assert f"spark.jars.packages          {HADOOP_AWS}" in operate


def interrupted_run(name: str, metadata: str, age_s: float, **options: Any) -> Path:
    run = Path("runs") / name
    (run / "tables" / "ledgers").mkdir(parents=True)
    mark = run / "tables" / "ledgers" / DONE_FILE
    mark.touch()
    os.utime(mark, (time.time() - age_s, time.time() - age_s))
    identity = run_identity("audit", metadata, ["/bookies"], AuditOptions(**options))
    RunDirectory(str(run)).write_json(MANIFEST, {"identity": identity})
    return run


def out_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return the run directory that an audit would create."""
    directories: list[str] = []

    def run(self: Any, *_: Any) -> None:
        directories.append(self.out)
        raise UsageError("enough")

    monkeypatch.setattr(audit_module.Audit, "run", run)
    bkaudit("audit", "--bookies", "/bookies", *arguments)
    return directories[0]


def test_interrupted_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_run("20260101T000000Z", LIVE, 20)
    newest = interrupted_run("20260102T000000Z", LIVE, 10)
    os.utime(newest / MANIFEST, (time.time() + 5, time.time() + 5))
    interrupted_run("20260103T000000Z", SAVED, 90_000)
    interrupted_run("20260104T000000Z", LIVE, 5, samples=3)
    (Path("runs") / "odd").mkdir()
    (Path("runs") / "odd" / MANIFEST).write_text("{")
    assert out_of(monkeypatch, "--metadata", LIVE) == str(newest)
    assert out_of(monkeypatch, "--metadata", SAVED) == "runs/20260103T000000Z"
    assert out_of(monkeypatch, "--metadata", LIVE, "--samples", "3") == "runs/20260104T000000Z"
    assert out_of(monkeypatch, "--metadata", LIVE, "--out", "mine") == "mine"
    (newest / "report.json").write_text("{}")
    assert out_of(monkeypatch, "--metadata", LIVE) == "runs/20260101T000000Z"


def test_run_that_is_too_old_or_has_other_options_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    old = interrupted_run("20260101T000000Z", LIVE, 2_000)
    assert Path(out_of(monkeypatch, "--metadata", LIVE)) != old
    assert Path(out_of(monkeypatch, "--metadata", LIVE, "--resume-within", "3000")) != old  # another question
    assert Path(out_of(monkeypatch, "--metadata", "zk://h9:2181/ledgers")) != old


def test_java_uses_the_temporary_directory_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with a read-only root has no other writable place."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with _scratch_parent() as option:
        [place] = tmp_path.iterdir()
        assert option == f"-Djava.io.tmpdir={place}"

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    with pytest.raises(SparkError, match="set TMPDIR"), _scratch_parent():
        pass

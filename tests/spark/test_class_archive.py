"""Spark's classes as an archive: made once, then used, and passed over in silence where it does not fit."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from auditor.spark.class_archive import MAKING_S, SETTLED_S, UNUSED_S, archive_options
from auditor.spark.java import Java, find_java

SPARK = Path(pyspark.__file__).parent
PROGRAM = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version")
SHARED = "shared objects file (top)"
"""What Java's log says of a class out of an archive of an application."""

WRITTEN_WITHIN_S = 300
"""No machine takes so long to write an archive; usual are 5 s."""

NO_JAVA = Java(Path("java"), 17, "PATH", "17.0.15+6")

Said = tuple[int, str, str]


def run_java(
    options: tuple[str, ...], class_path: str = f"{SPARK}/jars/*", log: tuple[str, ...] = ()
) -> Said:
    """Run a small program out of Spark's jars; exit code and both streams."""
    command = [
        str(find_java().executable),
        *shlex.split(" ".join(options)),
        *log,
        "-cp",
        class_path,
        *PROGRAM,
    ]
    environment = {**os.environ, "SPARK_HOME": str(SPARK)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def named(options: tuple[str, ...]) -> Path:
    """The file that the first option names."""
    return Path(shlex.split(options[0])[0].partition("=")[2])


def age(file: Path, seconds: float) -> None:
    long_ago = time.time() - seconds
    os.utime(file, (long_ago, long_ago))


@pytest.fixture(scope="module")
def plain() -> Said:
    return run_java(())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, plain: Said) -> Path:
    cache = tmp_path_factory.mktemp("a user's cache")
    making = archive_options(find_java(), make=True, cache_dir=cache)
    assert run_java(making) == plain
    age(named(making), SETTLED_S + 60)
    return named(archive_options(find_java(), cache_dir=cache))


def test_an_archive_is_made_when_java_ends_and_used_from_then_on(made: Path, plain: Said) -> None:
    options = archive_options(find_java(), make=True, cache_dir=made.parent)
    assert run_java(options) == plain
    assert SHARED in run_java(options, log=("-Xlog:class+load",))[1]
    assert SHARED not in run_java((), log=("-Xlog:class+load",))[1]
    assert list(made.parent.iterdir()) == [made]


def spoilt_head(archive: bytes) -> bytes:
    return archive[:8] + bytes(reversed(archive[8:4096])) + archive[4096:]


def other_build(archive: bytes) -> bytes:
    return archive.replace(b"17.", b"16.", 1)


def no_archive(archive: bytes) -> bytes:
    return b"\n" * len(archive)


@pytest.mark.parametrize("damage", [spoilt_head, other_build, no_archive])
def test_java_says_nothing_of_an_archive_that_it_cannot_use(
    damage: Callable[[bytes], bytes], made: Path, plain: Said, tmp_path: Path
) -> None:
    damaged = tmp_path / made.name
    damaged.write_bytes(damage(made.read_bytes()))
    assert damaged.read_bytes() != made.read_bytes()
    options = archive_options(find_java(), cache_dir=tmp_path)
    assert named(options) == damaged
    assert run_java(options) == plain


def test_java_says_nothing_of_an_archive_of_another_class_path(made: Path, tmp_path: Path) -> None:
    [launcher] = SPARK.glob("jars/spark-launcher*")
    first = f"{shutil.copy(launcher, tmp_path)}:{SPARK}/jars/*"
    options = archive_options(find_java(), cache_dir=made.parent)
    assert run_java(options, first) == run_java((), first)
    assert SHARED not in run_java(options, first, ("-Xlog:class+load",))[1]


def test_an_archive_that_was_cut_is_not_used(made: Path, tmp_path: Path) -> None:
    (tmp_path / made.name).write_bytes(made.read_bytes()[:-4096])
    assert archive_options(find_java(), cache_dir=tmp_path) == ()
    assert named(archive_options(find_java(), make=True, cache_dir=tmp_path)).suffix == ".part"


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of one jar."""
    jar = tmp_path / "spark" / "jars" / "spark.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"classes")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return jar


def test_another_java_spark_or_class_path_has_another_archive(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(java: Java = NO_JAVA) -> str:
        return named(archive_options(java, make=True)).name

    names = [name(), name(Java(NO_JAVA.home, 17, "PATH", "17.0.16+8"))]
    os.utime(jar, (1, 1))
    names.append(name())
    jar.write_bytes(b"other classes")
    os.utime(jar, (1, 1))
    names.append(name())
    (jar.parent / "more.jar").touch()
    names.append(name())
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    names.append(name())
    assert len(set(names)) == len(names)
    assert names[-1] == name()


@pytest.mark.usefixtures("jar")
def test_an_archive_is_made_only_where_that_is_asked_for_and_there_is_none() -> None:
    making = archive_options(NO_JAVA, make=True)
    part = named(making)
    assert making[0] == f"-XX:ArchiveClassesAtExit={part}"
    assert archive_options(NO_JAVA) == ()
    part.write_bytes(bytes(4096))  # the Java of an audit beside this one is writing it
    assert archive_options(NO_JAVA, make=True) == ()
    age(part, SETTLED_S + 60)
    assert archive_options(NO_JAVA, make=True) == ()
    age(part, MAKING_S + 60)  # it was killed before it wrote the head
    assert archive_options(NO_JAVA, make=True) == making
    part.write_bytes(b"head and classes")
    assert archive_options(NO_JAVA, make=True) == ()
    age(part, SETTLED_S + 60)
    [use, *_] = archive_options(NO_JAVA, make=True)
    assert use == f"-XX:SharedArchiveFile={part.with_name(part.stem + '-16.jsa')}"


@pytest.mark.usefixtures("jar")
def test_an_archive_that_nobody_has_used_for_long_goes_when_another_is_made() -> None:
    cache = named(archive_options(NO_JAVA, make=True)).parent
    unused, used, other = cache / "spark-3-1.jsa", cache / "spark-4-1.jsa", cache / "java-17"
    for file in (unused, used, other):
        file.write_bytes(b"made")
    age(unused, UNUSED_S + 60)
    age(other, UNUSED_S + 60)
    archive_options(NO_JAVA, make=True)
    assert (unused.exists(), used.exists(), other.exists()) == (False, True, True)


@pytest.mark.usefixtures("jar")
def test_without_a_cache_directory_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert archive_options(NO_JAVA, make=True, cache_dir=tmp_path / "file") == ()
    assert archive_options(NO_JAVA, make=True, cache_dir=tmp_path / "file" / "below") == ()


@pytest.mark.parametrize("said", ["-Xshare:off", "-Xmx1g -XX:SharedArchiveFile=/srv/own.jsa"])
def test_what_the_user_tells_java_of_archives_holds(
    said: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = find_java()
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xmx1g")
    assert archive_options(java, cache_dir=made.parent)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", said)
    assert archive_options(java, make=True, cache_dir=made.parent) == ()


SESSION = """
import sys
from pathlib import Path
from auditor.spark.session import build_session
spark = build_session("local[1]", log=Path(sys.argv[1]), keep_classes=True)
mapped = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
print("bookkeeper-auditor/spark-" in mapped)
"""


def test_a_session_uses_what_an_earlier_one_kept_after_its_end(tmp_path: Path) -> None:
    java, cache, log = find_java(), tmp_path / "bookkeeper-auditor", tmp_path / "spark.log"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(java.home)}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])

    def session() -> tuple[str, str]:
        command = [sys.executable, "-c", SESSION, str(log)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    part = named(archive_options(java, make=True, cache_dir=cache))
    assert session() == ("False\n", "")
    deadline = time.monotonic() + WRITTEN_WITHIN_S
    while not archive_options(java, cache_dir=cache):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
        if part.exists():
            age(part, SETTLED_S + 60)  # as if the next session came later
    assert session() == ("True\n", "")
    assert "[cds" not in log.read_text()

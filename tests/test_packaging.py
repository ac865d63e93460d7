"""The requirements of the package, the versions in the tests, and the content of the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from importlib.metadata import version
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.made_runs import made_run
from tests.reports.samples import report

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINS = {
    pin.name: pin
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for pin in [Requirement(line)]
}


def declared(*extras: str) -> list[Requirement]:
    """Return the requirements of the project with these extras, except for the project itself."""
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in PROJECT["optional-dependencies"][extra]),
    ]
    return [requirement for requirement in map(Requirement, lines) if requirement.name != PROJECT["name"]]


def test_every_dependency_has_one_exact_version() -> None:
    names = {requirement.name for requirement in declared("java", "notebook", "kerberos", "dev")}
    assert names == {*PINS}
    assert all(str(pin.specifier).startswith("==") for pin in PINS.values())


@pytest.mark.parametrize(
    "requirement", declared("java", "notebook", "kerberos"), ids=lambda requirement: requirement.name
)
def test_runtime_dependency_range_contains_the_exact_version(
    requirement: Requirement,
) -> None:
    [exact] = PINS[requirement.name].specifier
    assert requirement.specifier.contains(exact.version)
    assert {bound.operator for bound in requirement.specifier} == {">=", "<"}


def test_dev_dependencies_have_no_version_specifier() -> None:
    assert not [
        requirement.name
        for requirement in declared("dev")
        if requirement.name not in {x.name for x in declared()} and requirement.specifier
    ]


@pytest.mark.parametrize("name", sorted(requirement.name for requirement in declared()))
def test_installed_versions_equal_exact_versions(name: str) -> None:
    [exact] = PINS[name].specifier
    assert version(name) == exact.version


def files_of(place: Path) -> set[str]:
    return {
        str(path.relative_to(place))
        for path in (place / "auditor").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_a_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    shipped = {name for name in files_of(wheel) if name.startswith("auditor/shipped/")}
    assert files_of(wheel) - shipped == files_of(ROOT)


def test_wheel_metadata_has_urls_keywords_and_classifier(wheel: Path) -> None:
    [file] = wheel.glob("*.dist-info/METADATA")
    about = message_from_string(file.read_text("utf-8"))
    urls = dict(url.split(", ", 1) for url in about.get_all("Project-URL", []))
    # The project has no public address of its own, and a link that leads nowhere is worse than none.
    assert urls.keys() == {"Apache BookKeeper", "BP-34"}
    assert not [url for url in urls.values() if ".example" in url]
    assert "bookkeeper" in about["Keywords"]
    assert "Topic :: System :: Monitoring" in about.get_all("Classifier", [])


def build(source: Path, target: str, place: Path) -> bytes:
    """Build a wheel or an sdist of a checkout, and return its bytes."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(place)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1767225600"}
    subprocess.run(command, cwd=source, env=environment, capture_output=True, check=True)
    [artifact] = place.iterdir()
    return artifact.read_bytes()


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling")
def test_builds_of_equal_sources_are_byte_identical(tmp_path: Path) -> None:
    sdist = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(fileobj=BytesIO(sdist)) as archive:
        archive.extractall(tmp_path, filter="data")
    [elsewhere] = tmp_path.glob("bookkeeper_auditor-*")
    for path in elsewhere.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (0, 0))
    assert build(elsewhere, "sdist", tmp_path / "again") == sdist
    assert build(elsewhere, "wheel", tmp_path / "wheel") == build(ROOT, "wheel", tmp_path / "first")


def test_a_wheel_installs_the_manual_page(wheel: Path) -> None:
    [page] = wheel.glob("*.data/data/share/man/man1/bkaudit.1")
    assert page.read_bytes() == (ROOT / "docs" / "bkaudit.1").read_bytes()


def test_jobs_and_documents_are_in_a_wheel(wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(wheel)}

    def run_python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            check=True,
        )
        return done.stdout

    for name in ("audit", "collect", "scan"):
        assert run_python("-m", f"auditor.jobs.{name}", "-h").startswith(f"Usage: bkaudit {name} [OPTIONS]")
    program = "from auditor.cli import main; main(['conf', 'show', {!r}])"
    pages = [*sorted((ROOT / "docs").rglob("*.md"))[:2], *(ROOT / "notebooks").iterdir()]
    for page in (*pages, ROOT / "docs" / "checks" / "storage.md"):
        name = page.relative_to(ROOT).as_posix()
        assert run_python("-c", program.format(name)) == page.read_text("utf-8")


def test_a_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", report=report([], ())).path
    program = (
        "import auditor; from auditor.cli import main; print(auditor.__file__); "
        f"main(['report', {run!r}, '--format', 'html=page.html'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.stdout.strip() == str(wheel / "auditor" / "__init__.py"), done.stderr
    assert (tmp_path / "page.html").read_text("utf-8").startswith("<!doctype html>")

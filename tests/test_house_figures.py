"""The figures about the code equal the counts that their names promise."""

from __future__ import annotations

import subprocess

import pytest

from tests.house import ROOT, Repo, read_git, read_tree, table

HEAD = '"""An idea."""\n\nfrom __future__ import annotations\n\nimport ast\n'
TYPED = "\nif TYPE_CHECKING:\n    from auditor.sources.metadata.two import two\n"
TEXTS = {
    "auditor/__init__.py": '"""The package."""\n',
    "auditor/checks/__init__.py": '"""Checks."""\n\nfrom auditor.checks import row\n',
    "auditor/checks/row.py": f"{HEAD}\n\n@row\ndef one() -> None:\n    pass\n",
    "auditor/jobs/go.py": f'{HEAD}\n\nif __name__ == "__main__":\n    pass\n',
    "auditor/sources/bookies/one.py": f"{HEAD}{TYPED}\n\nONE = 1\n",
    "auditor/sources/metadata/two.py": (
        f"{HEAD}\n\ndef two() -> None:\n    from auditor.sources.bookies.one import ONE\n"
        + "    two()\n" * 61
    ),
    "auditor/sources/metadata/named.py": f'{HEAD}\n\nROW = "auditor.checks.row:one"\n',
    "auditor/codecs/protobuf/pb/made_pb2.py": "MADE = 1\n" * 1000,
    "tests/test_it.py": "def test_it() -> None: ...\n\n\ndef helper() -> None: ...\n",
    "tests/made.py": "MADE = 1\n",
}


def figures(texts: dict[str, str]) -> dict[str, str]:
    return dict(Repo(texts).figures())


def test_figures_of_a_sample_package_are_counted() -> None:
    house, values = Repo(TEXTS), figures(TEXTS)
    assert values["modules"] == "7"
    assert values["lines"] == "112"
    assert values["largest file"] == "70"
    assert values["functions over 60 lines"] == "1"
    assert values["longest function"] == "62"
    assert (values["test files"], values["all files of tests"], values["lines of tests"]) == ("1", "2", "5")
    assert values["test functions"] == "1"
    assert house.fragments() == ["auditor/sources/bookies/one.py", "auditor/sources/metadata/named.py"]


def test_header_lines_end_at_decorator_of_first_statement() -> None:
    modules = Repo(TEXTS).modules
    assert modules["auditor.checks.row"].header == 7
    assert modules["auditor.sources.bookies.one"].header == 10
    assert modules["auditor.checks"].header == 3


def test_mutual_imports_of_parts_are_counted_as_pairs() -> None:
    assert Repo(TEXTS).pairs("sources") == {("bookies", "metadata"): 2}


def test_importers_include_modules_that_name_the_module() -> None:
    assert Repo(TEXTS).importers["auditor.checks.row"] == {
        "auditor.checks",
        "auditor.sources.metadata.named",
    }


def test_a_revision_is_read_without_a_checkout() -> None:
    inside = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    if inside.returncode:
        pytest.skip("no git repository")
    assert read_git("HEAD").keys() & read_tree().keys() >= {"auditor/__init__.py", "tests/test_house.py"}


def test_figures_of_two_revisions_are_tabulated_side_by_side() -> None:
    assert table({"then": [("modules", "7"), ("gone", "1")], "here": [("modules", "12")]}) == [
        "         then  here",
        "modules     7    12",
        "gone        1     -",
    ]

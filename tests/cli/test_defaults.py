"""Defaults from the environment and from a file with named clusters; flags go before both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.cli import main
from auditor.errors import UsageError
from auditor.model.options import AuditOptions

FILE = """
samples = 3
[clusters.prod-eu]
metadata = "dump:///eu/metadata.jsonl"
bookies = ["/eu/a", "/eu/b"]
runs = "eu-runs"
[clusters.bare]
metadata = "dump:///bare/metadata.jsonl"
bookies = "/bare"
[clusters.wrong]
metadat = "x"
[clusters.odd]
metadata = 3
"""


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("METADATA", "BOOKIES", "RUNS", "CONF"):
        monkeypatch.delenv(f"BKAUDIT_{name}", raising=False)
    (tmp_path / "audit.toml").write_text(FILE)


def bkaudit(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="bkaudit")


def audited(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, tuple[str, ...], str, int]:
    """metadata, bookies, the directory of the run, and the samples of an audit that these start."""
    found: list[Any] = []

    def run(self: Any, *_: Any) -> None:
        found.append(self)
        raise UsageError("enough")

    monkeypatch.setattr(audit_module.Audit, "run", run)
    outcome = bkaudit("audit", *arguments)
    assert found, outcome.stderr
    [audit] = found
    return audit.metadata, audit.bookies, str(Path(audit.out).parent), audit.options.samples


def test_the_environment_says_what_no_flag_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BKAUDIT_METADATA", "dump:///env/metadata.jsonl")
    monkeypatch.setenv("BKAUDIT_BOOKIES", "/env/my bookies")
    monkeypatch.setenv("BKAUDIT_RUNS", "env-runs")
    monkeypatch.setenv("BKAUDIT_CONF", "audit.toml")
    assert audited(monkeypatch) == ("dump:///env/metadata.jsonl", ("/env/my bookies",), "env-runs", 3)
    flags = ("--metadata", "dump:///flag", "--bookies", "/a", "--bookies", "/b", "--samples", "7")
    assert audited(monkeypatch, *flags) == ("dump:///flag", ("/a", "/b"), "env-runs", 7)
    assert bkaudit("history").stderr.startswith("bkaudit: env-runs: no such directory")


def test_a_file_names_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BKAUDIT_METADATA", "dump:///env")
    monkeypatch.setenv("BKAUDIT_RUNS", "env-runs")
    conf = ("--conf", "audit.toml")
    eu = ("dump:///eu/metadata.jsonl", ("/eu/a", "/eu/b"), "eu-runs", 3)
    assert audited(monkeypatch, *conf, "--cluster", "prod-eu") == eu
    assert audited(monkeypatch, *conf, "--cluster", "bare")[1:3] == (("/bare",), "env-runs")
    assert audited(monkeypatch, *conf, "--cluster", "prod-eu", "--bookies", "/x")[1] == ("/x",)
    assert AuditOptions.from_toml("audit.toml").samples == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--metadata: say where the metadata is; --cluster NAME and BKAUDIT_METADATA do too"),
        (("--cluster", "prod-eu"), "--conf or BKAUDIT_CONF names the file"),
        (
            ("--cluster", "prod", "--conf", "audit.toml"),
            "audit.toml: there is no [clusters.prod]; there are prod-eu, bare, wrong, odd",
        ),
        (("--cluster", "wrong", "--conf", "audit.toml"), "clusters.wrong: metadat: no such key"),
        (("--cluster", "odd", "--conf", "audit.toml"), "clusters.odd: metadata: 3 is not a string"),
    ],
)
def test_what_says_nothing_is_usage(arguments: tuple[str, ...], said: str) -> None:
    outcome = bkaudit("audit", *arguments)
    assert outcome.exit_code == 2
    assert said in outcome.stderr

"""Defaults from the environment and from a file with named clusters; flags override both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from auditor.audit import audit as audit_module
from auditor.cli import main
from auditor.cli.options import options_from_flags
from auditor.errors import UsageError
from tests.made_runs import made_run

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


def audit_call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, tuple[str, ...], str, int]:
    """Return metadata, bookies, runs' directory and samples of the audit that these arguments start."""
    audits: list[Any] = []

    def run(self: Any, *_: Any) -> None:
        audits.append(self)
        raise UsageError("enough")

    monkeypatch.setattr(audit_module.Audit, "run", run)
    outcome = bkaudit("audit", *arguments)
    assert audits, outcome.stderr
    [audit] = audits
    return audit.metadata, audit.bookies, str(Path(audit.out).parent), audit.options.samples


def test_environment_sets_what_no_flag_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BKAUDIT_METADATA", "dump:///env/metadata.jsonl")
    monkeypatch.setenv("BKAUDIT_BOOKIES", "/env/my bookies")
    monkeypatch.setenv("BKAUDIT_RUNS", "env-runs")
    monkeypatch.setenv("BKAUDIT_CONF", "audit.toml")
    assert audit_call(monkeypatch) == ("dump:///env/metadata.jsonl", ("/env/my bookies",), "env-runs", 3)
    flags = ("--metadata", "dump:///flag", "--bookies", "/a", "--bookies", "/b", "--samples", "7")
    assert audit_call(monkeypatch, *flags) == ("dump:///flag", ("/a", "/b"), "env-runs", 7)
    assert bkaudit("history").stderr.startswith("bkaudit: env-runs: no such directory")


def test_configuration_file_names_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BKAUDIT_METADATA", "dump:///env")
    monkeypatch.setenv("BKAUDIT_RUNS", "env-runs")
    conf = ("--conf", "audit.toml")
    eu = ("dump:///eu/metadata.jsonl", ("/eu/a", "/eu/b"), "eu-runs", 3)
    assert audit_call(monkeypatch, *conf, "--cluster", "prod-eu") == eu
    assert audit_call(monkeypatch, *conf, "--cluster", "bare")[1:3] == (("/bare",), "env-runs")
    assert audit_call(monkeypatch, *conf, "--cluster", "prod-eu", "--bookies", "/x")[1] == ("/x",)
    assert options_from_flags(Path("audit.toml"), {}).samples == 3


CORPUS = Path(__file__).parents[1] / "data" / "flat-v1" / "metadata.jsonl.gz"


def test_ledger_takes_its_store_and_credentials_from_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "metadata.jsonl.gz").write_bytes(CORPUS.read_bytes())
    uri = f"dump://{tmp_path}/metadata.jsonl.gz"
    listing = bkaudit("ledger", "list", "--metadata", uri)
    assert listing.stdout.count("\n") > 40
    (tmp_path / "one.toml").write_text(f'[clusters.one]\nmetadata = "{uri}"\n')
    cluster_flags = ("--cluster", "one", "--conf", "one.toml")
    assert bkaudit("ledger", "list", *cluster_flags).stdout == listing.stdout
    assert bkaudit("ledger", "list", "0", *cluster_flags).stdout == listing.stdout
    monkeypatch.setenv("BKAUDIT_METADATA", uri)
    assert bkaudit("ledger", "list").stdout == listing.stdout
    first = json.loads(listing.stdout.splitlines()[0])
    by_id, by_name = (
        bkaudit("ledger", "show", first[key]).stdout for key in ("ledger_id", "ledger_qualified_name")
    )
    assert by_id == by_name
    assert json.loads(by_id) == first
    (tmp_path / "odd.toml").write_text('credentials = "/nowhere/credentials.toml"\n')
    refused = bkaudit("ledger", "list", "--conf", "odd.toml", "--metadata", "zk://127.0.0.1:1/ledgers")
    assert "/nowhere/credentials.toml" in refused.stderr


def test_doctor_checks_the_sources_of_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def parse_sources(*sources: Any) -> None:
        calls.append(sources)
        raise UsageError("enough")

    monkeypatch.setattr("auditor.doctor.parse_sources", parse_sources)
    bkaudit("doctor", "--conf", "audit.toml", "--cluster", "prod-eu")
    monkeypatch.setenv("BKAUDIT_METADATA", "dump:///env")
    monkeypatch.setenv("BKAUDIT_BOOKIES", "/env")
    bkaudit("doctor")
    bkaudit("doctor", "--metadata", "dump:///flag", "--bookies", "/flag")
    assert [sources[:2] for sources in calls] == [
        ("dump:///eu/metadata.jsonl", ("/eu/a", "/eu/b")),
        ("dump:///env", ("/env",)),
        ("dump:///flag", ("/flag",)),
    ]


def test_collect_reads_the_bookies_of_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    bookie_lists: list[tuple[str, ...]] = []

    def check(bookies: tuple[str, ...], out: str) -> None:
        bookie_lists.append(bookies)
        raise UsageError("enough")

    monkeypatch.setattr("auditor.collect.collect.check_target", check)
    refused = bkaudit("collect", "--out", "x")
    assert (refused.exit_code, "--bookies: missing. Pass it" in refused.stderr) == (2, True)
    bkaudit("collect", "--out", "x", "--cluster", "prod-eu", "--conf", "audit.toml")
    monkeypatch.setenv("BKAUDIT_BOOKIES", "/env")
    bkaudit("collect", "--out", "x")
    assert bookie_lists == [("/eu/a", "/eu/b"), ("/env",)]


def test_commands_search_runs_in_the_configured_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("eu-runs", "env-runs", "runs"):
        made_run(Path(place) / "20261121T050749Z")
    conf = ("--conf", "audit.toml", "--cluster", "prod-eu")
    for words in (("status",), ("history",), ("report", "--format", "json")):
        outcomes = [bkaudit(*words, *conf), bkaudit(*words)]
        monkeypatch.setenv("BKAUDIT_RUNS", "env-runs")
        outcomes.append(bkaudit(*words))
        monkeypatch.delenv("BKAUDIT_RUNS")
        assert all(outcome.stdout for outcome in outcomes), [outcome.stderr for outcome in outcomes]
        if words == ("status",):
            shown = [
                place in outcome.stdout
                for outcome, place in zip(outcomes, ("eu-", " runs", "env-"), strict=True)
            ]
            assert shown == [True, True, True]
    monkeypatch.setenv("BKAUDIT_RUNS", "none")
    for unnamed in (
        ("report",),
        ("explain", "run"),
        ("explain", "ledger", "5"),
        ("explain", "topic", "a/b/c"),
    ):
        refused = bkaudit(*unnamed)
        assert (refused.exit_code, refused.stderr) == (
            2, "bkaudit: none: no such directory; bkaudit audit creates it with the first run\n"
        )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--metadata: missing. Pass it or --cluster NAME, or set BKAUDIT_METADATA"),
        (("--cluster", "prod-eu"), "no file with clusters was given"),
        (
            ("--cluster", "prod", "--conf", "audit.toml"),
            "audit.toml: no table [clusters.prod]. Clusters in the file: prod-eu, bare, wrong, odd",
        ),
        (("--cluster", "wrong", "--conf", "audit.toml"), "clusters.wrong: metadat: no such key"),
        (("--cluster", "odd", "--conf", "audit.toml"), "clusters.odd: metadata: 3 is not a string"),
    ],
)
def test_missing_or_wrong_default_is_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    outcome = bkaudit("audit", *arguments)
    assert outcome.exit_code == 2
    assert message in outcome.stderr

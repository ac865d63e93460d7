"""A loss that an operator accepts, from the first audit to the deletion of its ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.notebook.run import open_run
from tests.corpora.audited import FinishedRun
from tests.corpora.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B, C = (f"bk{letter}.example:3181" for letter in "abc")
LOSSY_LEDGER = 4


def cluster(missing_entries: tuple[int, ...], deleted: bool = False) -> Cluster:
    """Return three bookies and ten ledgers; one ledger has lost ``missing_entries``, or is deleted."""
    new_cluster = Cluster()
    for bookie in (A, B, C):
        new_cluster.bookie(bookie)
    for ledger in range(10):
        if ledger != LOSSY_LEDGER:
            new_cluster.ledger(ledger, {0: [A, B, C]}, (3, 2), 9)
        elif not deleted:
            new_cluster.ledger(
                ledger, {0: [A, B, C]}, (3, 2), 9, without=dict.fromkeys((A, B, C), missing_entries)
            )
    return new_cluster


@pytest.fixture(scope="module")
def nights(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Result, FinishedRun]]:
    """Return successive audits of the cluster, by name."""
    home = tmp_path_factory.mktemp("acceptance")
    first_root, larger_root, deleted_root = (
        cluster(*arguments).write(home / name)
        for name, *arguments in (("once", (4,)), ("more", (4, 5)), ("gone", (), True))
    )
    results: dict[str, tuple[Result, FinishedRun]] = {}

    def night(name: str, root: Path, *flags: str, entry: str = "") -> FinishedRun:
        sources = ["--metadata", f"dump://{root}/metadata.jsonl", "--bookies", str(root / "bookies")]
        if entry:
            file = home / f"{name}.toml"
            file.write_text(entry)
            flags = (*flags, "--suppressions", str(file))
        out = home / "runs" / name
        result = CliRunner().invoke(main, ["audit", *sources, "--out", str(out), *flags])
        results[name] = result, FinishedRun(open_run(out).report, out)
        return results[name][1]

    def entry(names: str, days: int = 7) -> str:
        until = (datetime.now(UTC) + timedelta(days=days)).date()
        return f'[[suppress]]\n{names}\nreason = "load test"\nuntil = {until}\n'

    [loss] = night("1-found", first_root).report.findings
    accepted = f'fingerprint = "{loss.fingerprint}"\nmissing = "{loss.evidence["missing_digest"]}"'
    night("2-new", first_root, "--fail-on", "new")
    night("3-by-id", first_root, entry=entry('id = "entry-lost"', 300))
    night(
        "4-baseline", first_root, entry=entry('run = "runs/1-found"', 300).replace("suppress]", "baseline]")
    )
    night("5-late", first_root, entry=entry(accepted, 9))
    night("6-accepted", first_root, entry=entry(accepted))
    night("7-more", larger_root, entry=entry(accepted))
    night("8-deleted", deleted_root, entry=entry(accepted))
    return results


def remarks(run: FinishedRun) -> list[tuple[str, list[str]]]:
    return [
        (note["text"], note["details"]) for note in run.report.run.remarks if note["kind"] == "not-accepted"
    ]


def test_loss_fails_the_audit_until_accepted_by_fingerprint(
    nights: dict[str, tuple[Result, FinishedRun]],
) -> None:
    assert {name: result.exit_code for name, (result, _) in nights.items()} == {
        "1-found": 1,
        "2-new": 1,
        "3-by-id": 1,
        "4-baseline": 1,
        "5-late": 1,
        "6-accepted": 0,
        "7-more": 1,
        "8-deleted": 0,
    }


def test_invalid_acceptance_of_a_loss_is_reported_with_its_reason(
    nights: dict[str, tuple[Result, FinishedRun]],
) -> None:
    text = "1 finding of data loss cannot be suppressed"
    only = "entry 1 (load test): 1 finding; a finding of data loss can be accepted only by its fingerprint"
    assert remarks(nights["3-by-id"][1]) == remarks(nights["4-baseline"][1]) == [(text, [only])]
    [(_, [late])] = remarks(nights["5-late"][1])
    latest = (datetime.now(UTC) + timedelta(days=7)).date()
    assert late.endswith(f"is too late: the latest day allowed is {latest}")
    [(_, [changed])] = remarks(nights["7-more"][1])
    digest = nights["7-more"][1].report.findings[0].evidence["missing_digest"]
    assert changed.endswith(f' is not the digest of the entries missing now, which is "{digest}"')
    assert remarks(nights["6-accepted"][1]) == remarks(nights["8-deleted"][1]) == []
    assert text in " ".join(nights["3-by-id"][0].stdout.split())


def test_verdict_states_that_all_losses_are_accepted(nights: dict[str, tuple[Result, FinishedRun]]) -> None:
    assert "NOT HEALTHY: 1 critical; all accepted\n" in nights["6-accepted"][0].stdout
    assert "NOT HEALTHY: 1 critical\n" in nights["7-more"][0].stdout


def test_loss_of_a_deleted_ledger_is_fixed(nights: dict[str, tuple[Result, FinishedRun]]) -> None:
    [change] = [row for row in nights["8-deleted"][1].table("changes") if row["id"] == "entry-lost"]
    assert (change["change"], change["suppression"]) == ("fixed", None)

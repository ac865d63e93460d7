"""The whole command, from its flags to its exit code: audits end with 0, 3, 1 and 5."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner, Result

from auditor.cli import main
from auditor.notebook.run import open_run
from tests.corpora.audited import FinishedRun
from tests.corpora.cluster import Cluster, ledger_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bkaudit(root: Path, out: str, *flags: str) -> Result:
    """Run the command in this process, with the Spark session of the tests."""
    sources = ["--metadata", f"dump://{root}/metadata.jsonl", "--bookies", str(root / "bookies")]
    return CliRunner().invoke(main, ["audit", *sources, "--out", str(root / out), *flags])


def cluster(broken: int = 0) -> Cluster:
    new_cluster = Cluster()
    a, b, c = (new_cluster.bookie(f"bk{n}.example:3181") for n in (1, 2, 3))
    for ledger in range(5):
        new_cluster.ledger(ledger, {0: [a, b, c]}, (2, 2), 19)
    for ledger in range(100, 100 + broken):
        new_cluster.node(
            f"/ledgers/{ledger_path(new_cluster.layout, ledger)}", b"BookieMetadataFormatVersion\t3\n\x01"
        )
    return new_cluster


class Night(NamedTuple):
    """The result of one audit's command, and its run."""

    ended: Result
    run: FinishedRun


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Night]:
    """Return audits of a cluster: clean, without a directory, with that accepted, and with a lost copy."""
    root = cluster().write(tmp_path_factory.mktemp("nights"))
    bookies = root / "bookies"
    accepted = root / "accepted.toml"
    accepted.write_text(
        "[[suppress]]\nid = 'bookie-unread'\nbookie_id = 'bk2.*'\nreason = 'it is gone'\nuntil = 2999-12-31\n"
    )

    def night(out: str, *flags: str) -> Night:
        ended = bkaudit(root, out, *flags)
        return Night(ended, FinishedRun(open_run(root / out).report, root / out))

    clean = night("clean", "--format", "json")
    shutil.rmtree(bookies / "bk2.example_3181" / "ledgers0")
    unread = night("unread", "--format", "jsonl")
    accepted_run = night("known", "--format", "json", "--suppressions", str(accepted))
    (bookies / "bk1.example_3181" / "ledgers0/current/0/3/3.idx").unlink()
    return {"clean": clean, "unread": unread, "known": accepted_run, "lost": night("lost")}


def test_exit_codes_of_a_clean_unread_accepted_and_lossy_run(nights: dict[str, Night]) -> None:
    clean, unread, accepted, lost = (nights[name].ended for name in ("clean", "unread", "known", "lost"))
    assert (clean.exit_code, json.loads(clean.stdout)["verdict"]) == (0, "healthy")
    assert unread.exit_code == 3
    assert [json.loads(line)["id"] for line in unread.stdout.splitlines()] == ["bookie-unread"]
    report = json.loads(accepted.stdout)
    assert (accepted.exit_code, report["verdict"]) == (0, "incomplete")
    assert report["run"]["accepted"] == {"bookies": ["bk2.example:3181"], "ledgers": 5, "replicas": 5}
    assert (lost.exit_code, "below-ack-quorum" in lost.stdout) == (1, True)


def test_run_without_one_directory_is_incomplete_and_a_full_run_healthy(
    nights: dict[str, Night],
) -> None:
    clean, unread = nights["clean"].run, nights["unread"].run
    assert clean.findings() == []
    assert json.loads((clean.out / "report.json").read_text())["verdict"] == "healthy"
    assert [(row.id, row.bookie) for row in unread.finding_keys()] == [("bookie-unread", "bk2.example:3181")]
    assert json.loads((unread.out / "report.json").read_text())["verdict"] == "incomplete"


def test_cluster_without_readable_bookies_is_incomplete(spark: SparkSession, tmp_path: Path) -> None:
    root = cluster().write(tmp_path)
    shutil.rmtree(root / "bookies")
    (root / "bookies").mkdir()
    empty = bkaudit(root, "run", "--format", "json")
    assert (empty.exit_code, "check whether a disk is not mounted" in empty.stderr) == (2, True)
    assert not (tmp_path / "run").exists()
    (root / "bookies" / "lost+found").mkdir()
    unread = bkaudit(root, "run", "--format", "json")
    report = json.loads(unread.stdout)
    assert (unread.exit_code, report["verdict"], report["counts"]) == (3, "incomplete", {"bookie-unread": 3})
    assert report["coverage"]["ledgers"] == {"total": 5, "decided": 0, "open": 0}
    assert report["coverage"]["replicas"] == {"expected": 15, "decided": 0}


def test_metadata_damage_beyond_the_budget_has_its_own_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    root = cluster(broken=100).write(tmp_path)
    damaged = bkaudit(root, "run", "--format", "json")
    report = json.loads(damaged.stdout)
    assert (damaged.exit_code, report["counts"]) == (5, {"metadata-unreadable": 100})
    assert report["coverage"]["ledgers"] == {"total": 105, "decided": 5, "open": 0}

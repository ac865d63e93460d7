"""The whole command, from its flags to its exit code: 0, 3, 1 and 5 are earned, not assumed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner, Result

from auditor.cli import main
from tests.corpora.cluster import Cluster, ledger_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bkaudit(root: Path, out: str, *flags: str) -> Result:
    """The command in this process: it takes the session that the tests have."""
    sources = ["--metadata", f"dump://{root}/metadata.jsonl", "--bookies", str(root / "bookies")]
    return CliRunner().invoke(main, ["audit", *sources, "--out", str(root / out), *flags])


def cluster(broken: int = 0) -> Cluster:
    made = Cluster()
    a, b, c = (made.bookie(f"bk{n}.example:3181") for n in (1, 2, 3))
    for ledger in range(5):
        made.ledger(ledger, {0: [a, b, c]}, (2, 2), 19)
    for ledger in range(100, 100 + broken):
        made.node(f"/ledgers/{ledger_path(made.layout, ledger)}", b"BookieMetadataFormatVersion\t3\n\x01")
    return made


def test_a_clean_cluster_an_unread_bookie_and_a_loss(spark: SparkSession, tmp_path: Path) -> None:
    made = cluster()
    root = made.write(tmp_path)
    clean = bkaudit(root, "clean", "--format", "json")
    assert (clean.exit_code, json.loads(clean.stdout)["verdict"]) == (0, "healthy")

    shutil.move(root / "bookies" / "bk2.example_3181", root / "unmounted")
    unread = bkaudit(root, "unread", "--format", "jsonl")
    assert unread.exit_code == 3
    assert [json.loads(line)["id"] for line in unread.stdout.splitlines()] == ["bookie-unread"]

    accepted = tmp_path / "accepted.toml"
    accepted.write_text(
        "[[suppress]]\nid = 'bookie-unread'\nbookie_id = 'bk2.*'\nreason = 'it is gone'\nuntil = 2999-12-31\n"
    )
    known = bkaudit(root, "known", "--format", "json", "--suppressions", str(accepted))
    report = json.loads(known.stdout)
    assert (known.exit_code, report["verdict"]) == (0, "incomplete")
    assert report["run"]["accepted"] == {"bookies": ["bk2.example:3181"], "ledgers": 5, "replicas": 5}

    (root / "bookies" / "bk1.example_3181" / "ledgers0/current/0/3/3.idx").unlink()
    lost = bkaudit(root, "lost")
    assert (lost.exit_code, "below-ack-quorum" in lost.stdout) == (1, True)


def test_a_cluster_of_which_no_bookie_can_be_read_is_undecided(spark: SparkSession, tmp_path: Path) -> None:
    root = cluster().write(tmp_path)
    shutil.rmtree(root / "bookies")
    (root / "bookies").mkdir()
    unread = bkaudit(root, "run", "--format", "json")
    report = json.loads(unread.stdout)
    assert (unread.exit_code, report["verdict"], report["counts"]) == (3, "incomplete", {"bookie-unread": 3})
    assert report["coverage"]["ledgers"] == {"total": 5, "decided": 0}
    assert report["coverage"]["replicas"] == {"expected": 15, "decided": 0}


def test_metadata_damaged_beyond_the_budget_is_not_judged_as_a_cluster(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = cluster(broken=100).write(tmp_path)
    damaged = bkaudit(root, "run", "--format", "json")
    report = json.loads(damaged.stdout)
    assert (damaged.exit_code, report["counts"]) == (5, {"metadata-unreadable": 100})
    assert report["coverage"]["ledgers"] == {"total": 105, "decided": 5}

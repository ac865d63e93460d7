"""Program that makes an auditor and DistributedLog of BookKeeper 4.17.2 write their data.

It runs as ``python -m tests.truth.queue``.
``tests/data/auditor-4.17.2``: an auditor is elected, ledgers are marked, one is locked.
``tests/data/distributedlog-4.17.2``: segments of logs in every version, and allocations.
"""

from __future__ import annotations

import gzip
import subprocess
import tempfile
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.spark.java import find_java
from tests.truth.bookkeeper import znodes
from tests.truth.jars import classpath

DATA = Path(__file__).parents[1] / "data"
VERSION = "4.17.2"
_AUDITOR = f"""\
# auditor-{VERSION}

Written by an auditor and the under-replication manager of BookKeeper {VERSION}
(`tests/truth/java/AuditorTruth.java`) on ZooKeeper 3.9: `python -m tests.truth.queue` makes it again.

- `znodes.jsonl.gz`: every znode below `/ledgers`: marks, a lock, two candidates' votes, the times of the
  auditor's checks.
- `oracle.json.gz`: what the server's own classes read of them.
"""
_SEGMENTS = f"""\
# distributedlog-{VERSION}

Written by DistributedLog {VERSION} (`tests/truth/java/SegmentTruth.java`): `python -m tests.truth.queue`
makes it again.

- `segments.json.gz`: segments of versions 1 to 5, while they are written and when they are complete, and
  allocations; beside each what its own classes read.
"""


def make_auditor(target: Path) -> None:
    """Have an auditor elected, let it check, and save its data."""
    jars = classpath(
        "truth-auditor", [f"org.apache.bookkeeper:bookkeeper-server:{VERSION}"], "AuditorTruth.java"
    )
    with tempfile.TemporaryDirectory() as scratch, EmbeddedZooKeeper(Path(scratch, "zookeeper")) as zookeeper:
        oracle_path = Path(scratch, "oracle.json")
        command = [
            str(find_java().executable),
            "-cp",
            jars,
            "AuditorTruth",
            zookeeper.hosts,
            str(oracle_path),
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            assert any(line == "ready\n" for line in running.stdout)
            lines = znodes(zookeeper.hosts)
            running.communicate("\n")
        save(target, _AUDITOR, {"znodes.jsonl": lines, "oracle.json": oracle_path.read_bytes()})


def make_segments(target: Path) -> None:
    """Have DistributedLog write and read its segments, and save the results."""
    artifact = f"org.apache.distributedlog:distributedlog-core:{VERSION}"
    jars = classpath("truth-distributedlog", [artifact], "SegmentTruth.java")
    with tempfile.TemporaryDirectory() as scratch:
        oracle_path = Path(scratch, "segments.json")
        command = [
            str(find_java().executable),
            "-cp",
            jars,
            "org.apache.distributedlog.SegmentTruth",
            str(oracle_path),
        ]
        subprocess.run(command, check=True)
        save(target, _SEGMENTS, {"segments.json": oracle_path.read_bytes()})


def save(target: Path, readme: str, files: dict[str, bytes]) -> None:
    """Write files packed, with a README that describes them."""
    target.mkdir(exist_ok=True)
    (target / "README.md").write_text(readme)
    for name, data in files.items():
        (target / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    make_auditor(DATA / f"auditor-{VERSION}")
    make_segments(DATA / f"distributedlog-{VERSION}")

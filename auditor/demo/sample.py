"""The demonstration: an audit of a damaged sample cluster in a real ZooKeeper.

``sample/`` holds the metadata tree and the index files of four real BookKeeper 4.17.2 bookies. Their entries,
indexes and marks were damaged on purpose. This module adds kinds of faults that ``sample/`` lacks. Two
findings cannot be shown: ``orphan-ledger-deleting`` needs a ledger that is deleted while the audit runs, and
``ledger-not-indexed`` needs a bookie on DbLedgerStorage. The module also returns the path of a finished run
of the sample (`sample_run`, `owners_run`).
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import struct
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path

from auditor.audit.audit import Audit
from auditor.embedded.zookeeper import NO_EXPIRY_TICK_MS, EmbeddedZooKeeper
from auditor.errors import named_target
from auditor.keys import index_path, ledger_path
from auditor.keys.ledger_path import HIERARCHICAL
from auditor.model.finding import decimal
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, Silent
from auditor.model.report import Report
from auditor.notebook.run import open_run
from auditor.runs.history import history
from auditor.sources.clock import now_ms
from auditor.sources.metadata.store import Znode
from auditor.spark.session import scratch_directory
from auditor.spark.types import SparkSession

ROOT = "/ledgers"
INSTANCE_ID = "a77a8e0d-9cb6-4361-8771-ab58ad015219"
"""Instance id of the sample cluster. Every run of the sample has it."""


@dataclass
class SampleCluster:
    """The sample cluster while faults are added: its znodes by path, and its bookies' directories on disk."""

    bookies: Path
    znodes: dict[str, bytes] = field(default_factory=dict)
    ephemeral: set[str] = field(default_factory=set)

    def put(self, path: str, znode_value: bytes, ephemeral: bool = False) -> None:
        """Add or replace the znode at ``path`` below the root, and create missing parents."""
        znode_path = f"{ROOT}/{path}"
        parent = znode_path.rpartition("/")[0]
        while parent not in self.znodes:
            self.znodes[parent] = b""
            parent = parent.rpartition("/")[0]
        self.znodes[znode_path] = znode_value
        if ephemeral:
            self.ephemeral.add(znode_path)

    def place(self, bookie_id: str) -> Path:
        """Return the path of a bookie's directories."""
        return self.bookies / bookie_id.replace(":", "_")


def unpack_sample(folder: Path, written_ms: int) -> SampleCluster:
    """Unpack the sample below ``folder``, and set the modification time of its files to ``written_ms``."""
    package = files("auditor.demo") / "sample"
    cluster = SampleCluster(folder / "bookies")
    for line in gzip.decompress((package / "metadata.jsonl.gz").read_bytes()).splitlines():
        znode_record = json.loads(line)
        cluster.znodes[znode_record["path"]] = base64.b64decode(znode_record["data"])
        if znode_record["ephemeralOwner"]:
            cluster.ephemeral.add(znode_record["path"])
    with as_file(package / "bookies.tar.gz") as archive_path:
        extract(archive_path, folder)
    set_file_times(cluster.bookies, written_ms)
    return cluster


def extract(archive_path: Path, target: Path) -> None:
    """Unpack an archive, with Python's filter of unsafe members if this Python has one (3.11.4 and later)."""
    with tarfile.open(archive_path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target)


def set_file_times(directory: Path, written_ms: int) -> None:
    """Set the modification time of every file below a directory."""
    for path in directory.rglob("*"):
        os.utime(path, (written_ms / 1000, written_ms / 1000))


_HEADER = b"BookieMetadataFormatVersion\t1\n"
_SLOT_STRUCT = struct.Struct(">q")
_SLOTS_OFFSET = 1024
B1, B2, B3, B4 = (f"127.0.101.{number}:3181" for number in (1, 2, 3, 4))
NEW_BOOKIE, RENAMED_BOOKIE, GARBLED_COOKIE_BOOKIE, BARE_BOOKIE, IDLE_BOOKIE, DOWN_BOOKIE = (
    f"127.0.101.{number}:3181" for number in (5, 6, 7, 8, 9, 98)
)


def plant_faults(cluster: SampleCluster) -> None:
    """Add all faults that the functions below describe."""
    for fault in FAULTS:
        fault(cluster)


def metadata_that_breaks_a_rule(cluster: SampleCluster) -> None:
    """Add ledgers 1001 to 1008. Each breaks a rule of metadata, is unreadable, or is misplaced."""
    _ledger(cluster, 1001, [(5, [B1, B2])], last_entry=9)  # segment-gap
    _ledger(cluster, 1002, [(0, [B1, B2])], ensemble=3, last_entry=-1)  # ensemble-size
    _ledger(cluster, 1003, [(0, [B1, B1])], last_entry=-1)  # ensemble-duplicate
    _ledger(cluster, 1004, [(0, [B1, B2])], quorum=3, last_entry=-1)  # quorum-invalid
    _ledger(cluster, 1005, [(9, [B1, B2]), (0, [B1, B2])], last_entry=-1)  # segment-order
    _ledger(cluster, 1006, [(0, [B1, "not/an/id"])], last_entry=-1)  # bookie-id-invalid
    cluster.put(HIERARCHICAL.to_path(1007), b"no metadata")  # metadata-unreadable
    cluster.put("00/0000/X1008", b"")  # metadata-misplaced


def a_bookie_that_is_down(cluster: SampleCluster) -> None:
    """Add ledgers 1010 and 1011, which need a bookie that has a cookie and is not registered."""
    _cookie(cluster, DOWN_BOOKIE, DOWN_BOOKIE)
    _ledger(cluster, 1010, [(0, [B1, DOWN_BOOKIE])], last_entry=-1)
    _ledger(cluster, 1011, [(0, [DOWN_BOOKIE, B2])], last_entry=-1)


def cookies_gone_wrong(cluster: SampleCluster) -> None:
    """Add cookies that are misnamed, unreadable or unused, and a registered bookie without a cookie."""
    _cookie(cluster, RENAMED_BOOKIE, "127.0.101.66:3181")
    cluster.put(f"cookies/{GARBLED_COOKIE_BOOKIE}", b"five\n")
    _cookie(cluster, IDLE_BOOKIE, IDLE_BOOKIE)
    for bookie in (RENAMED_BOOKIE, GARBLED_COOKIE_BOOKIE, BARE_BOOKIE):
        cluster.put(f"available/{bookie}", b"", ephemeral=True)


def a_disk_of_another_cluster(cluster: SampleCluster) -> None:
    """Give a new bookie a disk that a bookie of another cluster has written."""
    _cookie(cluster, NEW_BOOKIE, NEW_BOOKIE)
    cluster.put(f"available/{NEW_BOOKIE}", b"", ephemeral=True)
    for name in ("journal", "ledgers0"):
        current_directory = cluster.place(NEW_BOOKIE) / name / "current"
        current_directory.mkdir(parents=True)
        (current_directory / "VERSION").write_bytes(
            _cookie_bytes("10.9.8.7:3181", "9", "00000000-0000-4000-8000-000000000000")
        )
    shutil.copy(
        _current_directory(cluster, B1) / "lastMark", _current_directory(cluster, NEW_BOOKIE) / "lastMark"
    )
    target = _current_directory(cluster, NEW_BOOKIE) / index_path.to_path(69)
    target.parent.mkdir(parents=True)
    shutil.copy(cluster.place(B1) / "ledgers0/current" / index_path.to_path(36), target)


def an_entry_of_another_segment(cluster: SampleCluster) -> None:
    """Give bookie 1 entry 15 of ledger 28, although the bookie left the ledger's ensemble at entry 14."""
    with (_current_directory(cluster, B1) / index_path.to_path(28)).open("r+b") as index:
        index.seek(_SLOTS_OFFSET + 15 * _SLOT_STRUCT.size)
        index.write(_SLOT_STRUCT.pack(1 << 10))


def marks_gone_wrong(cluster: SampleCluster) -> None:
    """Add marks with an unknown bookie and with unreadable bytes, and a worker's lock on ledger 65."""
    cluster.put(ledger_path.mark_to_path(41), b'replica: "127.0.101.77:3181"\nctime: 1795237669000\n')
    cluster.put(ledger_path.mark_to_path(45), b"replica: 127.0.101.1")
    cluster.put(ledger_path.lock_to_path(65), b'bookieId: "worker"\n', ephemeral=True)


FAULTS: tuple[Callable[[SampleCluster], None], ...] = (
    metadata_that_breaks_a_rule,
    a_bookie_that_is_down,
    cookies_gone_wrong,
    a_disk_of_another_cluster,
    an_entry_of_another_segment,
    marks_gone_wrong,
)


def _ledger(
    cluster: SampleCluster,
    ledger_id: int,
    segments: list[tuple[int, list[str]]],
    last_entry: int,
    ensemble: int = 2,
    quorum: int = 2,
) -> None:
    """Add a closed ledger in metadata format 1, which is plain text.

    ``segments`` are (first entry id, bookies); ``last_entry`` is the last entry id.
    """
    segment_lines = ("\t".join([str(first), *members]) for first, members in segments)
    lines = [str(quorum), str(ensemble), "0", *segment_lines, f"{last_entry}\tCLOSED"]
    cluster.put(HIERARCHICAL.to_path(ledger_id), _HEADER + "\n".join(lines).encode())


def _cookie(cluster: SampleCluster, name: str, bookie_host: str) -> None:
    instance_id = cluster.znodes["/ledgers/INSTANCEID"].decode()
    cluster.put(f"cookies/{name}", _cookie_bytes(bookie_host, name.split(":")[0].split(".")[-1], instance_id))


def _cookie_bytes(bookie_host: str, disk: str, instance_id: str) -> bytes:
    bookie_root = f"/data/bookkeeper/bk{disk}"
    return (
        f'5\nbookieHost: "{bookie_host}"\njournalDir: "{bookie_root}/journal"\n'
        f'ledgerDirs: "1\\t{bookie_root}/ledgers0"\ninstanceId: "{instance_id}"\n'
    ).encode()


def _current_directory(cluster: SampleCluster, bookie_id: str) -> Path:
    return cluster.place(bookie_id) / "ledgers0" / "current"


Key = tuple[str, str | None, str | None]
"""The check id, ledger and bookie of a finding."""

_HOUR_MS = 60 * 60 * 1000
_PERSISTENT, _EPHEMERAL = 0, 1


@dataclass(frozen=True)
class DemoResult:
    """The report of the demonstration, and the differences of its findings from the expected ones.

    ``not_found`` are expected findings that the audit did not make. ``not_known`` are findings that were not
    expected.
    """

    report: Report
    not_found: list[Key]
    not_known: list[Key]

    @property
    def as_known(self) -> bool:
        """Return whether the audit made exactly the expected findings."""
        return not self.not_found and not self.not_known


def expected_findings() -> set[Key]:
    """Return the expected findings of the sample cluster."""
    findings_text = (files("auditor.demo") / "sample" / "known.json").read_text("utf-8")
    return {(id, ledger, bookie) for id, ledger, bookie in json.loads(findings_text)}


def show(
    run_path: str, options: AuditOptions, progress: Progress, spark: SparkSession | None = None
) -> DemoResult:
    """Start a ZooKeeper, load the sample, audit it, and stop the server.

    The sample's files are only seconds old, but some findings need an older cluster. So the audit takes
    25 hours from now as scan time, and one hour from now as index time.
    """
    current_ms = now_ms()
    # The bookies are directories, so there is none to ask for an entry.
    options = replace(
        options, scan_time=current_ms + 25 * _HOUR_MS, index_time=current_ms + _HOUR_MS, witness="no"
    )
    with scratch_directory("demo") as directory:
        folder = Path(directory)
        progress.stage("making the sample cluster")
        with named_target(folder):
            cluster = unpack_sample(folder, current_ms)
            plant_faults(cluster)
        with EmbeddedZooKeeper(folder / "zookeeper", tick_time_ms=NO_EXPIRY_TICK_MS) as server:
            server.load(sample_znodes(cluster))
            uri = f"zk://{server.hosts}{ROOT}"
            report = Audit(uri, [str(cluster.bookies)], run_path, options).run(spark, progress)
    findings = {
        (finding.id, decimal(finding.ledger_id), finding.bookie_id) for finding in open_run(run_path).findings
    }
    expected = expected_findings()
    return DemoResult(report, _sort_keys(expected - findings), _sort_keys(findings - expected))


def sample_znodes(cluster: SampleCluster) -> list[Znode]:
    """Return the sample's znodes for the embedded server, parents first."""
    return [
        Znode(path, znode_value, 0, 0, 0, 0, 0, _EPHEMERAL if path in cluster.ephemeral else _PERSISTENT)
        for path, znode_value in sorted(cluster.znodes.items())
    ]


def _sort_keys(keys: set[Key]) -> list[Key]:
    return sorted(keys, key=lambda key: tuple(part or "" for part in key))


PULSAR_INSTANCE_ID = "04c28bca-3a65-4b38-9aea-f2c0cd6cdf47"
"""Instance id of the damaged Pulsar 4.2.4 cluster in ``sample/pulsar-zookeeper.tar.gz``."""


def sample_run(directory: str | Path = "runs") -> str:
    """Return the path of the newest run of the sample cluster among the runs in ``directory``.

    ``bkaudit demo`` leaves a run in ``./runs``. If there is none, run the demonstration, which takes about
    a minute.

    Raises the errors of `auditor.demo.sample.show` if there is no run and the demonstration fails.
    """
    newest_path, run_path = _newest_run(directory, INSTANCE_ID)
    if not newest_path:
        show(run_path, AuditOptions(), Silent())
    return newest_path or run_path


def owners_run(directory: str | Path = "runs", spark: SparkSession | None = None) -> str:
    """Return the path of the newest audit of the sample Pulsar cluster among the runs in ``directory``.

    If there is none, audit the cluster's metadata, which takes half a minute.

    Raises the errors of `auditor.audit.audit.Audit.run` if there is no run and the audit fails.
    """
    newest_path, run_path = _newest_run(directory, PULSAR_INSTANCE_ID)
    if not newest_path:
        with scratch_directory("demo") as folder:
            with as_file(files("auditor.demo") / "sample" / "pulsar-zookeeper.tar.gz") as archive_path:
                extract(archive_path, Path(folder))
            # The sample's times are new, so with a grace period no ledger would count as leaked.
            options = AuditOptions(owner_grace=0.0)
            Audit(f"zk-snapshot://{folder}/version-2", [], run_path, options).run(spark, Silent())
    return newest_path or run_path


def _newest_run(directory: str | Path, instance_id: str) -> tuple[str | None, str]:
    """Return the path of the newest run of a cluster, and an unused path for a new run.

    The first path is None if there is no run.
    """
    runs_directory = Path(directory)
    runs = (
        [run for run in history(runs_directory).runs if run.instance_id == instance_id]
        if runs_directory.is_dir()
        else []
    )
    return runs[-1].path if runs else None, str(
        runs_directory / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    )

"""The demonstration: an audit of a damaged sample cluster in a real ZooKeeper.

``sample/`` contains the metadata tree and the index files of four real BookKeeper 4.17.2 bookies. Their
entries, indexes and under-replication marks were damaged on purpose. This module adds other kinds of
faults. It cannot show two findings: ``orphan-ledger-deleting`` needs a ledger that is deleted during the
audit, and ``ledger-not-indexed`` needs a bookie on DbLedgerStorage. The functions `sample_run` and
`owners_run` return the path of a finished run.
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
from auditor.errors import name_file_in_errors
from auditor.keys import index_path, ledger_path
from auditor.keys.ledger_path import HIERARCHICAL
from auditor.model.finding import decimal_text
from auditor.model.options import AuditOptions
from auditor.model.progress import Progress, SilentProgress
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

    def put_znode(self, path: str, znode_value: bytes, ephemeral: bool = False) -> None:
        """Add or replace the znode at ``path`` below the root, and create missing parents."""
        znode_path = f"{ROOT}/{path}"
        parent = znode_path.rpartition("/")[0]
        while parent not in self.znodes:
            self.znodes[parent] = b""
            parent = parent.rpartition("/")[0]
        self.znodes[znode_path] = znode_value
        if ephemeral:
            self.ephemeral.add(znode_path)

    def bookie_directory(self, bookie_id: str) -> Path:
        """Return the directory that contains the directories of a bookie."""
        return self.bookies / bookie_id.replace(":", "_")


def unpack_sample(work_directory: Path, written_ms: int) -> SampleCluster:
    """Unpack the sample below ``work_directory``. Its files get the modification time ``written_ms``."""
    package = files("auditor.demo") / "sample"
    cluster = SampleCluster(work_directory / "bookies")
    for dump_line in gzip.decompress((package / "metadata.jsonl.gz").read_bytes()).splitlines():
        znode_record = json.loads(dump_line)
        cluster.znodes[znode_record["path"]] = base64.b64decode(znode_record["data"])
        if znode_record["ephemeralOwner"]:
            cluster.ephemeral.add(znode_record["path"])
    with as_file(package / "bookies.tar.gz") as archive_path:
        extract(archive_path, work_directory)
    set_file_times(cluster.bookies, written_ms)
    return cluster


def extract(archive_path: Path, target_directory: Path) -> None:
    """Unpack an archive. From Python 3.11.4 on, unsafe members are refused."""
    with tarfile.open(archive_path) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(target_directory)


def set_file_times(directory: Path, written_ms: int) -> None:
    """Set the modification time of every file below a directory."""
    for path in directory.rglob("*"):
        os.utime(path, (written_ms / 1000, written_ms / 1000))


_METADATA_HEADER = b"BookieMetadataFormatVersion\t1\n"
_INDEX_SLOT_STRUCT = struct.Struct(">q")
_INDEX_SLOTS_OFFSET = 1024
BOOKIE_1, BOOKIE_2, BOOKIE_3, BOOKIE_4 = (f"127.0.101.{number}:3181" for number in (1, 2, 3, 4))
NEW_BOOKIE, RENAMED_BOOKIE, GARBLED_COOKIE_BOOKIE, COOKIELESS_BOOKIE, IDLE_BOOKIE, DOWN_BOOKIE = (
    f"127.0.101.{number}:3181" for number in (5, 6, 7, 8, 9, 98)
)


def plant_faults(cluster: SampleCluster) -> None:
    """Add the faults of all `FAULT_FUNCTIONS`."""
    for fault in FAULT_FUNCTIONS:
        fault(cluster)


def add_invalid_metadata(cluster: SampleCluster) -> None:
    """Add ledgers 1001 to 1008. Each breaks a rule of metadata, is unreadable, or is misplaced."""
    _add_ledger(cluster, 1001, [(5, [BOOKIE_1, BOOKIE_2])], last_entry=9)  # segment-gap
    _add_ledger(cluster, 1002, [(0, [BOOKIE_1, BOOKIE_2])], ensemble_size=3, last_entry=-1)  # ensemble-size
    _add_ledger(cluster, 1003, [(0, [BOOKIE_1, BOOKIE_1])], last_entry=-1)  # ensemble-duplicate
    _add_ledger(cluster, 1004, [(0, [BOOKIE_1, BOOKIE_2])], write_quorum=3, last_entry=-1)  # quorum-invalid
    _add_ledger(
        cluster, 1005, [(9, [BOOKIE_1, BOOKIE_2]), (0, [BOOKIE_1, BOOKIE_2])], last_entry=-1
    )  # segment-order
    _add_ledger(cluster, 1006, [(0, [BOOKIE_1, "not/an/id"])], last_entry=-1)  # bookie-id-invalid
    cluster.put_znode(HIERARCHICAL.to_path(1007), b"no metadata")  # metadata-unreadable
    cluster.put_znode("00/0000/X1008", b"")  # metadata-misplaced


def add_down_bookie(cluster: SampleCluster) -> None:
    """Add an unregistered bookie with a cookie, and ledgers 1010 and 1011, which need it."""
    _add_cookie(cluster, DOWN_BOOKIE, DOWN_BOOKIE)
    _add_ledger(cluster, 1010, [(0, [BOOKIE_1, DOWN_BOOKIE])], last_entry=-1)
    _add_ledger(cluster, 1011, [(0, [DOWN_BOOKIE, BOOKIE_2])], last_entry=-1)


def add_wrong_cookies(cluster: SampleCluster) -> None:
    """Add cookies that are misnamed, unreadable or unused, and a registered bookie without a cookie."""
    _add_cookie(cluster, RENAMED_BOOKIE, "127.0.101.66:3181")
    cluster.put_znode(f"cookies/{GARBLED_COOKIE_BOOKIE}", b"five\n")
    _add_cookie(cluster, IDLE_BOOKIE, IDLE_BOOKIE)
    for bookie in (RENAMED_BOOKIE, GARBLED_COOKIE_BOOKIE, COOKIELESS_BOOKIE):
        cluster.put_znode(f"available/{bookie}", b"", ephemeral=True)


def add_foreign_disk(cluster: SampleCluster) -> None:
    """Give a new bookie a disk that a bookie of another cluster has written."""
    _add_cookie(cluster, NEW_BOOKIE, NEW_BOOKIE)
    cluster.put_znode(f"available/{NEW_BOOKIE}", b"", ephemeral=True)
    for directory_name in ("journal", "ledgers0"):
        current_directory = cluster.bookie_directory(NEW_BOOKIE) / directory_name / "current"
        current_directory.mkdir(parents=True)
        (current_directory / "VERSION").write_bytes(
            _cookie_bytes("10.9.8.7:3181", "9", "00000000-0000-4000-8000-000000000000")
        )
    shutil.copy(
        _current_directory(cluster, BOOKIE_1) / "lastMark",
        _current_directory(cluster, NEW_BOOKIE) / "lastMark",
    )
    target_file = _current_directory(cluster, NEW_BOOKIE) / index_path.to_path(69)
    target_file.parent.mkdir(parents=True)
    shutil.copy(cluster.bookie_directory(BOOKIE_1) / "ledgers0/current" / index_path.to_path(36), target_file)


def add_surplus_entry(cluster: SampleCluster) -> None:
    """Give bookie 1 entry 15 of ledger 28, although the bookie left the ledger's ensemble at entry 14."""
    with (_current_directory(cluster, BOOKIE_1) / index_path.to_path(28)).open("r+b") as index_file:
        index_file.seek(_INDEX_SLOTS_OFFSET + 15 * _INDEX_SLOT_STRUCT.size)
        index_file.write(_INDEX_SLOT_STRUCT.pack(1 << 10))


def add_wrong_marks(cluster: SampleCluster) -> None:
    """Add bad under-replication marks (unknown bookie, unreadable bytes) and a worker's lock on ledger 65."""
    cluster.put_znode(ledger_path.mark_to_path(41), b'replica: "127.0.101.77:3181"\nctime: 1795237669000\n')
    cluster.put_znode(ledger_path.mark_to_path(45), b"replica: 127.0.101.1")
    cluster.put_znode(ledger_path.lock_to_path(65), b'bookieId: "worker"\n', ephemeral=True)


FAULT_FUNCTIONS: tuple[Callable[[SampleCluster], None], ...] = (
    add_invalid_metadata,
    add_down_bookie,
    add_wrong_cookies,
    add_foreign_disk,
    add_surplus_entry,
    add_wrong_marks,
)


def _add_ledger(
    cluster: SampleCluster,
    ledger_id: int,
    segments: list[tuple[int, list[str]]],
    last_entry: int,
    ensemble_size: int = 2,
    write_quorum: int = 2,
) -> None:
    """Add a closed ledger in metadata format 1, which is plain text.

    ``segments`` has a pair for each segment: its first entry id, and its bookies. ``last_entry`` is the id of
    the last entry.
    """
    segment_lines = ("\t".join([str(first_entry), *members]) for first_entry, members in segments)
    metadata_lines = [str(write_quorum), str(ensemble_size), "0", *segment_lines, f"{last_entry}\tCLOSED"]
    cluster.put_znode(HIERARCHICAL.to_path(ledger_id), _METADATA_HEADER + "\n".join(metadata_lines).encode())


def _add_cookie(cluster: SampleCluster, name: str, bookie_host: str) -> None:
    instance_id = cluster.znodes["/ledgers/INSTANCEID"].decode()
    cluster.put_znode(
        f"cookies/{name}", _cookie_bytes(bookie_host, name.split(":")[0].split(".")[-1], instance_id)
    )


def _cookie_bytes(bookie_host: str, disk_number: str, instance_id: str) -> bytes:
    bookie_root = f"/data/bookkeeper/bk{disk_number}"
    return (
        f'5\nbookieHost: "{bookie_host}"\njournalDir: "{bookie_root}/journal"\n'
        f'ledgerDirs: "1\\t{bookie_root}/ledgers0"\ninstanceId: "{instance_id}"\n'
    ).encode()


def _current_directory(cluster: SampleCluster, bookie_id: str) -> Path:
    return cluster.bookie_directory(bookie_id) / "ledgers0" / "current"


FindingKey = tuple[str, str | None, str | None]
"""The check id, ledger and bookie of a finding."""

_HOUR_MS = 60 * 60 * 1000
_PERSISTENT, _EPHEMERAL = 0, 1
_CHECKS_OF_LATER_RUNS = frozenset({"orphan-stuck"})
"""Checks that compare with an earlier run. Only a later demonstration in the same directory has findings."""


@dataclass(frozen=True)
class DemoResult:
    """The report of the demonstration, and the differences between its findings and the expected findings.

    ``missing_findings`` has the expected findings that the audit did not report. ``unexpected_findings``
    has the findings that were reported but not expected.
    """

    report: Report
    missing_findings: list[FindingKey]
    unexpected_findings: list[FindingKey]

    @property
    def has_expected_findings(self) -> bool:
        """Return whether the audit made exactly the expected findings."""
        return not self.missing_findings and not self.unexpected_findings


def expected_findings() -> set[FindingKey]:
    """Return the expected findings of the sample cluster."""
    findings_text = (files("auditor.demo") / "sample" / "known.json").read_text("utf-8")
    return {(id, ledger, bookie) for id, ledger, bookie in json.loads(findings_text)}


def show(
    run_path: str, options: AuditOptions, progress: Progress, spark: SparkSession | None = None
) -> DemoResult:
    """Start a ZooKeeper, load the sample, audit it, and stop the server.

    The sample's files are only seconds old, but some findings need an older cluster. The audit therefore uses
    a scan time 25 hours from now, and index times one hour from now.
    """
    current_ms = now_ms()
    # No bookie is running that could be asked for an entry.
    options = replace(
        options, scan_time=current_ms + 25 * _HOUR_MS, index_time=current_ms + _HOUR_MS, witness="no"
    )
    with scratch_directory("demo") as directory:
        work_directory = Path(directory)
        progress.stage("making the sample cluster")
        with name_file_in_errors(work_directory):
            cluster = unpack_sample(work_directory, current_ms)
            plant_faults(cluster)
        with EmbeddedZooKeeper(work_directory / "zookeeper", tick_time_ms=NO_EXPIRY_TICK_MS) as server:
            server.load(sample_znodes(cluster))
            uri = f"zk://{server.hosts}{ROOT}"
            report = Audit(uri, [str(cluster.bookies)], run_path, options).run(spark, progress)
    found_keys = {
        (finding.id, decimal_text(finding.ledger_id), finding.bookie_id)
        for finding in open_run(run_path).findings
    }
    return compare_findings(report, found_keys)


def compare_findings(report: Report, found_keys: set[FindingKey]) -> DemoResult:
    """Return the differences between ``found_keys`` and the expected findings of the sample."""
    expected_keys = expected_findings()
    unexpected_keys = found_keys - expected_keys
    if report.run.changes is not None:
        unexpected_keys = {key for key in unexpected_keys if key[0] not in _CHECKS_OF_LATER_RUNS}
    return DemoResult(report, _sort_keys(expected_keys - found_keys), _sort_keys(unexpected_keys))


def sample_znodes(cluster: SampleCluster) -> list[Znode]:
    """Return the sample's znodes for the embedded server, parents first."""
    return [
        Znode(path, znode_value, 0, 0, 0, 0, 0, _EPHEMERAL if path in cluster.ephemeral else _PERSISTENT)
        for path, znode_value in sorted(cluster.znodes.items())
    ]


def _sort_keys(keys: set[FindingKey]) -> list[FindingKey]:
    return sorted(keys, key=lambda key: tuple(key_part or "" for key_part in key))


PULSAR_INSTANCE_ID = "04c28bca-3a65-4b38-9aea-f2c0cd6cdf47"
"""Instance id of the damaged Pulsar 4.2.4 cluster in ``sample/pulsar-zookeeper.tar.gz``."""


def sample_run(directory: str | Path = "runs") -> str:
    """Return the path of the newest run of the sample cluster among the runs in ``directory``.

    ``bkaudit demo`` writes its run to ``./runs``. If there is no such run, the function runs the
    demonstration, which takes about a minute.

    Raises the errors of `auditor.demo.sample.show` if there is no run and the demonstration fails.
    """
    newest_path, run_path = _newest_run(directory, INSTANCE_ID)
    if not newest_path:
        show(run_path, AuditOptions(), SilentProgress())
    return newest_path or run_path


def owners_run(directory: str | Path = "runs", spark: SparkSession | None = None) -> str:
    """Return the path of the newest audit of the sample Pulsar cluster among the runs in ``directory``.

    If there is no such run, the function audits the metadata of that cluster, which takes half a minute.

    Raises the errors of `auditor.audit.audit.Audit.run` if there is no run and the audit fails.
    """
    newest_path, run_path = _newest_run(directory, PULSAR_INSTANCE_ID)
    if not newest_path:
        with scratch_directory("demo") as work_directory:
            with as_file(files("auditor.demo") / "sample" / "pulsar-zookeeper.tar.gz") as archive_path:
                extract(archive_path, Path(work_directory))
            # The sample's ledgers are too new to count as leaked with a grace period.
            options = AuditOptions(owner_grace=0.0)
            Audit(f"zk-snapshot://{work_directory}/version-2", [], run_path, options).run(
                spark, SilentProgress()
            )
    return newest_path or run_path


def _newest_run(directory: str | Path, instance_id: str) -> tuple[str | None, str]:
    """Return the path of a cluster's newest run, or None if there is no run. Also return an unused path.

    The unused path is for a new run.
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

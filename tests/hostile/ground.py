"""Inputs of a trial's commands: small clusters in every form, their runs, and option files.

They are created once. Each call works on a copy at the same path, so that its output can be compared.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from tests.cli.test_decode import GOOD
from tests.corpora.cluster import Cluster
from tests.corpora.corpora import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOOKIES = ("bk-a:3181", "bk-b:3181", "bk-c:3181")
LEDGERS = range(1, 5)


@dataclass(frozen=True)
class Source:
    """Metadata and bookies of one cluster.

    Args:
        uri: The metadata URI, with ``{place}`` for the directory of a call.
        metadata: The file or directory that the URI names. None for a running store.
        bookies: The names of the bookies' sources, relative to that directory.
        ledger: A ledger of the cluster.
        is_healthy: Whether an audit ends with 0.
    """

    uri: str
    metadata: str | None
    bookies: tuple[str, ...]
    ledger: str
    is_healthy: bool = False


@dataclass
class TrialData:
    """The directory of all inputs, and the clusters in it."""

    root: Path
    sources: dict[str, Source] = field(default_factory=dict)

    @property
    def originals(self) -> Path:
        """Return the directory with the originals that are copied for a call."""
        return self.root / "originals"

    @property
    def place(self) -> Path:
        """Return the directory of the current call."""
        return self.root / "place"

    def add_run_sources(self) -> None:
        """Add clusters with a collection from `make_runs` as bookies, or with bookies in several places."""
        healthy = self.sources["healthy"]
        self.sources["collected"] = replace(healthy, bookies=("collected",))
        self.sources["inventory"] = replace(healthy, bookies=("inventory.toml",))

    def add_live_source(self, port: int) -> None:
        """Add a running store (`load_zookeeper`), reached by a port that can fail."""
        uri = f"zk://127.0.0.1:{port}/ledgers"
        self.sources["live"] = replace(self.sources["healthy"], uri=uri, metadata=None)

    def lay_out(self, names: Iterable[str]) -> None:
        """Create the directory of a call, with copies of the named originals and nothing else."""
        clear(self.place)
        (self.place / "new").mkdir(parents=True)
        unique_names = {*names}
        for name in sorted(unique_names):
            if unique_names & {str(above) for above in Path(name).parents}:
                continue  # it comes with what is above it
            source, copy = self.originals / name, self.place / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, symlinks=True)
            else:
                shutil.copy2(source, copy)


def clear(place: Path) -> None:
    """Remove a directory, even if a fault left parts of it without permissions."""
    for directory, _, __ in os.walk(place):
        Path(directory).chmod(0o755)
        for path in Path(directory).iterdir():
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
    shutil.rmtree(place, ignore_errors=True)


def healthy_cluster() -> Cluster:
    """Return a cluster of three bookies and four ledgers without missing data."""
    cluster = Cluster()
    for bookie in BOOKIES:
        cluster.bookie(bookie)
    for ledger in LEDGERS:
        cluster.ledger(ledger, {0: list(BOOKIES)}, (2, 2), 9)
    return cluster


def make_files(trial_data: TrialData) -> None:
    """Write all inputs that need no audit."""
    files = trial_data.originals
    files.mkdir(parents=True)
    healthy = healthy_cluster()
    healthy.write(files / "healthy")
    healthy_bookies = ("healthy/bookies",)
    trial_data.sources["healthy"] = Source(
        "dump://{place}/healthy/metadata.jsonl", "healthy/metadata.jsonl", healthy_bookies, "1", True
    )
    for name in ("dbledger-long", "etcd", "flat-v1"):
        corpus = unpack(name, files / name)
        shutil.rmtree(corpus.root / "oracle", ignore_errors=True)
    dump = "dump://{place}/"
    for label, uri, corpus_name, metadata in (
        ("long dump", "dump://{place}/dbledger-long/metadata.jsonl", "dbledger-long", "metadata.jsonl"),
        (
            "long snapshot",
            "zk-snapshot://{place}/dbledger-long/zookeeper/version-2?root=/ledgers",
            "dbledger-long",
            "zookeeper",
        ),
        ("flat dump", "dump://{place}/flat-v1/metadata.jsonl", "flat-v1", "metadata.jsonl"),
        (
            "etcd snapshot",
            "etcd-snapshot://{place}/etcd/etcd-snapshot.db?scope=/bk/cluster1",
            "etcd",
            "etcd-snapshot.db",
        ),
    ):
        trial_data.sources[label] = Source(
            uri,
            f"{corpus_name}/{metadata}",
            (f"{corpus_name}/bookies",),
            first_ledger(uri.format(place=files)),
        )
    texts = {
        "conf.toml": f'samples = 3\n[clusters.one]\nmetadata = "{dump}healthy/metadata.jsonl"\n'
        'bookies = ["{place}/healthy/bookies"]\nruns = "{place}/runs"\n',
        "suppressions.toml": '[[suppress]]\nid = "orphan-ledger"\nreason = "a test"\nuntil = {until}\n',
        "credentials.toml": '[zookeeper]\nusername = "u"\npassword = "p"\n',
        "racks.txt": "".join(f"{bookie} /r{number}\n" for number, bookie in enumerate(BOOKIES)),
        "racks.toml": "[bookies]\n" + "".join(f'"{bookie}" = "/r1"\n' for bookie in BOOKIES),
        "racks.json": json.dumps({"default": {bookie: {"rack": "/r1"} for bookie in BOOKIES}}),
        "entries.txt": "0\n1\n2\n7\n",
        "bk_server.conf": "gcWaitTime=900000\nisForceGCAllowWhenNoSpace=false\n",
        "listing.csv": "key,size\n" + "".join(f"ledger-{number},10\n" for number in LEDGERS),
        "inventory.toml": "".join(
            f'[bookies."{bookie}"]\njournal = ["{{place}}/{_directory(bookie)}/journal"]\n'
            f'ledgers = ["{{place}}/{_directory(bookie)}/ledgers0"]\n'
            for bookie in BOOKIES
        ),
    }
    until = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 30 * 86_400))
    for name, text in texts.items():
        (files / name).write_text(text.replace("{place}", str(trial_data.place)).replace("{until}", until))
    for kind, (data, _) in GOOD.items():
        path = files / "decode" / kind
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def _directory(bookie: str) -> str:
    return f"healthy/bookies/{bookie.replace(':', '_')}"


def first_ledger(uri: str) -> str:
    """Return the id of the ledger that a store lists first."""
    from click.testing import CliRunner

    from auditor.cli import main

    ended = CliRunner().invoke(main, ["ledger", "list", "--metadata", uri], prog_name="bkaudit")
    assert ended.exit_code == 0, ended.output
    return str(json.loads(ended.stdout.splitlines()[0])["ledger_id"])


def make_runs(trial_data: TrialData, spark: SparkSession) -> None:
    """Audit the clusters, and create the inputs that commands read beside runs: a plan and a collection."""
    from click.testing import CliRunner

    from auditor import Audit
    from auditor.cli import main

    trial_data.lay_out(("healthy", "dbledger-long"))
    audits = (("runs/1", "long dump"), ("runs/2", "long dump"), ("healthy-runs/1", "healthy"))
    for name, source in audits:
        cluster = trial_data.sources[source]
        options: dict[str, Any] = {"entry_logs": True} if source == "long dump" else {}
        uri = cluster.uri.format(place=trial_data.place)
        bookies = [str(trial_data.place / bookies) for bookies in cluster.bookies]
        Audit(uri, bookies, str(trial_data.originals / name), AuditOptions(**options)).run(spark)
    calls = (
        ("plan", "make", "{originals}/runs/1", "--out", "{originals}/plan.toml"),
        ("collect", "--bookies", "{place}/healthy/bookies", "--out", "{originals}/collected"),
    )
    for words in calls:
        call_words = [word.format(originals=trial_data.originals, place=trial_data.place) for word in words]
        ended = CliRunner().invoke(main, call_words, prog_name="bkaudit")
        assert ended.exit_code == 0, ended.output


def load_zookeeper(server: EmbeddedZooKeeper) -> None:
    """Fill a running store with the healthy cluster."""
    from tests.servers.zookeeper import write, writer

    znodes = {path: base64.b64decode(str(row["data"])) for path, row in healthy_cluster().znodes.items()}
    with writer(server.hosts) as client:
        write(client, znodes)

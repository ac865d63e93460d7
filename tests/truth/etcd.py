"""Program that makes etcd write and print its data: ``python -m tests.truth.etcd VERSION ...``.

Version 3.4.23 is Debian's, which must be installed. Go builds any other version from the module proxy. A
member gets the keys of the corpus ``etcd``, then puts, deletes, transactions, a lease and a compaction. The
program runs ``etcdctl snapshot save``, and copies the member's own file after it was killed.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from auditor.spark.java import user_cache
from tests.servers.etcd import Etcd, running

DATA = Path(__file__).parents[1] / "data"
VERSIONS = ("3.4.23", "3.5.35", "3.6.16", "3.7.3")
DEBIAN = "3.4.23"
SCOPE = "/bk/cluster1"
_PROGRAMS = {"etcd": "server/v3", "etcdctl": "etcdctl/v3", "etcdutl": "etcdutl/v3"}
_README = """\
# etcd-{version}

Written by a member of etcd {version}: `python -m tests.truth.etcd {version}` makes it again. {origin}

- `snapshot.db.gz`: `etcdctl snapshot save`, after puts, deletes, transactions, a lease and a compaction.
- `member.db.gz`: the member's own `member/snap/db` after it was killed; it has no hash behind it.
- `oracle.json.gz`: what `etcdctl get --from-key` said of every key at that moment: its value, both revisions,
  version, lease.
"""
_ORIGIN = {
    True: "It is Debian's package etcd-server.",
    False: "It is built by Go from `go.etcd.io/etcd/server/v3` on the module proxy.",
}


def programs(version: str) -> Path | None:
    """Return a directory with a version's etcd, etcdctl and etcdutl; None for Debian's, on the path."""
    if version == DEBIAN:
        return None
    place = user_cache() / f"etcd-{version}"
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=user_cache()) as scratch:
            modules = [f"go.etcd.io/etcd/{module}@v{version}" for module in _PROGRAMS.values()]
            commands = [["go", "mod", "init", "programs"], ["go", "get", *modules]]
            commands += [
                ["go", "build", "-o", f"built/{name}", f"go.etcd.io/etcd/{module}"]
                for name, module in _PROGRAMS.items()
            ]
            for command in commands:
                subprocess.run(command, cwd=scratch, check=True)
            Path(scratch, "built").rename(place)
    return place


def change_keys(server: Etcd) -> None:
    """Make every kind of change."""
    lines = gzip.decompress((DATA / "etcd" / "metadata.jsonl.gz").read_bytes()).splitlines()
    records = [json.loads(line) for line in lines]
    keys = [(record["path"], base64.b64decode(record["data"])) for record in records]
    server.load(keys)
    ledgers = [(path, value) for path, value in keys if value.startswith(b"BookieMetadataFormatVersion")]
    for path, value in ledgers[:4]:
        server.load([(path, value + b"\n")])
        server.load([(path, value)])
    lease = server.ctl("lease", "grant", "86400").split()[1]
    server.ctl("put", f"{SCOPE}/bookies/writable/127.0.107.4:3181", "", "--lease", lease)
    server.delete(ledgers[5][0])
    server.delete(ledgers[6][0])
    server.load([ledgers[6]])
    server.load([(f"{SCOPE}/buckets/{number:03}", b"") for number in range(200, 205)])
    server.load([("/before", b"1"), ("/bk/cluster10/ledgers/x", b"of another scope"), ("/zz", bytes(5000))])
    server.compact(server.revision() - 3)
    server.ctl("defrag")
    server.load([ledgers[7], ledgers[8]])
    server.delete(ledgers[9][0])


@contextmanager
def on_path(version: str) -> Iterator[None]:
    """Put the programs of a version on the path within a ``with`` block."""
    before = os.environ["PATH"]
    if (place := programs(version)) is not None:
        os.environ["PATH"] = f"{place}{os.pathsep}{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before


def make(version: str, target: Path) -> None:
    """Write the files of one version."""
    with tempfile.TemporaryDirectory() as scratch, on_path(version):
        folder = Path(scratch)
        with running(folder / "member") as server:
            assert version in server.ctl("version")
            change_keys(server)
            dump: dict[str, Any] = json.loads(server.ctl("get", "", "--from-key", "-w", "json"))
            server.save(folder / "snapshot.db")
        shutil.copy(next((folder / "member").rglob("member/snap/db")), folder / "member.db")
        oracle = {"revision": dump["header"]["revision"], "kvs": dump["kvs"]}
        target.mkdir(exist_ok=True)
        files = {"oracle.json": json.dumps(oracle).encode()}
        files |= {name: (folder / name).read_bytes() for name in ("snapshot.db", "member.db")}
    for name, data in files.items():
        (target / f"{name}.gz").write_bytes(gzip.compress(data, mtime=0))
    (target / "README.md").write_text(_README.format(version=version, origin=_ORIGIN[version == DEBIAN]))


if __name__ == "__main__":
    for release in sys.argv[1:] or VERSIONS:
        make(release, DATA / f"etcd-{release}")
        print(DATA / f"etcd-{release}")

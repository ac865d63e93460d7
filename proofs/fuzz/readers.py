"""Fuzz targets that read files and directories: the bytes replace a file, and the reader then reads it."""

from __future__ import annotations

import gzip
import io
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import cache, partial
from pathlib import Path

import cramjam
import pyarrow as pa

from auditor.cli.defaults import named_cluster
from auditor.codecs.bookie.entry_log import HEADER_BYTES
from auditor.collect.collect import collect
from auditor.errors import RunError, StoreError, UnreadError, UsageError
from auditor.findings.suppress import read_suppressions
from auditor.model.options import AuditOptions
from auditor.plan.plan_file import plan_toml, read_plan
from auditor.reports.forms import FORMS
from auditor.runs.damage import require_whole_findings, translate_damage
from auditor.sources.bookies.availability import SCHEMA as AVAILABILITY
from auditor.sources.bookies.collections.collection import Collection
from auditor.sources.bookies.collections.copied_rows import CopiedRowsReader, make_shares
from auditor.sources.bookies.collections.places import PieceOwner, collected_places
from auditor.sources.bookies.entry_logs.locations import read_locations
from auditor.sources.bookies.entry_logs.parts import LogPart, read_logs_of
from auditor.sources.bookies.journal.files import JournalDirectory
from auditor.sources.bookies.journal.tails import JournalTailPart, read_tail
from auditor.sources.bookies.part_rows import read_part
from auditor.sources.bookies.parts import ROCKSDB, IndexDirectory, IndexPart
from auditor.sources.bookies.places import find_places, read_inventory
from auditor.sources.file_systems import open_earlier_file
from auditor.sources.metadata.credentials import read_credentials
from auditor.sources.metadata.ledger_rows import LEDGERS, ledger_rows
from auditor.sources.metadata.mark_rows import mark_rows
from auditor.sources.metadata.store import Tree
from auditor.sources.metadata.stores import choose_layout, open_store, recognise
from auditor.sources.racks import read_racks
from auditor.sources.regular_file import read_toml
from proofs.fuzz.golden import golden, octets_of
from proofs.fuzz.target import Target, make_empty, place, scratch
from tests.made_runs import change_row, made_run
from tests.plan.test_plan_file import plan, step
from tests.reports.samples import LOST, report, tally
from tests.sources.rocksdb_databases import key, location, write_database
from tests.truth.table import ROOT


def read_store(uri: str) -> None:
    """Read saved metadata into rows as an audit does: the cluster, each ledger, and each replication mark."""
    recognise(uri)
    with closing(open_store(uri)) as store:
        layout, _ = choose_layout(store, store.cluster())
        for tree in (Tree.LEDGERS, Tree.MARKS) if store.keeps_marks else (Tree.LEDGERS,):
            for part in store.parts(tree, layout, 2):
                for batch in store.read(part):
                    if tree is Tree.LEDGERS:
                        ledger_rows(batch, store.root, layout, LEDGERS)
                    else:
                        mark_rows(batch, store.root)


_SNAPSHOTS: tuple[tuple[str, Callable[[bytes], object]], ...] = (
    ("snapshot.0", bytes),
    ("snapshot.0.gz", partial(gzip.compress, compresslevel=1)),
    ("snapshot.0.snappy", lambda data: data),
    ("log.1", bytes),
)


@cache
def _snapshots() -> tuple[bytes, ...]:
    """Return small ZooKeeper snapshots of a cluster at ``/ledgers``."""
    small = octets_of("tests/data/zookeeper-*/version-2/snapshot.*")
    return tuple(data for data in small if b"/ledgers/LAYOUT" in data)


def _zookeeper(data: bytes) -> None:
    if data:
        name, _ = _SNAPSHOTS[data[0] % len(_SNAPSHOTS)]
        make_empty("zookeeper")
        if name == "log.1":
            place("zookeeper/version-2/snapshot.0", _snapshots()[0])
        place(f"zookeeper/version-2/{name}", data[1:])
        read_store(f"zk-snapshot://{scratch()}/zookeeper")


def _zookeeper_seeds() -> Iterator[bytes]:
    for data in _snapshots():
        yield b"\0" + data
        yield b"\1" + gzip.compress(data, 1)
    yield from (b"\2" + data for data in octets_of("tests/data/zookeeper-*/snapshot.*.snappy"))
    yield from (b"\3" + data for data in golden("codecs/zookeeper/txnlog.py"))


def _saved(name: str, uri: str) -> Callable[[bytes], None]:
    return lambda data: read_store(uri.format(place(name, data)))


def _dumps() -> Iterator[bytes]:
    for home in ("flat-v1", "interleaved-hier", "limbo"):
        [dump] = octets_of(f"tests/data/{home}/metadata.jsonl.gz")
        lines = dump.splitlines(keepends=True)
        body = lines[:: max(1, len(lines) // 20)]
        yield b"".join(line for line in lines if re.search(rb"LAYOUT|INSTANCEID", line)) + b"".join(body[:12])
        yield b'{"begin":{"time":5}}\n' + body[0] + b'{"end":{"nodes":1}}\n'


def _packed_dumps() -> Iterator[bytes]:
    for data in _dumps():
        yield gzip.compress(data[:4000], 1)
        yield bytes(cramjam.zstd.compress(data[:4000]))
    yield from golden("sources/metadata/saved_files.py")


VERSION = octets_of("tests/data/flat-v1/bookies.tar.gz!*/ledgers0/current/VERSION")[0]


def _rows_of_index(data: bytes) -> None:
    place("idx/current/0/0/1.idx", data)
    part = IndexPart("bk1", (IndexDirectory(str(scratch() / "idx"), None),), ("0",))
    list(read_part(part))
    list(read_locations({"bk1": [str(scratch() / "idx")]}, part))


def _places(data: bytes) -> None:
    """Read a bookie directory. VERSION is the input up to the first zero byte, and lastMark is the rest."""
    version, _, mark = data.partition(b"\0")
    place("bookies/bk1_3181/ledgers/current/VERSION", version)
    place("bookies/bk1_3181/ledgers/current/lastMark", mark)
    find_places([str(scratch() / "bookies")])


def _journal(data: bytes) -> None:
    place("journal/current/5.txn", data)
    place("journal/current/VERSION", VERSION)
    directory = JournalDirectory(str(scratch() / "journal"), _sha256(VERSION), 5, 0)
    list(read_tail(JournalTailPart("bk1", (directory,))))


def _sha256(data: bytes) -> str:
    digest = IndexDirectory.from_version("", data).version_sha256
    assert digest is not None
    return digest


def _entry_log(data: bytes) -> None:
    place("log/current/0.log", data)
    list(read_logs_of(LogPart("bk1", 0, str(scratch() / "log"), None, verify=True)))


@cache
def _database() -> Path:
    rows = {key(1, entry): location() for entry in range(50)}
    return write_database(scratch() / "database", rows, tail={key(2, 0): location()})


def _database_files() -> list[Path]:
    return [path for path in sorted(_database().iterdir()) if path.is_file() and path.stat().st_size]


def _databases() -> Iterator[bytes]:
    for number, path in enumerate(_database_files()):
        yield bytes([number]) + path.read_bytes()


def _rocksdb(data: bytes) -> None:
    if not data:
        return
    files = _database_files()
    target = scratch() / "spoiled/current"
    if not target.exists():
        for name in ("locations", "ledgers"):
            shutil.copytree(_database(), target / name)
    spoiled = files[data[0] % len(files)]
    (target / "locations" / spoiled.name).write_bytes(data[1:])
    directory = IndexDirectory(str(target.parent), None, ROCKSDB)
    try:
        list(read_part(IndexPart("bk1", (directory,), ())))
    finally:
        shutil.copy(spoiled, target / "locations")


@cache
def _collection() -> Collection:
    current = "taken/bk1_3181/ledgers/current"
    place(f"{current}/VERSION", VERSION)
    place(f"{current}/lastMark", bytes(16))
    place(f"{current}/0/0/1.idx", golden("codecs/bookie/index_file.py")[-1])
    place(f"{current}/0.log", golden("codecs/bookie/entry_log.py")[0])
    return Collection(collect([str(scratch() / "taken")], str(scratch() / "collection")).path)


def _files_of(home: Path) -> list[Path]:
    return [path for path in sorted(home.rglob("*")) if path.is_file() and path.stat().st_size]


def _parts_of(home: Path) -> Iterator[bytes]:
    for number, path in enumerate(_files_of(home)):
        yield bytes([number]) + path.read_bytes()


def _with_part(home: Path, data: bytes, read: Callable[[], object]) -> None:
    """Read a directory after replacing one file. The first byte chooses the file, the rest is its content."""
    files = _files_of(home)
    spoiled = files[data[0] % len(files)]
    before = spoiled.read_bytes()
    spoiled.write_bytes(data[1:])
    try:
        read()
    finally:
        spoiled.write_bytes(before)


def _read_collection() -> None:
    collection = _collection()
    collected = collected_places([collection.path])
    manifest = collection.manifest()
    for table in manifest.tables:
        if table != "availability":
            list(collection.read_rows(table, manifest))
    directories = [
        directory for directory in collected.directories.values() if directory.piece_id is not None
    ]
    pieces = {str(directory.piece_id): PieceOwner("bk1", (directory.path,)) for directory in directories}
    for share in make_shares([(collection, manifest)], pieces, 2):
        list(CopiedRowsReader(pieces).read(share))


def _collection_parts() -> Iterator[bytes]:
    return _parts_of(Path(_collection().base_path))


def _collected(data: bytes) -> None:
    if data:
        _with_part(Path(_collection().base_path), data, _read_collection)


@cache
def _run() -> Path:
    changes = [change_row(LOST, 0, "new")]
    made_run(scratch() / "run", (LOST,), report([tally("entry-lost", "critical")], (LOST,)), changes=changes)
    for table in (scratch() / "run/tables").iterdir():
        if table.name not in ("changes", "bookies"):
            shutil.rmtree(table)
    (scratch() / "run/manifest.json").write_text('{"identity": {"options": {}}}')
    return scratch() / "run"


def _read_run() -> None:
    from auditor.notebook.run import open_run

    path = str(_run())
    with translate_damage(path):
        run = open_run(path)
        require_whole_findings(run.directory)
        for form in ("text", "jsonl", "csv"):
            FORMS[form].write(run, io.BytesIO())


def _run_parts() -> Iterator[bytes]:
    return _parts_of(_run())


def _damaged_run(data: bytes) -> None:
    if data:
        _with_part(_run(), data, _read_run)


def _earlier(data: bytes) -> None:
    place("earlier/part.parquet", data)
    with open_earlier_file(str(scratch() / "earlier"), "part.parquet", AVAILABILITY) as file:
        for batch in file.iter_batches(batch_size=1024):
            batch.validate()


def _earlier_files() -> Iterator[bytes]:
    import pyarrow.parquet as pq

    table = AVAILABILITY.empty_table()
    nulls = pa.table({field.name: pa.nulls(5, field.type) for field in AVAILABILITY}, AVAILABILITY)
    for content in (table, nulls):
        out = io.BytesIO()
        pq.write_table(content, out, write_page_checksum=True)
        yield out.getvalue()


def _toml(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        path = place(name, data)
        path.chmod(0o600)
        read(path)

    return run


def _conf(path: Path) -> None:
    with suppress(UsageError):
        AuditOptions.from_values(read_toml(path), path)
    named_cluster("a", path)


_LOGIN = 'user = "a"\npassword = "b"\n'
_TOML: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "conf": (
        _conf,
        [
            (ROOT / "conf/audit.toml").read_text(),
            '[clusters.a]\nmetadata = "zk://h/l"\nbookies = ["/b"]\nruns = "/r"\n',
        ],
    ),
    "inventory": (
        read_inventory,
        ['[bookies."bk-a:3181"]\njournal = ["/j"]\nledgers = ["/l0", "/l1"]\nindex = ["/i"]\n'],
    ),
    "suppressions": (
        read_suppressions,
        [
            '[[suppress]]\nid = "entry-*"\nledger_id = 7\nreason = "known"\nuntil = 2030-01-01\n'
            '[[baseline]]\nrun = "/r"\nreason = "old"\nuntil = 2030-01-01\n'
        ],
    ),
    "plan": (lambda path: read_plan(str(path)), [plan_toml(plan(step(), step(number=2)))]),
    "credentials": (
        lambda path: read_credentials(str(path)),
        [
            f'[zookeeper.digest]\n{_LOGIN}[zookeeper.sasl]\nmechanism = "DIGEST-MD5"\n{_LOGIN}'
            f'[zookeeper.tls]\nverify = true\n[etcd]\n{_LOGIN}[ledgers]\npassword = "c"\n'
        ],
    ),
    "racks": (
        lambda path: read_racks(str(path)),
        ['[bookies]\n"bk1:3181" = "/r1"\n"bk2:3181" = { rack = "/r2", group = "default" }\n'],
    ),
}


def _seeds_of(texts: list[str]) -> list[bytes]:
    return [text.encode() for text in texts]


READERS: tuple[Target, ...] = (
    Target("zk-snapshot", _zookeeper_seeds, _zookeeper, (StoreError,), offsets=False),
    Target(
        "etcd-snapshot",
        partial(golden, "codecs/etcd/bbolt.py"),
        _saved("etcd.db", "etcd-snapshot://{}?scope=/bk/cluster1"),
        (StoreError,),
        most=1 << 17,
    ),
    Target(
        "etcd-snapshot-paths",
        partial(golden, "codecs/etcd/bbolt.py"),
        _saved("etcd.db", "metadata-store:etcd-snapshot://{}?root=/bk/cluster1"),
        (StoreError,),
        most=1 << 17,
    ),
    Target("dump", _dumps, _saved("dump.jsonl", "dump://{}"), (StoreError,), most=1 << 14),
    Target("dump-packed", _packed_dumps, _saved("dump.packed", "dump://{}"), (StoreError,), most=1 << 13),
    Target("index-directory", partial(golden, "decode:index"), _rows_of_index, ()),
    Target("bookie-directories", lambda: [VERSION + b"\0" + bytes(16)], _places, ()),
    Target("journal-directory", partial(golden, "decode:journal"), _journal, ()),
    Target("entry-log-directory", lambda: [*golden("decode:entry-log"), bytes(HEADER_BYTES)], _entry_log, ()),
    Target("rocksdb-directory", _databases, _rocksdb, ()),
    Target("collection", _collection_parts, _collected, (UnreadError, OSError)),
    Target("run", _run_parts, _damaged_run, (RunError,)),
    Target("earlier-rows", _earlier_files, _earlier, (RunError,)),
    *(
        Target(f"toml-{name}", partial(_seeds_of, texts), _toml(f"{name}.toml", read), (UsageError,))
        for name, (read, texts) in _TOML.items()
    ),
    Target(
        "racks-columns",
        lambda: [b"bk1:3181 /r1 # a\nbk2 /r2\n"],
        _toml("racks.map", lambda path: read_racks(str(path))),
        (UsageError,),
    ),
    Target(
        "racks-pulsar",
        partial(golden, "codecs/pulsar/bookie_racks.py"),
        _toml("racks.json", lambda path: read_racks(str(path))),
        (UsageError,),
    ),
)

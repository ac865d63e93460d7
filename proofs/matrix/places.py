"""The data of cells on disk: each corpus is laid out once, and copied for each damage."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from click.testing import CliRunner

from auditor.cli import main
from auditor.demo.sample import extract
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.metadata.stores import open_store
from proofs.matrix.cells import CORPORA, KINDS, NO_VALUE
from proofs.matrix.damage import SOUND, Damage, damage_dump, damage_file, damage_znode
from proofs.matrix.smallest import SMALLEST, lay_out_smallest
from tests.corpora.cluster import set_clocks
from tests.corpora.corpora import DATA, lay_out
from tests.corpora.plain_readers import ledger_znodes
from tests.servers.etcd import Etcd
from tests.servers.zookeeper import writer

RUNNING = {"running-interleaved": 0, "running-dbledger": 2}
"""Corpora with running bookies, and the index of their kind in `tests.live.scenario.KINDS`."""

ETCD_SCOPE = "/bk/cluster1"
FILES: Mapping[str, tuple[str, ...]] = {
    "cookie": ("current/VERSION",),
    "mark": ("current/lastMark", "current/lastMark.*"),
    "index": ("current/**/*.idx", "current/**/*.sst", "current/**/MANIFEST-*"),
    "journal": ("current/*.txn",),
    "log": ("current/*.log",),
}
"""Patterns of the files that each target stands for, below each directory of a bookie."""


@dataclass(frozen=True)
class Place:
    """A corpus on disk, and its damage.

    ``scan_time`` is the newest time in the metadata store. None if the store was written just now.
    """

    corpus: str
    root: Path
    scan_time: int | None
    damage: Damage = SOUND

    @property
    def bookies(self) -> Path:
        return self.root / "bookies"

    @property
    def dump(self) -> Path:
        return self.root / "metadata.jsonl"

    @property
    def on_etcd(self) -> bool:
        return self.corpus == "etcd"

    def uri(self, form: str) -> str:
        """Return the URI of the saved metadata."""
        if form in ("dump", "packed"):
            file = self.dump if form == "dump" else self.root / "metadata.jsonl.zst"
            return f"dump://{file}" + (f"?root={ETCD_SCOPE}" if self.on_etcd else "")
        if self.on_etcd:
            return f"etcd-snapshot://{self.root / 'etcd-snapshot.db'}?scope={ETCD_SCOPE}"
        return f"zk-snapshot://{self.root / 'zookeeper' / 'version-2'}"

    def ids(self) -> dict[str, Path]:
        """Return the bookies' directories by bookie id."""
        return {path.name.replace("_", ":"): path for path in sorted(self.bookies.iterdir())}

    def ledger_paths(self) -> list[str]:
        """Return the paths of the ledgers in the dump."""
        lines = self.dump.read_text().splitlines()
        return [path for line in lines if _ids_of([path := _path_of(line)])]


class Places:
    """All places below a directory. Bookies of running corpora run until `close`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places: dict[tuple[str, ...], Place] = {}
        self._running = ExitStack()

    def close(self) -> None:
        self._running.close()

    def sound(self, corpus: str) -> Place:
        """Return a corpus without damage."""
        if (corpus,) not in self._places:
            self._places[corpus,] = self._lay_out(corpus, self._root / corpus / "sound")
        return self._places[corpus,]

    def damaged(self, corpus: str, metadata: str, damage: str) -> Place:
        """Return a corpus with damaged files. Damage to a collection or a run happens later."""
        sound = self.sound(corpus)
        target = damage.partition(":")[2]
        key = (corpus, metadata if target in ("store", "record") else "", damage)
        if damage == NO_VALUE or target in ("collection", "run"):
            return sound
        if key not in self._places:
            root = self._root / corpus / "-".join(key[1:]).strip("-").replace(":", "-")
            self._places[key] = spoil(copy_place(sound, root), metadata, damage)
        return self._places[key]

    def _lay_out(self, corpus: str, root: Path) -> Place:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        if corpus in RUNNING:
            return self._start(corpus, root)
        place = Place(corpus, root, None)
        data = DATA / corpus
        if corpus == "idle-journal":
            with tarfile.open(data / "bookies.tar.gz") as archive:
                archive.extractall(root, filter="data")
            for path in (root / "idle-interleaved").iterdir():
                path.rename(root / path.name)
        elif corpus == "pulsar-a":
            shutil.copytree(data / "zookeeper", root / "zookeeper")
            extract(data / "bookies.tar.gz", root)
        elif corpus in SMALLEST:
            lay_out_smallest(corpus, root)
        else:
            lay_out(corpus, root)
            if "log" in CORPORA[corpus]:
                extract(data / "entry-logs.tar.gz", root)
        place = replace(place, scan_time=_scan_time(place))
        if corpus != "idle-journal":
            set_clocks(place.bookies, place.scan_time or 0)
        _dump(place, [form for form in ("jsonl", "jsonl.zst") if not (root / f"metadata.{form}").exists()])
        return place

    def _start(self, corpus: str, root: Path) -> Place:
        from tests.live.scenario import KINDS as CLUSTERS
        from tests.live.scenario import live_cluster

        cluster = self._running.enter_context(live_cluster(CLUSTERS[RUNNING[corpus]], root / "running"))
        shutil.copytree(root / "running" / "zookeeper" / "version-2", root / "zookeeper" / "version-2")
        shutil.copytree(cluster.bookies.directory, root / "bookies", ignore=shutil.ignore_patterns("LOCK"))
        place = Place(corpus, root, None)
        _dump(place, ["jsonl", "jsonl.zst"])
        return place


def _scan_time(place: Place) -> int:
    """Return the newest time in the saved metadata, in ms since 1970."""
    with closing(open_store(place.uri("snapshot"))) as store:
        return store.cluster().scan_time


def _dump(place: Place, endings: Iterable[str]) -> None:
    """Save the place's metadata with ``bkaudit dump``, once for each file ending."""
    with served(place, place.root / "dumping") as uri:
        for ending in endings:
            outcome = CliRunner().invoke(main, ["dump", uri, str(place.root / f"metadata.{ending}")])
            assert outcome.exit_code == 0, outcome.output
    shutil.rmtree(place.root / "dumping")


@contextmanager
def served(place: Place, directory: Path) -> Iterator[str]:
    """Run a store on a copy of the place's metadata; yield its URI. No session expires while it runs."""
    shutil.rmtree(directory, ignore_errors=True)
    if place.on_etcd:
        member = Etcd(directory, snapshot=place.root / "etcd-snapshot.db")
        try:
            yield f"etcd://{member.start().wait().host}{ETCD_SCOPE}"
        finally:
            member.stop()
        return
    shutil.copytree(place.root / "zookeeper", directory)
    with EmbeddedZooKeeper(directory) as server:
        yield f"zk://{server.hosts}/ledgers"


def copy_place(place: Place, root: Path) -> Place:
    """Copy a place with its file times, so that the copy can be damaged."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(place.root, root, ignore=shutil.ignore_patterns("running"))
    return replace(place, root=root)


def spoil(place: Place, metadata: str, damage: str) -> Place:
    """Apply the named damage to a place that nobody else reads; return the damaged place."""
    kind, _, target = damage.partition(":")
    random = Random(crc32(f"{place.corpus} {damage}".encode()))
    kinds = random.sample([name for name in KINDS if name != "mixed"], 3) if kind == "mixed" else [kind]
    done = Damage()
    for name in kinds:
        done |= _spoil_once(place, metadata, name, target, random)
    return replace(place, damage=done)


def _spoil_once(place: Place, metadata: str, kind: str, target: str, random: Random) -> Damage:
    if target == "store":
        return _spoil_store(place, metadata, kind, random)
    if target == "record":
        return _spoil_record(place, metadata, kind, random)
    bookies = place.ids()
    having = [pick for pick in bookies.items() if _files(pick[1], target)]
    if not having:
        return SOUND  # an earlier damage deleted the last such file
    id, directory = random.choice(having)
    file = random.choice(_files(directory, target))
    partner = file
    if kind == "swapped":
        partners = [pick for pick in _files(directory, target) if pick.suffix == file.suffix and pick != file]
        partner = partners[-1] if partners else file
    damage_file(kind, file, partner, random)
    return Damage(frozenset({id}), paths=(str(file),))


def _files(directory: Path, target: str) -> list[Path]:
    paths = [
        path
        for pattern in FILES[target]
        for path in directory.glob(f"*/{pattern}")
        if path.is_file() and not path.is_symlink()
    ]
    return sorted(dict.fromkeys(paths))


def _spoil_store(place: Place, metadata: str, kind: str, random: Random) -> Damage:
    if metadata == "dump":
        files = [place.dump]
    elif metadata == "packed":
        files = [place.root / "metadata.jsonl.zst"]
    elif place.on_etcd:
        files = [place.root / "etcd-snapshot.db"]
    else:
        files = sorted(place.root.glob("zookeeper/version-2/*"))
    files = [file for file in files if file.is_file() and not file.is_symlink()]
    if not files:
        return Damage(whole=True)
    file = random.choice(files)
    damage_file(kind, file, files[0], random)
    return Damage(whole=True, paths=(str(file),))


def _spoil_record(place: Place, metadata: str, kind: str, random: Random) -> Damage:
    if metadata == "dump":
        spoilt = damage_dump(kind, place.dump, place.ledger_paths(), random)
    else:
        scratch = place.root / "spoiling"
        with served(place, scratch) as uri, writer(uri.split("/")[2]) as client:
            paths = [path for path in _below(client, "/ledgers") if _ids_of([path])]
            spoilt = damage_znode(kind, client, paths, random)
        shutil.rmtree(place.root / "zookeeper")
        scratch.rename(place.root / "zookeeper")
    return Damage(ledgers=frozenset(_ids_of(spoilt)), paths=tuple(spoilt))


def _below(client: Any, path: str) -> Iterator[str]:
    for name in sorted(client.get_children(path)):
        yield f"{path}/{name}"
        yield from _below(client, f"{path}/{name}")


def _ids_of(paths: Iterable[str]) -> dict[int, bytes]:
    """Return the ledger ids of the ledger paths among ``paths``, as keys."""
    return ledger_znodes({path: {"data": b""} for path in paths})


def _path_of(line: str) -> str:
    """Return the path in a line of a dump. Empty if the line was damaged."""
    try:
        path: str = json.loads(line).get("path", "")
    except ValueError:
        return ""
    return path

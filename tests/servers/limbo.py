"""Files of a real DbLedgerStorage cluster with ledgers in limbo: the command rewrites ``tests/data/limbo``.

    python -m tests.servers.limbo tests/data/limbo

Three bookies of BookKeeper 4.17.2 have two ledger directories each. The first loses a disk and is started
with its data integrity check. It puts the open ledgers into limbo, also those of which the other disk has
every entry. The second is healthy. It puts two closed ledgers into limbo on command
(``DbLedgerStorage.setLimboState``), without the flag that a check is due. ``answers.json`` has the answer of
each bookie to a plain read of entry 0.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.bookies.rpc.client import Conversation
from auditor.sources.bookies.rpc.reads import Entry, ReadClient
from auditor.sources.metadata.dump.save import SaveRequest, save
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.uri import parse_metadata_uri
from tests.clusters.store import Store
from tests.servers.bookies.driver import Bookies

CLOSED, OPEN = range(1, 7), range(7, 11)
LIMBO = (2, 3)
UNLISTED_LEDGERS = (20, 21)  # one for each directory; the metadata does not list them
ENTRIES = 5
SETTINGS = {"dataIntegrityChecking": "true", "dataIntegrityStampMissingCookies": "true"}


def make(target: Path) -> None:
    """Run the cluster and write its files."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        with (
            EmbeddedZooKeeper(root / "zookeeper") as server,
            Store(server.hosts) as store,
            Bookies(store.uri, root, "DbLedgerStorage", ledger_dirs=2, settings=SETTINGS) as cluster,
        ):
            answers, dump, saved = _run_cluster(cluster, store, root)
        target.mkdir(parents=True, exist_ok=True)
        (target / "metadata.jsonl.gz").write_bytes(gzip.compress(dump, mtime=0))
        (target / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
        _pack(saved, target / "bookies.tar.gz")


def _run_cluster(cluster: Bookies, store: Store, root: Path) -> tuple[dict[str, dict[int, str]], bytes, Path]:
    first, second, third, fourth = cluster.ids
    members = [first, second, third]
    for ledger in CLOSED:
        cluster.write(ledger, members, 3, 2, ENTRIES)
    for ledger in OPEN:
        cluster.create(ledger, members, 3, 2)
        cluster.append(ledger, ENTRIES)
    cluster.flush()
    for bookie in cluster.ids:
        cluster.stop(bookie)
    shutil.rmtree(cluster.place(first) / "ledgers1")
    # Alone, so that its check cannot copy from the others.
    cluster.start(first)
    answers = {first: _answers(first, (*CLOSED, *OPEN))}
    _write_index(cluster, first)
    cluster.stop(first)
    saved = root / "saved" / "bookies"
    shutil.copytree(cluster.place(first), saved / cluster.place(first).name)
    cluster.start(second)
    for ledger in LIMBO:
        cluster.set_limbo(second, ledger)
    _write_index(cluster, second)
    answers[second] = _answers(second, (*CLOSED, *OPEN))
    for bookie in (third, fourth, first):
        cluster.start(bookie)
    # Its writers close what they wrote: no bookie is needed for that.
    for ledger in OPEN:
        cluster.close(ledger)
    out = io.BytesIO()
    save(SaveRequest(parse_metadata_uri(store.uri), (), True, StoreOptions()), out)
    for bookie in (second, third, fourth):
        cluster.stop(bookie)
        shutil.copytree(cluster.place(bookie), saved / cluster.place(bookie).name)
    return answers, out.getvalue(), saved


def _write_index(cluster: Bookies, bookie: str) -> None:
    """Make the ledger index reach the disk: without an entry to flush, 4.17.2 flushes nothing."""
    for ledger in UNLISTED_LEDGERS:
        cluster.add(ledger, bookie, [0])
    cluster.flush()


def _answers(bookie: str, ledgers: Iterable[int]) -> dict[int, str]:
    host, _, port = bookie.partition(":")
    answers: dict[int, str] = {}
    with Conversation({bookie: (host, int(port))}, ReadClient, StoreOptions()) as conversation:
        for ledger in ledgers:
            for batch in conversation.ask(bookie, [Entry(ledger, 0)]):
                answers |= {result.entry.ledger_id: result.reason or result.answer.value for result in batch}
    return answers


def _pack(saved: Path, target: Path) -> None:
    """Pack the directories, without journals, entry logs and RocksDB's own text files."""
    with (
        target.open("wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(saved.rglob("*")):
            text = path.name in ("LOG", "LOCK") or path.name.startswith("LOG.old")
            log = path.suffix == ".log" and path.parent.name == "current"
            if not (text or log or path.suffix == ".txn"):
                tar.add(path, path.relative_to(saved.parent), recursive=False)


if __name__ == "__main__":
    make(Path(sys.argv[1]))

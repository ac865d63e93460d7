"""Whose each byte of real bookies' entry logs is, held to a plain read of the files; and what was spoiled."""

from __future__ import annotations

import struct
import tarfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from auditor.model.states import SpaceClass
from tests.codecs.bookie.test_entry_log_records import one_by_one
from tests.codecs.entry_logs import ledgers_map
from tests.corpora.audited import Asked, audit
from tests.corpora.corpora import DATA, Corpus, unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_LOGS = {"entry-log-header-wrong", "entry-log-missing", "entry-log-reclaimable", "entry-log-pinned"}
BOOKIE = "bookie{}.dc1.example:3181"


def current(corpus: Corpus, number: int) -> Path:
    return corpus.bookies / f"bookie{number}.dc1.example_3181" / "ledgers0" / "current"


def sizes(data: bytes) -> Counter[int]:
    """Bytes per ledger."""
    found: Counter[int] = Counter()
    for _, size, _, ledger, _ in one_by_one(data):
        found[ledger] += size
    return found


def close(log: Path, without: int | None = None) -> None:
    """Give a log that was left open its map, but for one ledger."""
    data = log.read_bytes()
    pairs = [(ledger, size) for ledger, size in sizes(data).items() if ledger != without]
    header = struct.pack(">4siqi", b"BKLO", 1, len(data), len(pairs))
    log.write_bytes(header + data[len(header) :] + ledgers_map(pairs))


def point_elsewhere(index: Path) -> None:
    """Have the index say that the ledger's first entry lies where its log has another ledger's."""
    data = bytearray(index.read_bytes())
    slots = struct.unpack(f">{(len(data) - 1024) // 8}q", data[1024:])
    place = next(number for number, location in enumerate(slots) if location)
    log = index.parents[2] / f"{slots[place] >> 32:x}.log"
    mine = int(index.stem, 16)
    other = next(at for at, _, _, ledger, _ in one_by_one(log.read_bytes()) if ledger != mine)
    struct.pack_into(">q", data, 1024 + 8 * place, (slots[place] >> 32) << 32 | other + 4)
    index.write_bytes(data)


def with_logs(name: str, root: Path) -> Corpus:
    """A corpus and the entry logs of its bookies."""
    corpus = unpack(name, root / name)
    with tarfile.open(DATA / name / "entry-logs.tar.gz") as archive:
        archive.extractall(corpus.root, filter="data")
    return corpus


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """flat-v1 with a fault on each bookie: a map, a log that is gone, a log that was cut, an index."""
    corpus = with_logs("flat-v1", tmp_path_factory.mktemp("space"))
    close(current(corpus, 1) / "1.log")
    lacking = sizes((current(corpus, 1) / "0.log").read_bytes()).most_common(1)[0][0]
    close(current(corpus, 1) / "0.log", without=lacking)
    (current(corpus, 2) / "1.log").unlink()
    cut = current(corpus, 3) / "1.log"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (current(corpus, 3) / "7.log.compacting").write_bytes(bytes(5000))
    (current(corpus, 3) / "1.log.0.compacted").hardlink_to(cut)
    index = max(current(corpus, 4).rglob("*.idx"), key=lambda each: each.stat().st_size)
    point_elsewhere(index)
    return corpus


@pytest.fixture(scope="module")
def found(spoiled: Corpus, spark: SparkSession) -> Asked:
    return audit(spark, f"dump://{spoiled.dump}", spoiled.bookies, spoiled.root / "space", entry_logs=True)


def test_the_classes_of_every_file_add_up_to_its_length(spoiled: Corpus, found: Asked) -> None:
    in_classes: Counter[str] = Counter()
    for row in found.table("space"):
        assert row["bytes"] > 0
        assert row["class"] in set(SpaceClass)
        in_classes[row["path"]] += row["bytes"]
    logs = [*spoiled.bookies.rglob("*.log"), *spoiled.bookies.rglob("*.compacting")]
    assert in_classes == {str(log): log.stat().st_size for log in logs}
    total = sum(log.stat().st_size for log in logs)
    [note] = [note for note in found.report.run.notes if note.startswith("entry logs: ")]
    assert note.startswith(f"entry logs: {len(logs)} files, all of their {total:,} bytes are in the table")


def test_bytes_of_every_ledger_are_those_of_a_plain_read(spoiled: Corpus, found: Asked) -> None:
    of_ledgers: Counter[tuple[str, int]] = Counter()
    for row in found.table("space"):
        if row["ledger_id"] is not None:
            of_ledgers[row["path"], row["ledger_id"]] += row["bytes"]
    plain = {
        (str(log), ledger): size
        for log in spoiled.bookies.rglob("*.log")
        for ledger, size in sizes(log.read_bytes()).items()
    }
    assert of_ledgers == plain


def test_each_spoiled_file_is_found_by_its_id_and_no_other(found: Asked) -> None:
    seen = {(each.id, each.bookie) for each in found.seen() if each.id in OF_LOGS - {"entry-log-pinned"}}
    assert seen == {
        ("entry-log-header-wrong", BOOKIE.format(1)),
        ("entry-log-missing", BOOKIE.format(2)),
        ("entry-log-missing", BOOKIE.format(3)),
        ("entry-log-missing", BOOKIE.format(4)),
    }
    states = {(row["bookie_id"], row["log_id"]): row["state"] for row in found.table("entry_logs")}
    assert states[BOOKIE.format(1), 0] == "map-wrong"
    assert states[BOOKIE.format(1), 1] == "ok"
    kinds: dict[str, set[str]] = {BOOKIE.format(number): set() for number in (1, 2, 3, 4)}
    for row in found.table("misplaced"):
        kinds[row["bookie_id"]].add(row["probe"])
    assert list(kinds.values()) == [set(), {"missing"}, {"past-end"}, {"other"}]
    [wrong] = found.of("entry-log-header-wrong")
    assert (wrong["severity"], wrong["confidence"]) == ("critical", "confirmed")
    assert "the ledgers map is wrong for 1 ledger" in wrong["message"]


def test_classes_follow_what_other_checks_say(found: Asked) -> None:
    classes = {
        (row["bookie_id"], row["ledger_id"], row["class"])
        for row in found.table("space")
        if row["ledger_id"] is not None
    }
    gone = {(row["bookie_id"], row["ledger_id"]) for row in found.table("orphans")}
    here = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.ORPHAN}
    assert here
    assert here <= gone
    foreign = {(bookie, ledger) for bookie, ledger, kind in classes if kind == SpaceClass.OVER_REPLICATED}
    named = {(row["bookie_id"], row["ledger_id"]) for row in found.of("over-replicated-ledger")}
    assert foreign == named & {(bookie, ledger) for bookie, ledger, _ in classes}


def test_real_databases_and_their_logs_agree(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    """dbledger-long as it is: a log space for each ledger directory, two directories swapped."""
    corpus = with_logs("dbledger-long", tmp_path_factory.mktemp("space"))
    ours = audit(spark, f"dump://{corpus.dump}", corpus.bookies, corpus.root / "space", entry_logs=True)
    rows = ours.table("space")
    logs = [log for log in corpus.bookies.rglob("*.log") if log.parent.name == "current"]
    assert sum(row["bytes"] for row in rows) == sum(log.stat().st_size for log in logs)
    assert ours.table("misplaced") == []
    located = [row for row in ours.table("locations") if row["log_id"] is not None]
    assert {row["probe"] for row in located} == {"ok"}
    assert not {each.id for each in ours.seen()} & {"entry-log-header-wrong", "entry-log-missing"}
    wanted = {each.id for each in ours.seen()} - OF_LOGS
    assert "orphan-ledger" in wanted
    assert SpaceClass.LIVE in {row["class"] for row in rows}

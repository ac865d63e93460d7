"""Comparison of two stores: whole copies, copies with one difference of each kind, and real servers."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.compare.stores import all_differences, compare_stores
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.errors import RunUsageError, StoreError
from auditor.keys import etcd
from auditor.keys.ledger_tree import LayoutKind, classify
from auditor.model.comparison import Comparison, CopyState, StoreDifference, StoreItem
from auditor.model.ledger_id import LedgerId
from auditor.model.progress import SilentProgress
from auditor.model.report import EXIT_CLEAN, EXIT_FOUND, EXIT_NOT_COVERED
from auditor.reports.schema import comparison_schema
from tests.servers import etcd as etcd_server
from tests.servers.etcd import Etcd
from tests.sources.conftest import DATA, records
from tests.sources.owners.pulsar_stores import FILES, zookeeper_dump

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = f"zk-snapshot://{FILES}"
TOPIC = "/managed-ledgers/fleet/telemetry/persistent/door"
Record = dict[str, Any]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Return all znodes of the corpus, as lines of a dump."""
    dump = zookeeper_dump(tmp_path_factory.mktemp("whole") / "dump.jsonl")
    return [json.loads(line) for line in dump.read_text("utf-8").splitlines()]


def write_dump(lines: list[Record], folder: Path, *, framed: bool = True) -> str:
    path = folder / "copy.jsonl"
    frame: tuple[list[Record], list[Record]] = ([], [])
    if framed:
        frame = [{"begin": {}}], [{"end": {"nodes": len(lines)}}]
    dump_lines = [*frame[0], *lines, *frame[1]]
    path.write_text("".join(json.dumps(line) + "\n" for line in dump_lines), "utf-8")
    return f"dump://{path}"


def result(
    spark: SparkSession, source: str, copy: str, owners: tuple[str, str] | None = None
) -> tuple[Comparison, list[StoreDifference]]:
    with compare_stores(source, copy, owners, spark=spark) as (comparison, differences):
        return comparison, list(all_differences(differences))


def changes(differences: list[StoreDifference]) -> set[tuple[StoreItem, CopyState, str]]:
    return {(difference.item, difference.change, difference.path) for difference in differences}


def ledger_path(id: int) -> str:
    return f"/ledgers/00/0000/L{id:04d}"


def spoil(lines: list[Record]) -> tuple[list[Record], set[tuple[StoreItem, CopyState, str]]]:
    """Return a copy with one difference of each kind, and the set of these differences."""
    by_path = {line["path"]: dict(line) for line in lines}
    cookie = next(path for path in sorted(by_path) if path.startswith("/ledgers/cookies/"))
    schema = next(path for path in sorted(by_path) if path.startswith("/schemas/") and by_path[path]["data"])
    del by_path[ledger_path(188)], by_path[cookie], by_path[schema]
    by_path[ledger_path(187)]["data"] = by_path[ledger_path(147)]["data"]
    by_path[ledger_path(9_999)] = {**by_path[ledger_path(187)], "path": ledger_path(9_999)}
    by_path[TOPIC]["data"] = base64.b64encode(b"\x12\x00").decode()
    by_path["/ledgers/INSTANCEID"]["data"] = base64.b64encode(b"another").decode()
    by_path[ledger_path(151)] |= {"version": 77, "mtime": 5, "mzxid": 1}
    return list(by_path.values()), {
        (StoreItem.LEDGER, CopyState.MISSING, ledger_path(188)),
        (StoreItem.LEDGER, CopyState.DIFFERENT, ledger_path(187)),
        (StoreItem.LEDGER, CopyState.EXTRA, ledger_path(9_999)),
        (StoreItem.COOKIE, CopyState.MISSING, cookie.removeprefix("/ledgers/")),
        (StoreItem.OWNER, CopyState.MISSING, schema),
        (StoreItem.OWNER, CopyState.DIFFERENT, TOPIC),
        (StoreItem.INSTANCE_ID, CopyState.DIFFERENT, "INSTANCEID"),
    }


def test_complete_copy_is_equal(spark: SparkSession, tmp_path: Path, lines: list[Record]) -> None:
    comparison, differences = result(spark, SOURCE, write_dump(lines, tmp_path))
    assert differences == []
    assert (comparison.exit_code, comparison.gaps) == (EXIT_CLEAN, ())
    counts = {tally.item: (tally.source, tally.copy, tally.same) for tally in comparison.tallies}
    ledgers = sum(classify(LayoutKind.HIERARCHICAL, line["path"][9:]).kind == "ledger" for line in lines)
    assert counts[StoreItem.LEDGER] == (ledgers,) * 3
    assert counts[StoreItem.COOKIE] == (3, 3, 3)
    assert counts[StoreItem.LAYOUT] == (1, 1, 1)
    trees = ("/managed-ledgers/", "/schemas/", "/pulsar/functions/")
    owners = sum(line["path"].startswith(trees) and line["data"] != "" for line in lines)
    assert owners > 80
    assert counts[StoreItem.OWNER] == (owners,) * 3


@pytest.mark.parametrize(("created", "exit_code"), [(1_000, EXIT_CLEAN), (60, EXIT_FOUND)])
def test_id_generator_behind_the_ledger_ids_is_a_difference(
    spark: SparkSession, tmp_path: Path, lines: list[Record], created: int, exit_code: int
) -> None:
    copy = [dict(line) for line in lines]
    (generator,) = (line for line in copy if line["path"] == "/ledgers/idgen")
    generator["cversion"] = 2 * created  # a child was created and deleted for each id
    comparison, differences = result(spark, SOURCE, write_dump(copy, tmp_path))
    assert comparison.exit_code == exit_code
    behind = {(StoreItem.ID_GENERATOR, CopyState.DIFFERENT, "idgen")}
    assert changes(differences) == (behind if exit_code == EXIT_FOUND else set())


def test_exactly_the_planted_differences_are_found(
    spark: SparkSession, tmp_path: Path, lines: list[Record]
) -> None:
    copy, expected = spoil(lines)
    (ledger_line,) = (line for line in copy if line["path"] == ledger_path(147))
    # A field that nobody knows, behind all others: other bytes of the same metadata.
    ledger_line["data"] = base64.b64encode(_longer(base64.b64decode(ledger_line["data"]))).decode()
    expected |= {(StoreItem.LEDGER, CopyState.DIFFERENT, ledger_path(147))}
    comparison, differences = result(spark, SOURCE, write_dump(copy, tmp_path))
    assert changes(differences) == expected
    assert (comparison.exit_code, comparison.differences) == (EXIT_FOUND, len(expected))
    for tally in comparison.tallies:
        assert (
            tally.source == tally.same + tally.changes[CopyState.MISSING] + tally.changes[CopyState.DIFFERENT]
        )
        assert tally.copy == tally.same + tally.changes[CopyState.EXTRA] + tally.changes[CopyState.DIFFERENT]
    (ledger,) = (difference for difference in differences if difference.ledger_id == 187)
    assert any(field.startswith("last_entry_id: ") for field in ledger.fields)
    assert "custom_metadata" in ledger.fields
    assert (
        next(difference for difference in differences if difference.ledger_id == 147)
        .fields[0]
        .startswith("bytes: ")
    )


def _longer(value: bytes) -> bytes:
    """Append one more protobuf field to metadata of version 3."""
    start = value.index(b"\n") + 1
    size, shift, position = 0, 0, start
    while True:
        byte = value[position]
        size |= (byte & 0x7F) << shift
        shift, position = shift + 7, position + 1
        if byte < 0x80:
            break
    body = value[position : position + size] + b"\xf8\x07\x01"
    number, length = len(body), bytearray()
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    length.append(number)
    return value[:start] + bytes(length) + body


def test_unreadable_record_is_undecided_and_not_missing(
    spark: SparkSession, tmp_path: Path, lines: list[Record]
) -> None:
    copy = [dict(line) for line in lines]
    for line in copy:
        if line["path"] in (ledger_path(188), TOPIC):
            line["data"] = "no base64"
    comparison, differences = result(spark, SOURCE, write_dump(copy, tmp_path))
    assert changes(differences) == {
        (StoreItem.LEDGER, CopyState.UNDECIDED, ledger_path(188)),
        (StoreItem.OWNER, CopyState.UNDECIDED, TOPIC),
    }
    assert comparison.exit_code == EXIT_NOT_COVERED
    assert len(comparison.gaps) == 2
    assert all("is not base64" in str(difference.why) for difference in differences)


def test_truncated_copy_gives_undecided_and_not_missing(
    spark: SparkSession, tmp_path: Path, lines: list[Record]
) -> None:
    copy = [line for line in lines if not line["path"].startswith(("/ledgers/cookies", "/ledgers/LAYOUT"))]
    copy = [line for line in copy if line["path"] != ledger_path(188)]
    comparison, differences = result(spark, SOURCE, write_dump(copy, tmp_path, framed=False))
    assert {difference.change for difference in differences} == {CopyState.UNDECIDED}
    assert {difference.item for difference in differences} == {
        StoreItem.LEDGER,
        StoreItem.COOKIE,
        StoreItem.LAYOUT,
    }
    assert comparison.exit_code == EXIT_NOT_COVERED
    assert any("may be cut" in gap for gap in comparison.gaps)


def test_unreadable_store_and_existing_output_directory_are_errors(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(StoreError), compare_stores(SOURCE, f"dump://{tmp_path}/nothing.jsonl", spark=spark):
        pass
    (tmp_path / "taken" / "tables").mkdir(parents=True)
    with (
        pytest.raises(RunUsageError, match="already has tables"),
        compare_stores(SOURCE, SOURCE, out=str(tmp_path / "taken"), spark=spark),
    ):
        pass


def test_compare_command_prints_text_json_and_jsonl(
    spark: SparkSession, tmp_path: Path, lines: list[Record]
) -> None:
    copy, expected = spoil(lines)
    uri = write_dump(copy, tmp_path)

    def run_compare(*arguments: str) -> tuple[int, str]:
        outcome = CliRunner().invoke(main, ["compare", *arguments, "-q"], obj=lambda: spark)
        return outcome.exit_code, outcome.stdout

    code, text = run_compare(SOURCE, uri)
    assert (code, text.splitlines()[-1]) == (1, "DIFFERENT: 3 missing, 3 different, 1 extra")
    assert f"ledger 188 {ledger_path(188)}" in text
    code, text = run_compare(SOURCE, uri, "--format", "json")
    value = json.loads(text)
    jsonschema.validate(value, comparison_schema())
    assert (code, value["verdict"], len(value["samples"])) == (1, "different", len(expected))
    code, text = run_compare(SOURCE, uri, "--format", "jsonl", "--out", str(tmp_path / "kept"))
    rows = [json.loads(line) for line in text.splitlines()]
    assert {(row["item"], row["change"], row["path"]) for row in rows} == expected
    assert {row["ledger_id"] for row in rows if row["item"] == "ledger"} == {"187", "188", "9999"}
    assert (tmp_path / "kept" / "tables" / "ledger_differences").is_dir()


@contextmanager
def servers(folder: Path) -> Iterator[tuple[str, str, Etcd]]:
    """Yield a cluster in a real ZooKeeper, and the same in a real etcd as BookKeeper keeps it there."""
    keys = {"/bk/layout": b"2\norg.apache.bookkeeper.metadata.etcd.EtcdLedgerManagerFactory:0"}
    for record in records("interleaved-hier"):
        path, data = record["path"].removeprefix("/ledgers/"), base64.b64decode(record["data"])
        place = classify(LayoutKind.HIERARCHICAL, path)
        name = "instanceid" if path == "INSTANCEID" else path
        if place.kind == "ledger" and place.ledger_id is not None:
            keys[f"/bk/{etcd.to_path(LedgerId(place.ledger_id))}"] = data
        elif path.startswith(("cookies/", "INSTANCEID")):
            keys[f"/bk/{name}"] = data
    shutil.copytree(DATA / "interleaved-hier" / "zookeeper", folder / "zookeeper")
    with (
        EmbeddedZooKeeper(folder / "zookeeper") as zookeeper,
        etcd_server.running(folder / "etcd") as server,
    ):
        server.load(keys.items())
        yield f"zk://{zookeeper.hosts}/ledgers", f"etcd://{server.host}/bk", server


class ActBetweenReads(SilentProgress):
    """A progress display that calls a function after the first read of both stores."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def table(self, name: str, total: int | None = None) -> None:
        if name == "copy_ledgers_again":
            self._act()


def test_running_zookeeper_and_etcd_stores_are_compared(spark: SparkSession, tmp_path: Path) -> None:
    with servers(tmp_path) as (source, copy, server):
        comparison, difference_list = result(spark, source, copy)
        assert changes(difference_list) == {(StoreItem.ID_GENERATOR, CopyState.DIFFERENT, "idgen")}
        assert difference_list[0].fields == ("the copy's next id is 1, but ledger 68 is in use",)
        assert comparison.exit_code == EXIT_FOUND
        for _ in range(70):  # a bucket counts how often its key was written
            server.load([("/bk/buckets/000", b"")])
        comparison, difference_list = result(spark, source, copy)
        assert (difference_list, comparison.exit_code) == ([], EXIT_CLEAN)
        assert {tally.item for tally in comparison.tallies} == {
            StoreItem.LEDGER,
            StoreItem.COOKIE,
            StoreItem.INSTANCE_ID,
            StoreItem.ID_GENERATOR,
        }, "each has a LAYOUT of its own"
        assert comparison.tallies[0].same > 50
        deleted_key, moving = (f"/bk/{etcd.to_path(LedgerId(id))}" for id in (3, 4))
        server.delete(deleted_key)
        server.load([(moving, b"another")])
        change = ActBetweenReads(lambda: server.load([(moving, b"and again")]))
        with compare_stores(source, copy, spark=spark, progress=change) as (comparison, differences):
            rows = {difference.ledger_id: difference for difference in all_differences(differences)}
        assert {id: difference.change for id, difference in rows.items()} == {
            3: CopyState.MISSING,
            4: CopyState.UNDECIDED,
        }
        assert rows[4].why == "the record changed while the stores were read"
        assert comparison.exit_code == EXIT_FOUND

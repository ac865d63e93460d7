"""The client of Oxia: leaders that move, answers that break off, and what it says of servers that refuse."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from auditor.errors import StoreError, UsageError
from auditor.sources.metadata.oxia.client import OxiaClient
from auditor.sources.metadata.oxia.questions import ChildKeys, ChildRecords, RecordsByKey
from auditor.sources.metadata.store import StoreOptions
from tests.servers.oxia_double import NEW, OLD, OxiaDouble

OPTIONS = StoreOptions(rate_limit=0, timeout_s=5)
NAMES = [f"L{number:04d}" for number in range(10)]


def filled(**options: Any) -> OxiaDouble:
    double = OxiaDouble(**options)
    for name in NAMES:
        double.put(f"/ledgers/00/0000/{name}", name.encode())
    return double


@contextmanager
def connected(
    double: OxiaDouble, options: StoreOptions = OPTIONS, namespace: str | None = None
) -> Iterator[OxiaClient]:
    client = OxiaClient([double.host], namespace or double.namespace, options, sleep=lambda _: None)
    with closing(client):
        yield client


def scan(client: OxiaClient, path: str = "/ledgers/00/0000") -> list[str]:
    found = [record.key for shard in client.shards() for record in client.ask(shard, ChildRecords(path))]
    return sorted(key.decode().rpartition("/")[2] for key in found)


@pytest.mark.parametrize("service", [OLD, NEW])
@pytest.mark.parametrize("shard_count", [1, 3])
def test_both_names_of_the_service_and_any_number_of_shards_are_read(service: str, shard_count: int) -> None:
    with filled(service=service, shard_count=shard_count).serving() as double, connected(double) as client:
        assert scan(client) == NAMES
        assert client.service == service
        assert client.operations["records_read"] == len(NAMES)
        assert client.operations["retry"] == 0


def test_single_records_are_found_in_whatever_shard_they_are() -> None:
    keys = (b"/ledgers/00/0000/L0003", b"/ledgers/none", b"/ledgers/00/0000/L0001")
    with filled(shard_count=4).serving() as double, connected(double) as client:
        answers = [client.ask(shard, RecordsByKey(keys)) for shard in client.shards()]
    values = [{record.value for record in column if record} for column in zip(*answers, strict=True)]
    assert values == [{b"L0003"}, set(), {b"L0001"}]


def test_session_zero_is_a_session() -> None:
    double = OxiaDouble()
    double.put("/ledgers/available/a", b"", session=0)
    double.put("/ledgers/available/b", b"")
    with double.serving(), connected(double) as client:
        found = client.ask(client.shards()[0], ChildRecords("/ledgers/available"))
    assert [record.session for record in found] == [0, None]
    assert [record.znode().ephemeral_owner for record in found] == [1, 0]


def test_a_shard_that_moved_is_asked_for_at_its_new_leader() -> None:
    with filled(shard_count=2).serving(servers=2) as double, connected(double) as client:
        client.shards()
        double.leader_of[1] = 1
        assert scan(client) == NAMES
        assert client.operations["retry"] == 1
        assert double.called("GetShardAssignments") == 2


def test_the_leader_that_an_error_names_is_asked_next() -> None:
    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan" and double.calls[-1][0] == 0:
            facts = pb.OxiaErrorInfo(facts={"shard": "0", "leader": double.addresses[1]})
            detail = pb.OxiaErrorDetail(
                type_url="type.googleapis.com/google.rpc.ErrorInfo", value=facts.SerializeToString()
            )
            status = pb.OxiaErrorStatus(details=[detail]).SerializeToString()
            context.set_trailing_metadata((("grpc-status-details-bin", status),))
            double.leader_of[0] = 1
            context.abort(grpc.StatusCode.ABORTED, "oxia: node is not leader")

    double = filled(service=NEW, fault=fault)
    with double.serving(servers=2), connected(double) as client:
        assert scan(client) == NAMES
        assert double.called("GetShardAssignments") == 1
        assert [server for server, method, _ in double.calls if method == "RangeScan"] == [0, 1]


def test_an_answer_that_broke_off_is_asked_on_behind_its_last_record() -> None:
    broken: list[int] = []

    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan" and number == 2 and not broken:
            broken.append(number)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the leader is gone")

    with filled(fault=fault).serving() as double, connected(double) as client:
        assert scan(client) == NAMES
        starts = [request.start for _, method, request in double.calls if method == "RangeScan"]
        assert starts == [b"/ledgers/00/0000/", b"/ledgers/00/0000/L0005\0"]


def test_a_shard_without_a_leader_is_waited_for() -> None:
    def leaderless(shards: list[pb.OxiaShard]) -> list[pb.OxiaShard]:
        if double.called("GetShardAssignments") < 3:
            shards[0].leader = ""
        return shards

    double = filled(assignments=leaderless, service=NEW)
    with double.serving(), connected(double) as client:
        assert scan(client) == NAMES


@pytest.mark.parametrize(
    ("options", "namespace", "words"),
    [
        ({}, "broker", "there is no namespace broker. Use the namespace in the bookies' metadataServiceUri"),
        ({"token": "secret"}, None, r"not authorised .* token_env in the \[oxia\] section"),
        ({"service": "etcdserverpb.KV"}, None, "no Oxia server answers there"),
    ],
)
def test_a_server_that_refuses_is_named_with_the_way_out(
    options: dict[str, Any], namespace: str | None, words: str
) -> None:
    with filled(**options).serving() as double, connected(double, namespace=namespace) as client:
        with pytest.raises(StoreError, match=words) as raised:
            client.shards()
        assert double.host in str(raised.value)


@pytest.mark.parametrize(
    ("status", "details", "words"),
    [
        (grpc.StatusCode.ABORTED, "node is not leader", "not leader; no other server took over"),
        (grpc.StatusCode.UNKNOWN, "disk is broken", "refused to answer: UNKNOWN: disk is broken"),
        (grpc.StatusCode.UNAVAILABLE, "no way", "cannot reach 127.* leader of shard 0 .* no way"),
    ],
)
def test_a_leader_that_fails_for_good_ends_the_reading(
    status: grpc.StatusCode, details: str, words: str
) -> None:
    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan":
            context.abort(status, details)

    with (
        filled(fault=fault).serving() as double,
        connected(double) as client,
        pytest.raises(StoreError, match=words),
    ):
        scan(client)


def test_nobody_there_is_named_with_the_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
        client = OxiaClient([host], "default", OPTIONS, sleep=lambda _: None)
        with closing(client), pytest.raises(StoreError, match=f"cannot reach {host}.*Check the host"):
            client.shards()


def hole(shards: list[pb.OxiaShard]) -> list[pb.OxiaShard]:
    return shards[1:]


def overlap(shards: list[pb.OxiaShard]) -> list[pb.OxiaShard]:
    shards[0].hashes.max += 1
    return shards


def cut(shards: list[pb.OxiaShard]) -> list[pb.OxiaShard]:
    return shards[:-1]


@pytest.mark.parametrize("damage", [hole, overlap, cut, lambda shards: []])
def test_shards_that_do_not_fit_together_are_not_read(damage: Any) -> None:
    double = filled(shard_count=3, assignments=damage)
    with (
        double.serving(),
        connected(double) as client,
        pytest.raises(StoreError, match=r"its shards (leave a gap or overlap|end at hash)"),
    ):
        client.shards()


@pytest.mark.parametrize(
    ("method", "message", "words"),
    [
        ("_scan", pb.OxiaRecords(records=[pb.OxiaRecordFound(key=b"/other/a")]), "received the key /other/a"),
        ("_list", pb.OxiaKeys(keys=[b"/ledgers/00/0000/L1/x"]), "is not directly below"),
        (
            "_read",
            pb.OxiaRecords(records=[pb.OxiaRecordFound(status=2)]),
            "received status 2 for the key /ledgers/a",
        ),
        ("_read", pb.OxiaRecords(), "there was no answer for /ledgers/a"),
        ("_read", pb.OxiaRecords(records=[pb.OxiaRecordFound()] * 3), "3 records were received"),
        ("_scan", b"\xff\xff\xff", "no Oxia server answers there"),
    ],
)
def test_an_answer_that_does_not_belong_to_its_question_is_refused(
    method: str, message: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OxiaDouble, method, lambda self, request: iter([message]))
    questions: dict[str, Any] = {
        "_scan": ChildRecords("/ledgers/00/0000"),
        "_list": ChildKeys("/ledgers/00/0000"),
        "_read": RecordsByKey((b"/ledgers/a",)),
    }
    with filled().serving() as double, connected(double) as client, pytest.raises(StoreError, match=words):
        client.ask(client.shards()[0], questions[method])


def test_numbers_that_no_clock_says_stay_in_64_bits() -> None:
    double = OxiaDouble()
    double.put("/ledgers/a", session=2**63 - 1)
    double.records[0][b"/ledgers/a"].created = 2**64 - 1
    with double.serving(), connected(double) as client:
        [record] = client.ask(client.shards()[0], ChildRecords("/ledgers"))
    assert record.znode().ctime == record.znode().ephemeral_owner == 2**63 - 1


def test_keys_that_are_no_text_are_read() -> None:
    double = OxiaDouble()
    double.records[0][b"/ledgers/\xff"] = double.records[0][b"/ledgers"] = filled().records[0][b"/ledgers"]
    with double.serving(), connected(double) as client:
        [record] = client.ask(client.shards()[0], ChildRecords("/ledgers"))
    assert record.znode().path == "/ledgers/\\xff"


def test_a_silent_server_is_given_up_after_the_time_out() -> None:
    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan":
            while context.is_active():
                context.time_remaining()

    options = StoreOptions(rate_limit=0, timeout_s=0.2)
    with (
        filled(fault=fault).serving() as double,
        connected(double, options) as client,
        pytest.raises(StoreError, match=r"no answer within 0\.2 s; raise --timeout if it is slow"),
    ):
        scan(client)


def test_records_and_calls_keep_to_the_rate() -> None:
    waits: list[float] = []
    with filled().serving() as double:
        options = StoreOptions(rate_limit=10, timeout_s=5)
        with closing(OxiaClient([double.host], double.namespace, options, waits.append)) as client:
            scan(client)
    # Two names of the service, one scan, ten records: no second has more than ten of them.
    assert max(waits) > 1


def test_a_token_of_the_credentials_file_lets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OXIA_TOKEN", "secret")
    (tmp_path / "credentials.toml").write_text('[oxia]\ntoken_env = "OXIA_TOKEN"\n')
    options = StoreOptions(rate_limit=0, credentials=str(tmp_path / "credentials.toml"))
    with filled(token="secret").serving() as double, connected(double, options) as client:
        assert scan(client) == NAMES


def test_a_token_that_no_header_can_have_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OXIA_TOKEN", "secret\n")
    (tmp_path / "credentials.toml").write_text('[oxia]\ntoken_env = "OXIA_TOKEN"\n')
    options = StoreOptions(rate_limit=0, credentials=str(tmp_path / "credentials.toml"))
    with filled().serving() as double, connected(double, options) as client:
        with pytest.raises(UsageError, match=r"oxia\.token: must not contain characters") as raised:
            client.shards()
        assert "secret" not in str(raised.value)

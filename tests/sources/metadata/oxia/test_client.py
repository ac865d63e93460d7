"""The Oxia client: leaders that move, answers that break off, and errors about servers that refuse."""

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


def make_double(**options: Any) -> OxiaDouble:
    double = OxiaDouble(**options)
    for name in NAMES:
        double.put(f"/ledgers/00/0000/{name}", name.encode())
    return double


@contextmanager
def connect(
    double: OxiaDouble, options: StoreOptions = OPTIONS, namespace: str | None = None
) -> Iterator[OxiaClient]:
    client = OxiaClient([double.host], namespace or double.namespace, options, sleep=lambda _: None)
    with closing(client):
        yield client


def scan(client: OxiaClient, path: str = "/ledgers/00/0000") -> list[str]:
    keys = [record.key for shard in client.shards() for record in client.ask(shard, ChildRecords(path))]
    return sorted(key.decode().rpartition("/")[2] for key in keys)


@pytest.mark.parametrize("service", [OLD, NEW])
@pytest.mark.parametrize("shard_count", [1, 3])
def test_both_service_names_and_any_number_of_shards_are_read(service: str, shard_count: int) -> None:
    with make_double(service=service, shard_count=shard_count).serving() as double, connect(double) as client:
        assert scan(client) == NAMES
        assert client.service == service
        assert client.operations["records_read"] == len(NAMES)
        assert client.operations["retry"] == 0


def test_single_records_are_found_in_any_shard() -> None:
    keys = (b"/ledgers/00/0000/L0003", b"/ledgers/none", b"/ledgers/00/0000/L0001")
    with make_double(shard_count=4).serving() as double, connect(double) as client:
        answers = [client.ask(shard, RecordsByKey(keys)) for shard in client.shards()]
    values = [{record.value for record in column if record} for column in zip(*answers, strict=True)]
    assert values == [{b"L0003"}, set(), {b"L0001"}]


def test_session_zero_makes_a_record_ephemeral() -> None:
    double = OxiaDouble()
    double.put("/ledgers/available/a", b"", session=0)
    double.put("/ledgers/available/b", b"")
    with double.serving(), connect(double) as client:
        records = client.ask(client.shards()[0], ChildRecords("/ledgers/available"))
    assert [record.session for record in records] == [0, None]
    assert [record.znode().ephemeral_owner for record in records] == [1, 0]


def test_moved_shard_is_read_from_its_new_leader() -> None:
    with make_double(shard_count=2).serving(servers=2) as double, connect(double) as client:
        client.shards()
        double.leader_of[1] = 1
        assert scan(client) == NAMES
        assert client.operations["retry"] == 1
        assert double.called("GetShardAssignments") == 2


def test_leader_named_in_an_error_is_asked_next() -> None:
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

    double = make_double(service=NEW, fault=fault)
    with double.serving(servers=2), connect(double) as client:
        assert scan(client) == NAMES
        assert double.called("GetShardAssignments") == 1
        assert [server for server, method, _ in double.calls if method == "RangeScan"] == [0, 1]


def test_interrupted_scan_continues_after_its_last_record() -> None:
    broken: list[int] = []

    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan" and number == 2 and not broken:
            broken.append(number)
            context.abort(grpc.StatusCode.UNAVAILABLE, "the leader is gone")

    with make_double(fault=fault).serving() as double, connect(double) as client:
        assert scan(client) == NAMES
        starts = [request.start for _, method, request in double.calls if method == "RangeScan"]
        assert starts == [b"/ledgers/00/0000/", b"/ledgers/00/0000/L0005\0"]


def test_client_waits_for_a_leader_of_the_shard() -> None:
    def leaderless(shards: list[pb.OxiaShard]) -> list[pb.OxiaShard]:
        if double.called("GetShardAssignments") < 3:
            shards[0].leader = ""
        return shards

    double = make_double(assignments=leaderless, service=NEW)
    with double.serving(), connect(double) as client:
        assert scan(client) == NAMES


@pytest.mark.parametrize(
    ("options", "namespace", "words"),
    [
        ({}, "broker", "there is no namespace broker. Use the namespace in the bookies' metadataServiceUri"),
        ({"token": "secret"}, None, r"not authorised .* token_env in the \[oxia\] section"),
        ({"service": "etcdserverpb.KV"}, None, "no Oxia server answers there"),
    ],
)
def test_refusing_server_is_reported_with_advice(
    options: dict[str, Any], namespace: str | None, words: str
) -> None:
    with make_double(**options).serving() as double, connect(double, namespace=namespace) as client:
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
def test_leader_that_keeps_failing_is_an_error(status: grpc.StatusCode, details: str, words: str) -> None:
    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan":
            context.abort(status, details)

    with (
        make_double(fault=fault).serving() as double,
        connect(double) as client,
        pytest.raises(StoreError, match=words),
    ):
        scan(client)


def test_unreachable_host_is_reported() -> None:
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
def test_inconsistent_shards_are_an_error(damage: Any) -> None:
    double = make_double(shard_count=3, assignments=damage)
    with (
        double.serving(),
        connect(double) as client,
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
def test_answer_that_does_not_match_its_request_is_an_error(
    method: str, message: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OxiaDouble, method, lambda self, request: iter([message]))
    questions: dict[str, Any] = {
        "_scan": ChildRecords("/ledgers/00/0000"),
        "_list": ChildKeys("/ledgers/00/0000"),
        "_read": RecordsByKey((b"/ledgers/a",)),
    }
    with make_double().serving() as double, connect(double) as client, pytest.raises(StoreError, match=words):
        client.ask(client.shards()[0], questions[method])


def test_numbers_beyond_signed_64_bits_are_clamped() -> None:
    double = OxiaDouble()
    double.put("/ledgers/a", session=2**63 - 1)
    double.records[0][b"/ledgers/a"].created = 2**64 - 1
    with double.serving(), connect(double) as client:
        [record] = client.ask(client.shards()[0], ChildRecords("/ledgers"))
    assert record.znode().ctime == record.znode().ephemeral_owner == 2**63 - 1


def test_keys_that_are_not_text_are_read() -> None:
    double = OxiaDouble()
    double.records[0][b"/ledgers/\xff"] = double.records[0][b"/ledgers"] = make_double().records[0][
        b"/ledgers"
    ]
    with double.serving(), connect(double) as client:
        [record] = client.ask(client.shards()[0], ChildRecords("/ledgers"))
    assert record.znode().path == "/ledgers/\\xff"


def test_silent_server_is_given_up_after_the_timeout() -> None:
    def fault(method: str, number: int, context: Any) -> None:
        if method == "RangeScan":
            while context.is_active():
                context.time_remaining()

    options = StoreOptions(rate_limit=0, timeout_s=0.2)
    with (
        make_double(fault=fault).serving() as double,
        connect(double, options) as client,
        pytest.raises(StoreError, match=r"no answer within 0\.2 s; raise --timeout if it is slow"),
    ):
        scan(client)


def test_records_and_calls_keep_to_the_rate_limit() -> None:
    waits: list[float] = []
    with make_double().serving() as double:
        options = StoreOptions(rate_limit=10, timeout_s=5)
        with closing(OxiaClient([double.host], double.namespace, options, waits.append)) as client:
            scan(client)
    # Two names of the service, one scan, ten records: no second has more than ten of them.
    assert max(waits) > 1


def test_token_of_the_credentials_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OXIA_TOKEN", "secret")
    (tmp_path / "credentials.toml").write_text('[oxia]\ntoken_env = "OXIA_TOKEN"\n')
    options = StoreOptions(rate_limit=0, credentials=str(tmp_path / "credentials.toml"))
    with make_double(token="secret").serving() as double, connect(double, options) as client:
        assert scan(client) == NAMES


def test_invalid_token_is_not_repeated_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OXIA_TOKEN", "secret\n")
    (tmp_path / "credentials.toml").write_text('[oxia]\ntoken_env = "OXIA_TOKEN"\n')
    options = StoreOptions(rate_limit=0, credentials=str(tmp_path / "credentials.toml"))
    with make_double().serving() as double, connect(double, options) as client:
        with pytest.raises(UsageError, match=r"oxia\.token: must not contain characters") as raised:
            client.shards()
        assert "secret" not in str(raised.value)

"""The etcd client, against real servers with users and certificates, and members that stop."""

from __future__ import annotations

import ast
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import auditor
from auditor.errors import StoreError
from auditor.sources.metadata.etcd.client import EtcdClient, EtcdRangeRequest
from auditor.sources.metadata.store import StoreOptions
from tests.servers.etcd import Certificates, Etcd, certificates, free_port, running, running_cluster
from tests.syntax import syntax_nodes

KEYS = [(f"/bk/ledgers/{number:03d}", b"value") for number in range(20)]
ALL_KEYS = EtcdRangeRequest(b"/bk/", b"/bk0", 0)
SECRET = "correct-horse-7261"

WriteFile = Callable[[str], str]


@pytest.fixture
def credentials(tmp_path: Path) -> WriteFile:
    """Return a function that writes a credentials file which no other user may read."""

    def write(text: str) -> str:
        path = tmp_path / "credentials.toml"
        path.touch(0o600)
        path.write_text(text, "utf-8")
        return str(path)

    return write


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Etcd]:
    with running(tmp_path / "etcd") as member:
        member.load(KEYS)
        yield member


@pytest.fixture
def waits() -> list[float]:
    return []


def client(hosts: list[str], options: StoreOptions, waits: list[float] | None = None) -> EtcdClient:
    return EtcdClient(hosts, options, sleep=(waits if waits is not None else []).append)


def test_keys_are_read_in_order_with_their_metadata(server: Etcd) -> None:
    reader = client([server.host], StoreOptions())
    answer = reader.ask(ALL_KEYS)
    assert list(zip(map(bytes.decode, answer.keys.names), answer.keys.values, strict=True)) == KEYS
    assert set(zip(*answer.keys[2:], strict=True)) == {(2, 2, 0, 1)}
    assert (answer.count, answer.has_more, answer.revision) == (20, False, server.revision())
    assert reader.operations == {"connect": 1, "range": 1, "keys_read": 20}
    reader.close()
    assert reader.ask(EtcdRangeRequest(b"/bk/", b"/bk0", 0, count_only=True)).count == 20
    reader.close()


def test_client_has_no_operation_that_writes(server: Etcd) -> None:
    reader = client([server.host], StoreOptions())
    before = server.revision()
    assert [name for name in dir(reader) if not name.startswith("_")] == [
        "ask", "close", "cluster_id", "expect_cluster", "log_index", "name", "operations", "receive_answer",
        "send_request", "version",
    ]  # fmt: skip
    reader.ask(ALL_KEYS)
    reader.log_index()
    reader.close()
    assert server.revision() == before


def test_log_index_grows_with_every_change(server: Etcd) -> None:
    reader = client([server.host], StoreOptions())
    before = reader.log_index()
    assert before >= server.revision()
    for number in range(3):
        server.load([("/bk/other", b"%d" % number)])
    assert reader.log_index() >= before + 3
    assert reader.operations == {"connect": 1, "status": 2}
    reader.close()


def test_log_index_of_an_unreachable_etcd_is_an_error() -> None:
    reader = client([f"127.0.0.1:{free_port()}"], StoreOptions(timeout_s=5))
    with pytest.raises(StoreError, match="cannot reach etcd"):
        reader.log_index()
    reader.close()


def test_unreachable_endpoint_is_replaced_by_the_next(server: Etcd, waits: list[float]) -> None:
    dead = f"127.0.0.1:{free_port()}"
    reader = client([dead, server.host], StoreOptions(rate_limit=0), waits)
    assert reader.ask(ALL_KEYS).count == 20
    assert reader.ask(ALL_KEYS).count == 20
    assert (reader.operations["failover"], reader.operations["connect"]) == (1, 2)
    assert not waits
    reader.close()


def test_pending_requests_survive_the_loss_of_their_endpoint(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "etcd") as members:
        members[0].load(KEYS)
        reader = EtcdClient([member.host for member in members], StoreOptions(timeout_s=5))
        revision = reader.ask(ALL_KEYS).revision
        range_request = EtcdRangeRequest(b"/bk/", b"/bk0", revision)
        sent = [reader.send_request(range_request) for _ in range(2)]
        members[0].stop()
        sent += [reader.send_request(range_request) for _ in range(2)]
        assert [reader.receive_answer(pending).count for pending in sent] == [20] * 4
        assert reader.operations["failover"] >= 1
        reader.close()


def test_endpoints_of_two_clusters_are_an_error(server: Etcd, tmp_path: Path) -> None:
    with running(tmp_path / "other") as other_server:
        other_server.load(KEYS)
        reader = client([server.host, other_server.host], StoreOptions())
        reader.ask(ALL_KEYS)
        server.stop()
        with pytest.raises(StoreError, match="belong to several clusters"):
            reader.ask(ALL_KEYS)
        reader.close()


def test_client_waits_for_a_stopped_server_to_restart(server: Etcd) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        server.start().wait()

    reader = EtcdClient([server.host], StoreOptions(rate_limit=0), sleep=wait)
    revision = reader.ask(ALL_KEYS).revision
    server.stop()
    assert reader.ask(EtcdRangeRequest(b"/bk/", b"/bk0", revision)).count == 20
    assert waited == [0.5]
    reader.close()


def test_unreachable_hosts_are_an_error_after_three_rounds(waits: list[float]) -> None:
    hosts = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    reader = client(hosts, StoreOptions(timeout_s=2), waits)
    with pytest.raises(StoreError, match=f"cannot reach etcd at {hosts[0]},{hosts[1]}") as refused:
        reader.ask(ALL_KEYS)
    assert "check the hosts" in str(refused.value)
    assert waits == [0.5, 2.0]
    assert reader.operations["connect"] == 6


def test_silent_server_is_given_up_after_the_timeout(server: Etcd, waits: list[float]) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        reader = client([host], StoreOptions(timeout_s=0.3), waits)
        with pytest.raises(StoreError, match=r"no answer within 0\.3 s"):
            reader.ask(ALL_KEYS)
        reader.close()
        reader = client([host, server.host], StoreOptions(timeout_s=0.3), waits)
        assert reader.ask(ALL_KEYS).count == 20
        reader.close()


def test_user_reads_only_the_keys_of_its_role(server: Etcd, credentials: WriteFile) -> None:
    server.ctl("role", "add", "auditor")
    server.ctl("role", "grant-permission", "auditor", "read", "--prefix=true", "/bk/")
    server.ctl("user", "add", f"auditor:{SECRET}")
    server.ctl("user", "grant-role", "auditor", "auditor")
    server.enable_auth("root-of-all")

    options = StoreOptions(credentials=credentials(f'[etcd]\nuser = "auditor"\npassword = "{SECRET}"\n'))
    reader = client([server.host], options)
    assert reader.ask(ALL_KEYS).count == 20
    assert reader.ask(ALL_KEYS).count == 20
    assert reader.operations["authenticate"] == 1
    with pytest.raises(StoreError, match="not authorised to read /other/"):
        reader.ask(EtcdRangeRequest(b"/other/", b"/other0", 0))
    with pytest.raises(StoreError, match="not authorised to read /bj/"):
        reader.ask(EtcdRangeRequest(b"/bj/", b"/bk0", 0))  # more than the role may

    # A token that the server no longer takes is asked for again.
    server.ctl("user", "delete", "auditor")
    server.ctl("user", "add", f"auditor:{SECRET}")
    server.ctl("user", "grant-role", "auditor", "auditor")
    assert reader.ask(ALL_KEYS).count == 20
    assert (reader.operations["authenticate"], reader.operations["retry"]) == (2, 1)
    assert SECRET not in f"{reader.__dict__!r} {options!r}"
    reader.close()

    wrong = credentials('[etcd]\nuser = "auditor"\npassword = "wrong-horse"\n')
    reader = client([server.host], StoreOptions(credentials=wrong))
    with pytest.raises(StoreError, match="not authorised") as refused:
        reader.ask(ALL_KEYS)
    assert "wrong-horse" not in "".join(map(repr, (refused.value, refused.value.__cause__)))
    reader.close()

    reader = client([server.host], StoreOptions())
    with pytest.raises(StoreError, match="credentials file"):
        reader.ask(ALL_KEYS)
    reader.close()


def test_login_is_ignored_by_a_server_without_authentication(server: Etcd, credentials: WriteFile) -> None:
    path = credentials('[etcd]\nuser = "auditor"\npassword = "whatever"\n')
    reader = client([server.host], StoreOptions(credentials=path))
    assert reader.ask(ALL_KEYS).count == 20
    reader.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, made: Certificates) -> Iterator[Etcd]:
    with running(tmp_path_factory.mktemp("secured"), tls=made) as member:
        member.ctl("put", "/bk/one", "1")
        yield member


def test_client_certificate_is_accepted_by_a_server_that_requires_it(
    secured: Etcd, made: Certificates, credentials: WriteFile
) -> None:
    path = credentials(
        f'[etcd.tls]\nca = "{made.ca}"\ncertificate = "{made.client}"\nkey = "{made.client_key}"\n'
    )
    reader = client([secured.host], StoreOptions(credentials=path))
    assert reader.ask(ALL_KEYS).keys.values == [b"1"]
    reader.close()


def test_missing_tls_settings_are_reported_if_the_server_requires_tls(
    secured: Etcd, waits: list[float]
) -> None:
    reader = client([secured.host], StoreOptions(timeout_s=2), waits)
    expected = r"requires a client certificate; add ca, certificate and key to \[etcd\.tls\]"
    with pytest.raises(StoreError, match=expected):
        reader.ask(ALL_KEYS)


def test_server_certificate_of_an_unknown_authority_is_rejected(
    secured: Etcd, credentials: WriteFile, tmp_path: Path, waits: list[float]
) -> None:
    path = credentials(f'[etcd.tls]\nca = "{certificates(tmp_path / "others").ca}"\n')
    reader = client([secured.host], StoreOptions(timeout_s=2, credentials=path), waits)
    expected = r"certificate of the server is not accepted \(.*set ca in \[etcd\.tls\]"
    with pytest.raises(StoreError, match=expected):
        reader.ask(ALL_KEYS)


def test_missing_client_certificate_is_reported_if_the_server_requires_it(
    secured: Etcd, made: Certificates, credentials: WriteFile, waits: list[float]
) -> None:
    path = credentials(f'[etcd.tls]\nca = "{made.ca}"\n')
    reader = client([secured.host], StoreOptions(timeout_s=2, credentials=path), waits)
    expected = r"requires a client certificate; add certificate and key to \[etcd\.tls\]"
    with pytest.raises(StoreError, match=expected):
        reader.ask(ALL_KEYS)


def test_client_certificate_of_another_authority_is_named(
    secured: Etcd, made: Certificates, credentials: WriteFile, tmp_path: Path, waits: list[float]
) -> None:
    foreign = certificates(tmp_path / "others")
    path = credentials(
        f'[etcd.tls]\nca = "{made.ca}"\ncertificate = "{foreign.client}"\nkey = "{foreign.client_key}"\n'
    )
    reader = client([secured.host], StoreOptions(timeout_s=2, credentials=path), waits)
    with pytest.raises(StoreError, match=f"refuses the client certificate {foreign.client}"):
        reader.ask(ALL_KEYS)


def test_tls_section_for_a_server_without_tls_is_named(
    server: Etcd, made: Certificates, credentials: WriteFile, waits: list[float]
) -> None:
    path = credentials(f'[etcd.tls]\nca = "{made.ca}"\n')
    reader = client([server.host], StoreOptions(timeout_s=2, credentials=path), waits)
    with pytest.raises(StoreError, match=r"the server does not use TLS; remove \[etcd\.tls\]"):
        reader.ask(ALL_KEYS)


def test_unreadable_certificate_is_reported_with_its_path(credentials: WriteFile) -> None:
    path = credentials('[etcd.tls]\nca = "/proc/self/mem"\n')  # is there, and gives an error to its reader
    with pytest.raises(StoreError, match="cannot read /proc/self/mem, which the credentials file names"):
        client(["127.0.0.1:1"], StoreOptions(credentials=path)).ask(ALL_KEYS)


def test_rate_limit_applies_to_read_keys(server: Etcd) -> None:
    waits: list[float] = []
    reader = client([server.host], StoreOptions(rate_limit=10), waits)
    reader.ask(ALL_KEYS)
    reader.ask(ALL_KEYS)
    assert sum(waits) > 2
    reader.close()


def importers_of(package: str) -> set[str]:
    house = Path(auditor.__file__).parent
    return {
        str(path.relative_to(house))
        for path in house.rglob("*.py")
        for node in syntax_nodes(path)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        and ast.unparse(node).replace(",", " ").split()[1].split(".")[0] == package
    }


def test_only_client_modules_import_the_client_packages() -> None:
    client = "sources/metadata/etcd/client.py"
    assert importers_of("etcd3") == {client}
    oxia = {"sources/metadata/oxia/client.py", "sources/metadata/oxia/refusals.py"}
    assert importers_of("grpc") == {client, "sources/metadata/grpc_channel.py", *oxia}

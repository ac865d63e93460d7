"""Login to real ZooKeeper servers by digest, SASL and certificates; no secret is ever shown."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.security import make_acl, make_digest_acl

from auditor.errors import StoreError
from auditor.keys.ledger_tree import LayoutKind
from auditor.sources.metadata.store import StoreOptions, Tree
from auditor.sources.metadata.stores import choose_layout, open_store
from tests.servers.certificates import Certificates, certificates
from tests.servers.zookeeper import ZooKeeperProcess, free_ports, write, writer
from tests.servers.zookeeper_debian import debian_jars

SECRET = "hunter2-hunter2"
OPEN = {f"/bk/00/0000/L{n:04}": b"open" for n in range(20)}
CLOSED = {f"/bk/00/0001/L{n:04}": b"closed" for n in range(20)}
DIGEST = f'[zookeeper.digest]\nuser = "ann"\npassword = "{SECRET}"\n'
SASL = f'[zookeeper.sasl]\nmechanism = "DIGEST-MD5"\nuser = "ann"\npassword = "{SECRET}"\n'

WriteFile = Callable[[str], str]


@pytest.fixture
def named(tmp_path: Path) -> WriteFile:
    """Return a function that writes a credentials file with a text, and returns its path."""

    def write_credentials(text: str) -> str:
        path = tmp_path / "credentials.toml"
        path.touch(mode=0o600)
        path.write_text(text)
        return str(path)

    return write_credentials


def read(
    hosts: str, credentials: str | None, timeout_s: float = 10
) -> tuple[set[str], list[tuple[str, str]]]:
    """Return the paths of ledgers and the gaps, as the tasks of one audit read them."""
    options = StoreOptions(rate_limit=0, credentials=credentials, timeout_s=timeout_s)
    store = open_store(f"zk://{hosts}/bk", options)
    paths: set[str] = set()
    gaps: list[tuple[str, str]] = []
    try:
        for part in store.parts(Tree.LEDGERS, LayoutKind.HIERARCHICAL, 2):
            for batch in store.read(part):
                paths |= {path for path in batch.paths if "/L" in path}
                gaps += batch.gaps
    finally:
        store.close()
    return paths, gaps


@pytest.fixture(scope="module", params=["3.9", "3.8"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperProcess]:
    """Yield a server that knows ann by SASL; half of its ledgers are readable by ann alone."""
    directory = tmp_path_factory.mktemp("sasl")
    jaas = directory / "jaas.conf"
    jaas.write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="{SECRET}"; }};'
    )
    with ZooKeeperProcess(
        directory / "server",
        ["authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"],
        {"java.security.auth.login.config": str(jaas)},
        debian_jars() if request.param == "3.8" else None,
    ) as running:
        with writer(running.hosts) as client:
            write(client, OPEN | CLOSED)
            ann = [make_digest_acl("ann", SECRET, all=True), make_acl("sasl", "ann", all=True)]
            for path in ("/bk/00/0001", *CLOSED):
                client.set_acls(path, ann)
        yield running


@pytest.mark.parametrize("who", [DIGEST, SASL, DIGEST + SASL], ids=["digest", "sasl", "both"])
def test_authorised_user_reads_all_ledgers(server: ZooKeeperProcess, named: WriteFile, who: str) -> None:
    assert read(server.hosts, named(who)) == ({*OPEN, *CLOSED}, [])


def test_unauthorised_ledgers_are_a_gap(server: ZooKeeperProcess, named: WriteFile) -> None:
    stranger = named(DIGEST.replace("ann", "bob"))
    for credentials in (None, stranger):
        paths, gaps = read(server.hosts, credentials)
        assert paths == set(OPEN)
        ((path, reason),) = gaps
        assert path == "/bk/00/0001"
        assert "not authorised to read it" in reason


def test_wrong_sasl_password_is_an_error_within_seconds(
    server: ZooKeeperProcess, named: WriteFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    wrong = named(SASL.replace(SECRET, f"not-{SECRET}"))
    begin = time.monotonic()
    with pytest.raises(StoreError, match=rf"not authorised: .*{server.hosts} .*--credentials") as refused:
        read(server.hosts, wrong)
    assert time.monotonic() - begin < 15
    assert refused.value.exit_code == 4
    assert SECRET not in "".join(traceback.format_exception(refused.value)) + caplog.text


def test_no_log_at_any_level_shows_a_secret(
    server: ZooKeeperProcess, named: WriteFile, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    read(server.hosts, named(DIGEST + SASL))
    assert "auditor.sources.metadata.zookeeper.session" in {record.name for record in caplog.records}
    assert SECRET not in caplog.text
    assert not [record for record in caplog.records if SECRET in repr(record.__dict__)]


def test_unreadable_layout_is_an_error(server: ZooKeeperProcess, named: WriteFile) -> None:
    uri = f"zk://{server.hosts}/locked"
    with writer(server.hosts) as client:
        write(client, {"/locked/LAYOUT": b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1"})
        client.set_acls("/locked/LAYOUT", [make_digest_acl("ann", SECRET, all=True)])
    for credentials, is_readable in ((named(DIGEST), True), (None, False)):
        store = open_store(uri, StoreOptions(credentials=credentials))
        cluster = store.cluster()
        store.close()
        if is_readable:
            assert choose_layout(store, cluster)[0] is LayoutKind.FLAT
        else:
            with pytest.raises(StoreError, match=r"/locked/LAYOUT cannot be read: .*not authorised"):
                choose_layout(store, cluster)


def test_unreadable_root_is_an_error_that_names_the_option(server: ZooKeeperProcess) -> None:
    with writer(server.hosts) as client:
        client.create("/shut", b"", acl=[make_digest_acl("ann", SECRET, all=True)])
    store = open_store(f"zk://{server.hosts}/shut")
    with pytest.raises(StoreError, match=r"not authorised to read /shut .*--credentials"):
        store.cluster()
    store.close()


def test_gssapi_without_its_package_is_an_error_that_names_the_package(
    server: ZooKeeperProcess, named: WriteFile
) -> None:
    with pytest.raises(StoreError, match="GSSAPI needs the Python package kerberos"):
        read(server.hosts, named('[zookeeper.sasl]\nmechanism = "GSSAPI"'))


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("pem"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, pem: Certificates) -> Iterator[str]:
    """Yield the host:port of a TLS server that requires a client certificate."""
    (port,) = free_ports(1)
    lines = (
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"secureClientPort={port}",
        "secureClientPortAddress=127.0.0.1",
        f"ssl.keyStore.location={pem.server_store}",
        f"ssl.trustStore.location={pem.ca}",
        "ssl.clientAuth=need",
    )
    with ZooKeeperProcess(tmp_path_factory.mktemp("tls"), lines) as running:
        with writer(running.hosts) as client:
            write(client, OPEN)
        yield f"127.0.0.1:{port}"


def tls(pem: Certificates, *leave_out: str, **settings: str) -> str:
    keys = {"ca": f'"{pem.ca}"', "certificate": f'"{pem.client}"', "key": f'"{pem.client_key}"'} | settings
    lines = [f"{key} = {value}" for key, value in keys.items() if key not in leave_out]
    return "\n".join(["[zookeeper.tls]", *lines])


def test_client_certificate_is_accepted(secure: str, pem: Certificates, named: WriteFile) -> None:
    assert read(secure, named(tls(pem))) == (set(OPEN), [])
    assert read(secure, named(tls(pem, "ca", verify="false"))) == (set(OPEN), [])


def test_server_certificate_of_an_unknown_authority_is_rejected(
    secure: str, pem: Certificates, named: WriteFile
) -> None:
    with pytest.raises(
        StoreError, match=r"cannot connect to ZooKeeper .*certificate verify failed|CERTIFICATE"
    ):
        read(secure, named(tls(pem, "ca")), timeout_s=1)


def test_connection_without_certificate_or_tls_is_an_error(
    secure: str, pem: Certificates, named: WriteFile
) -> None:
    for credentials in (named(tls(pem, "certificate", "key")), None):
        with pytest.raises(StoreError, match=r"cannot connect to ZooKeeper .*whether they require TLS"):
            read(secure, credentials, timeout_s=1)


def test_key_password_is_never_asked_for_at_the_terminal(
    secure: str, pem: Certificates, named: WriteFile, tmp_path: Path
) -> None:
    import subprocess

    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", pem.client_key, "-out", locked, "-passout", f"pass:{SECRET}"],
        check=True,
        capture_output=True,
    )
    opened = tls(pem, "key") + f'\nkey = "{locked}"\nkey_password = "{SECRET}"'
    assert read(secure, named(opened)) == (set(OPEN), [])
    with pytest.raises(StoreError, match="cannot connect"):
        read(secure, named(tls(pem, "key") + f'\nkey = "{locked}"'), timeout_s=1)

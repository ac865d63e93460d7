"""``bkaudit ledger`` prints the same for a real ZooKeeper, for its files and for a dump of the same tree."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl

from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.sources.metadata.credentials import CREDENTIALS_VARIABLE
from tests.cli.test_doors import bkaudit
from tests.servers.zookeeper import ZooKeeperProcess, writer

DATA = Path(__file__).parents[1] / "data" / "interleaved-hier"
SECRET = "hunter2-hunter2"


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Yield the URIs of one tree: a dump, a server's files, and a running server."""
    work = tmp_path_factory.mktemp("ledger")
    dump = work / "metadata.jsonl"
    dump.write_bytes(gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes()))
    for copy in ("server", "files"):
        shutil.copytree(DATA / "zookeeper" / "version-2", work / copy / "version-2")
    with EmbeddedZooKeeper(work / "server") as server:
        yield (
            f"dump://{dump}",
            f"zk-snapshot://{work}/files/version-2",
            f"zk://{server.hosts}/ledgers",
        )


def ledger_output(*arguments: str) -> str:
    result = bkaudit("ledger", *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_show_prints_the_same_ledger_from_every_source(uris: tuple[str, ...]) -> None:
    shown = {ledger_output("show", "--metadata", uri, "--ledger-id", "28") for uri in uris}
    assert len(shown) == 1
    [output] = shown
    assert "127.0.101.1:3181" in output
    assert json.loads(output)["ctime"] > 0
    assert "golden" not in output  # the password of every ledger of this cluster


def test_list_prints_the_same_ledgers_from_every_source(uris: tuple[str, ...]) -> None:
    listed = [sorted(ledger_output("list", "--metadata", uri).splitlines()) for uri in uris]
    assert listed[0] == listed[1] == listed[2]
    assert len({json.loads(line)["ledger_id"] for line in listed[0]}) == 70


def test_missing_ledger_error_names_its_znode(uris: tuple[str, ...]) -> None:
    for uri in uris:
        result = bkaudit("ledger", "show", "--metadata", uri, "--ledger-id", "2100000000")
        assert result.exit_code == 2
        assert "has no ledger 2100000000 (no znode /ledgers/21/0000/L0000)" in result.stderr


def test_scope_without_ledgers_is_listed_as_empty(uris: tuple[str, ...]) -> None:
    for uri in uris:
        assert ledger_output("list", "--metadata", uri, "--ledger-scope-id", "1") == ""
        result = bkaudit("ledger", "show", "--metadata", uri, "--ledger-scope-id", "1", "--ledger-id", "28")
        assert (result.exit_code, result.stdout) == (2, "")
        path = "/ledgers/scopes/0000/0000/0000/0001/0000/0000/0000/L001c"
        assert f"has no ledger 28 in scope 1 (no znode {path})" in result.stderr


def test_missing_server_is_reported_as_unreachable() -> None:
    result = bkaudit("ledger", "list", "--metadata", "zk://127.0.0.1:1/ledgers")
    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.output


def test_zookeeper_user_in_a_credentials_file_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "server"
    shutil.copytree(DATA / "zookeeper" / "version-2", work / "version-2")
    file = tmp_path / "credentials.toml"
    file.touch(mode=0o600)
    file.write_text(f'[zookeeper.digest]\nuser = "ann"\npassword = "{SECRET}"\n')
    with ZooKeeperProcess(work) as server:
        with writer(server.hosts) as client:
            client.set_acls("/ledgers/00/0000/L0028", [make_digest_acl("ann", SECRET, all=True)])
        uri = f"zk://{server.hosts}/ledgers"
        show = ("ledger", "show", "--metadata", uri, "--ledger-id", "28")
        stranger, allowed = bkaudit(*show), bkaudit(*show, "--credentials", str(file))
        strange_list = bkaudit("ledger", "list", "--metadata", uri)
        allowed_list = bkaudit("ledger", "list", "--metadata", uri, "--credentials", str(file))
        monkeypatch.setenv(CREDENTIALS_VARIABLE, str(file))
        by_variable = bkaudit(*show)
    assert (stranger.exit_code, stranger.stdout) == (4, "")
    assert "/ledgers/00/0000/L0028 could not be read" in stranger.stderr
    assert allowed.exit_code == 0, allowed.output
    assert json.loads(allowed.stdout)["ledger_id"] == "28"
    assert by_variable.stdout == allowed.stdout
    assert (strange_list.exit_code, len(strange_list.stdout.splitlines())) == (3, 69)
    assert (allowed_list.exit_code, len(allowed_list.stdout.splitlines())) == (0, 70)
    assert SECRET not in "".join(
        outcome.output for outcome in (stranger, allowed, strange_list, allowed_list)
    )

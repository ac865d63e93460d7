"""``bkaudit ledger`` on etcd, running and saved: every scope, and the same words whatever keeps the keys."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from etcd3 import etcdrpc

from auditor.keys import etcd
from auditor.model.ledger_id import LedgerId
from auditor.sources.metadata.credentials import CREDENTIALS_VARIABLE
from tests.cli.test_doors import bkaudit
from tests.servers.etcd import Etcd, running
from tests.sources.etcd_saved import DATA, SCOPE, oracle, unpacked

V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\tbk1:3181\tbk2:3181\n9\tCLOSED"
SCOPED = [LedgerId(7, scope=1), LedgerId(-2, scope=1), LedgerId(-1, scope=-1)]
DAMAGED = LedgerId(8, scope=2)
ODD = (
    f"{SCOPE}/ledgers/0-0-2-0-9",  # scope 2, and not how the driver writes it
    f"{SCOPE}/ledgers/old",  # could be anything's
)
PASSWORD = "pass-9917"


def extra() -> list[tuple[str, bytes]]:
    """Keys that no released BookKeeper writes, below the corpus's scope."""
    good = [(f"{SCOPE}/{etcd.to_path(ledger)}", V1) for ledger in SCOPED]
    return [*good, (f"{SCOPE}/{etcd.to_path(DAMAGED)}", b"\xff"), *((path, b"") for path in ODD)]


def saved_lines(server: Etcd) -> str:
    """All keys of a server as a dump."""
    with grpc.insecure_channel(server.host) as channel:
        request = etcdrpc.RangeRequest(key=b"/", range_end=b"0")
        found = etcdrpc.KVStub(channel).Range(request).kvs
    return "".join(
        json.dumps(
            {
                "path": kv.key.decode(),
                "key": base64.b64encode(kv.key).decode(),
                "data": base64.b64encode(kv.value).decode(),
                "createRevision": kv.create_revision,
                "modRevision": kv.mod_revision,
                "version": kv.version,
                "lease": kv.lease,
            }
        )
        + "\n"
        for kv in found
    )


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The corpus and what `extra` adds, running, as a snapshot and as a dump."""
    work = tmp_path_factory.mktemp("ledgers")
    with running(work / "server", saved=True) as server:
        server.load(extra())
        server.ctl("snapshot", "save", str(work / "etcd.db"))
        (work / "etcd.jsonl").write_text(saved_lines(server))
        yield {
            "live": f"etcd://{server.host}{SCOPE}",
            "snapshot": f"etcd-snapshot://{work}/etcd.db?scope={SCOPE}",
            "dump": f"dump://{work}/etcd.jsonl?root={SCOPE}",
        }


STORES = pytest.mark.parametrize("kind", ["live", "snapshot", "dump"])


def corpus_ledgers() -> dict[str, Any]:
    """What Java said of the ledgers that it did not delete, by id."""
    return {id_: said for id_, said in oracle()["ledgers"].items() if "decoded" in said}


def listed(uri: str, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, ledgers, and what was said besides."""
    outcome = bkaudit("ledger", "list", "--metadata", uri, *more)
    return outcome.exit_code, [json.loads(line) for line in outcome.stdout.splitlines()], outcome.stderr


def is_of_corpus(shown: dict[str, Any], said: dict[str, Any]) -> bool:
    """Whether a ledger is as Java decoded it."""
    java, metadata = said["decoded"], shown["metadata"]
    return (
        shown["path"] == said["key"]
        and str(shown["version"]) == said["version"]
        and (shown["ctime"], shown["mtime"]) == (None, None)
        and metadata["ensemble_size"] == java["ensembleSize"]
        and metadata["last_entry_id"] == java["lastEntryId"]
        and metadata["has_password"] == java["hasPassword"]
    )


@pytest.mark.parametrize("kind", ["snapshot", "dump"])
def test_the_saved_corpus_is_listed_as_java_read_it(kind: str, tmp_path: Path) -> None:
    name, parameter = ("etcd-snapshot.db", "scope") if kind == "snapshot" else ("metadata.jsonl", "root")
    scheme = "etcd-snapshot" if kind == "snapshot" else "dump"
    code, shown, said = listed(f"{scheme}://{unpacked(name, tmp_path)}?{parameter}={SCOPE}")
    java = corpus_ledgers()
    assert (code, said) == (0, "")
    assert {each["ledger_id"] for each in shown} == set(java)
    assert all(is_of_corpus(each, java[each["ledger_id"]]) for each in shown)


@STORES
def test_a_listing_is_of_scope_0_unless_another_is_named(kind: str, uris: dict[str, str]) -> None:
    code, shown, said = listed(uris[kind])
    java = corpus_ledgers()
    assert {(each["scope_id"], each["ledger_id"]) for each in shown} == {("0", id_) for id_ in java}
    assert all(is_of_corpus(each, java[each["ledger_id"]]) for each in shown)
    assert code == 3  # a key that cannot be read could be of any scope
    assert ODD[1] in said
    assert ODD[0] not in said


@STORES
@pytest.mark.parametrize("scope", [1, -1, 2, 3])
def test_a_listing_is_of_the_scope_that_is_named(kind: str, scope: int, uris: dict[str, str]) -> None:
    code, shown, said = listed(uris[kind], "--ledger-scope-id", str(scope))
    held = {(str(one.scope), str(one.id)) for one in (*SCOPED, DAMAGED) if one.scope == scope}
    assert {(each["scope_id"], each["ledger_id"]) for each in shown} == held
    assert [each["metadata"] is None for each in shown] == [scope == DAMAGED.scope] * len(held)
    assert (code, ODD[1] in said, ODD[0] in said) == (3, True, scope == 2)


@STORES
@pytest.mark.parametrize("ledger", SCOPED, ids=lambda ledger: ledger.qualified_name)
def test_a_ledger_of_any_scope_is_shown_by_any_of_its_names(
    kind: str, ledger: LedgerId, uris: dict[str, str]
) -> None:
    by_numbers = ("--ledger-id", str(ledger.id), "--ledger-scope-id", str(ledger.scope))
    said = []
    for name in (by_numbers, ("--ledger-qualified-name", ledger.qualified_name)):
        outcome = bkaudit("ledger", "show", "--metadata", uris[kind], *name)
        assert outcome.exit_code == 0, outcome.output
        said.append(json.loads(outcome.stdout))
    assert said[0] == said[1]
    assert said[0]["path"] == f"{SCOPE}/{etcd.to_path(ledger)}"
    assert (said[0]["scope_id"], said[0]["ledger_id"]) == (str(ledger.scope), str(ledger.id))
    assert (said[0]["ctime"], said[0]["mtime"]) == (None, None)
    assert said[0]["metadata"]["last_entry_id"] == 9


def test_every_store_says_the_same_of_a_ledger_and_no_password(uris: dict[str, str]) -> None:
    outcomes = [bkaudit("ledger", "show", "--metadata", uri, "--ledger-id", "7") for uri in uris.values()]
    assert len({outcome.stdout for outcome in outcomes}) == 1
    assert is_of_corpus(json.loads(outcomes[0].stdout), corpus_ledgers()["7"])
    assert json.loads(outcomes[0].stdout)["metadata"]["has_password"] is True
    for password in ("golden", "Z29sZGVu", "676f6c64656e"):  # that of every ledger of the corpus
        assert password not in outcomes[0].output


@STORES
def test_a_ledger_that_is_not_there_has_no_key(kind: str, uris: dict[str, str]) -> None:
    name = ("--ledger-id", "1001", "--ledger-scope-id", "1")  # scope 0 has one
    outcome = bkaudit("ledger", "show", "--metadata", uris[kind], *name)
    assert outcome.exit_code == 2
    key = f"{SCOPE}/{etcd.to_path(LedgerId(1001, scope=1))}"
    assert f"has no ledger 1001 in scope 1 (no key {key})" in outcome.stderr


def test_damage_is_said_and_shown(uris: dict[str, str]) -> None:
    name = ("--ledger-qualified-name", DAMAGED.qualified_name)
    for uri in uris.values():
        shown = json.loads(bkaudit("ledger", "show", "--metadata", uri, *name).stdout)
        assert shown["metadata"] is None
        assert "(at byte 0)" in shown["damage"]


def test_a_running_etcd_is_asked_for_one_ledger_only(tmp_path: Path) -> None:
    from auditor.sources.metadata.etcd import live as etcd_live
    from auditor.sources.metadata.ledgers import find_ledger

    stores: list[etcd_live.EtcdStore] = []
    with running(tmp_path / "server", saved=True) as server, pytest.MonkeyPatch.context() as patched:
        opened = etcd_live.EtcdStore.__init__

        def kept(store: etcd_live.EtcdStore, *arguments: Any) -> None:
            opened(store, *arguments)
            stores.append(store)

        patched.setattr(etcd_live.EtcdStore, "__init__", kept)
        server.load((f"{SCOPE}/{etcd.to_path(LedgerId(n, scope=5))}", V1) for n in range(1000))
        find_ledger(f"etcd://{server.host}{SCOPE}", LedgerId(7, scope=5))
    assert stores[0].operations()["keys_read"] < 100  # the cluster's own, and one


def test_a_key_that_a_cut_dump_may_have_held_is_not_said_to_be_gone(tmp_path: Path) -> None:
    whole = gzip.decompress((DATA / "metadata.jsonl.gz").read_bytes())
    last = f"{SCOPE}/{etcd.to_path(LedgerId(2**63 - 1))}".encode()
    (tmp_path / "cut.jsonl").write_bytes(whole[: whole.index(last) + 20])
    uri = f"dump://{tmp_path}/cut.jsonl?root={SCOPE}"
    outcome = bkaudit("ledger", "show", "--metadata", uri, "--ledger-id", str(2**63 - 1))
    assert outcome.exit_code == 4
    assert "could not be read: line at byte" in outcome.stderr
    assert bkaudit("ledger", "show", "--metadata", uri, "--ledger-id", "7").exit_code == 0


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An etcd in which auditor may read below the corpus's scope, and nobody else."""
    with running(tmp_path_factory.mktemp("locked"), saved=True) as server:
        server.ctl("role", "add", "auditor")
        server.ctl("role", "grant-permission", "auditor", "read", "--prefix=true", f"{SCOPE}/")
        server.ctl("user", "add", f"auditor:{PASSWORD}")
        server.ctl("user", "grant-role", "auditor", "auditor")
        server.enable_auth("root-of-all")
        yield f"etcd://{server.host}{SCOPE}"


def credentials(folder: Path, password: str) -> str:
    file = folder / "credentials.toml"
    file.touch(0o600)
    file.write_text(f'[etcd]\nuser = "auditor"\npassword = "{password}"\n', "utf-8")
    return str(file)


def test_who_is_named_in_a_credentials_file_may_read(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = ("ledger", "show", "--metadata", locked, "--ledger-id", "7")
    file = credentials(tmp_path, PASSWORD)
    assert bkaudit(*show).exit_code == 4
    by_option = bkaudit(*show, "--credentials", file)
    assert by_option.exit_code == 0, by_option.output
    assert len(listed(locked, "--credentials", file)[1]) == len(corpus_ledgers())
    monkeypatch.setenv(CREDENTIALS_VARIABLE, file)
    by_variable = bkaudit(*show)
    assert by_variable.stdout == by_option.stdout
    assert PASSWORD not in by_option.output + by_variable.output


def test_a_wrong_password_is_refused_and_not_repeated(locked: str, tmp_path: Path) -> None:
    file = credentials(tmp_path, f"not-{PASSWORD}")
    outcome = bkaudit("ledger", "list", "--metadata", locked, "--credentials", file)
    assert outcome.exit_code == 4
    assert "not authorised" in outcome.stderr
    assert PASSWORD not in outcome.output


def test_a_credentials_file_that_is_not_there_is_usage(locked: str, tmp_path: Path) -> None:
    outcome = bkaudit("ledger", "list", "--metadata", locked, "--credentials", str(tmp_path / "none.toml"))
    assert outcome.exit_code == 2
    assert "none.toml" in outcome.stderr

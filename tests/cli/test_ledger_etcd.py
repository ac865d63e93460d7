"""``bkaudit ledger`` on etcd, running and saved: every scope, and the same output for every store."""

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
from tests.sources.etcd_saved import DATA, SCOPE, oracle, unpack_file

V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\tbk1:3181\tbk2:3181\n9\tCLOSED"
SCOPED = [LedgerId(7, scope=1), LedgerId(-2, scope=1), LedgerId(-1, scope=-1)]
DAMAGED = LedgerId(8, scope=2)
ODD = (
    f"{SCOPE}/ledgers/0-0-2-0-9",  # scope 2, and not how the driver writes it
    f"{SCOPE}/ledgers/old",  # could be anything's
)
PASSWORD = "pass-9917"


def extra_keys() -> list[tuple[str, bytes]]:
    """Return keys below the corpus's scope that no released BookKeeper writes."""
    good = [(f"{SCOPE}/{etcd.to_path(ledger)}", V1) for ledger in SCOPED]
    return [*good, (f"{SCOPE}/{etcd.to_path(DAMAGED)}", b"\xff"), *((path, b"") for path in ODD)]


def saved_lines(server: Etcd) -> str:
    """Return all keys of a server as a dump."""
    with grpc.insecure_channel(server.host) as channel:
        request = etcdrpc.RangeRequest(key=b"/", range_end=b"0")
        key_values = etcdrpc.KVStub(channel).Range(request).kvs
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
        for kv in key_values
    )


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the URIs of the corpus with `extra_keys`: a running server, a snapshot and a dump."""
    work = tmp_path_factory.mktemp("ledgers")
    with running(work / "server", saved=True) as server:
        server.load(extra_keys())
        server.ctl("snapshot", "save", str(work / "etcd.db"))
        (work / "etcd.jsonl").write_text(saved_lines(server))
        yield {
            "live": f"etcd://{server.host}{SCOPE}",
            "snapshot": f"etcd-snapshot://{work}/etcd.db?scope={SCOPE}",
            "dump": f"dump://{work}/etcd.jsonl?root={SCOPE}",
        }


STORES = pytest.mark.parametrize("kind", ["live", "snapshot", "dump"])


def corpus_ledgers() -> dict[str, Any]:
    """Return Java's results for the ledgers that it did not delete, by id."""
    return {id_: answer for id_, answer in oracle()["ledgers"].items() if "decoded" in answer}


def list_ledgers(uri: str, *options: str) -> tuple[int, list[dict[str, Any]], str]:
    """Return the exit code, the ledgers and the standard error of a listing."""
    outcome = bkaudit("ledger", "list", "--metadata", uri, *options)
    return outcome.exit_code, [json.loads(line) for line in outcome.stdout.splitlines()], outcome.stderr


def is_of_corpus(shown: dict[str, Any], answer: dict[str, Any]) -> bool:
    """Return whether a ledger is shown as Java decoded it."""
    java, metadata = answer["decoded"], shown["metadata"]
    return (
        shown["path"] == answer["key"]
        and str(shown["version"]) == answer["version"]
        and (shown["ctime"], shown["mtime"]) == (None, None)
        and metadata["ensemble_size"] == java["ensembleSize"]
        and metadata["last_entry_id"] == java["lastEntryId"]
        and metadata["has_password"] == java["hasPassword"]
    )


@pytest.mark.parametrize("kind", ["snapshot", "dump"])
def test_the_saved_corpus_is_listed_as_java_read_it(kind: str, tmp_path: Path) -> None:
    name, parameter = ("etcd-snapshot.db", "scope") if kind == "snapshot" else ("metadata.jsonl", "root")
    scheme = "etcd-snapshot" if kind == "snapshot" else "dump"
    code, shown, errors = list_ledgers(f"{scheme}://{unpack_file(name, tmp_path)}?{parameter}={SCOPE}")
    java = corpus_ledgers()
    assert (code, errors) == (0, "")
    assert {row["ledger_id"] for row in shown} == set(java)
    assert all(is_of_corpus(row, java[row["ledger_id"]]) for row in shown)


@STORES
def test_listing_has_scope_0_unless_another_scope_is_named(kind: str, uris: dict[str, str]) -> None:
    code, shown, errors = list_ledgers(uris[kind])
    java = corpus_ledgers()
    assert {(row["scope_id"], row["ledger_id"]) for row in shown} == {("0", id_) for id_ in java}
    assert all(is_of_corpus(row, java[row["ledger_id"]]) for row in shown)
    assert code == 3  # a key that cannot be read could be of any scope
    assert ODD[1] in errors
    assert ODD[0] not in errors


@STORES
@pytest.mark.parametrize("scope", [1, -1, 2, 3])
def test_listing_has_only_the_named_scope(kind: str, scope: int, uris: dict[str, str]) -> None:
    code, shown, errors = list_ledgers(uris[kind], "--ledger-scope-id", str(scope))
    expected = {(str(ledger.scope), str(ledger.id)) for ledger in (*SCOPED, DAMAGED) if ledger.scope == scope}
    assert {(row["scope_id"], row["ledger_id"]) for row in shown} == expected
    assert [row["metadata"] is None for row in shown] == [scope == DAMAGED.scope] * len(expected)
    assert (code, ODD[1] in errors, ODD[0] in errors) == (3, True, scope == 2)


@STORES
@pytest.mark.parametrize("ledger", SCOPED, ids=lambda ledger: ledger.qualified_name)
def test_a_ledger_of_any_scope_is_shown_by_any_of_its_names(
    kind: str, ledger: LedgerId, uris: dict[str, str]
) -> None:
    by_numbers = ("--ledger-id", str(ledger.id), "--ledger-scope-id", str(ledger.scope))
    outputs = []
    for name in (by_numbers, ("--ledger-qualified-name", ledger.qualified_name)):
        outcome = bkaudit("ledger", "show", "--metadata", uris[kind], *name)
        assert outcome.exit_code == 0, outcome.output
        outputs.append(json.loads(outcome.stdout))
    assert outputs[0] == outputs[1]
    assert outputs[0]["path"] == f"{SCOPE}/{etcd.to_path(ledger)}"
    assert (outputs[0]["scope_id"], outputs[0]["ledger_id"]) == (str(ledger.scope), str(ledger.id))
    assert (outputs[0]["ctime"], outputs[0]["mtime"]) == (None, None)
    assert outputs[0]["metadata"]["last_entry_id"] == 9


def test_every_store_shows_the_same_ledger_and_no_password(uris: dict[str, str]) -> None:
    outcomes = [bkaudit("ledger", "show", "--metadata", uri, "--ledger-id", "7") for uri in uris.values()]
    assert len({outcome.stdout for outcome in outcomes}) == 1
    assert is_of_corpus(json.loads(outcomes[0].stdout), corpus_ledgers()["7"])
    assert json.loads(outcomes[0].stdout)["metadata"]["has_password"] is True
    for password in ("golden", "Z29sZGVu", "676f6c64656e"):  # that of every ledger of the corpus
        assert password not in outcomes[0].output


@STORES
def test_missing_ledger_error_names_its_key(kind: str, uris: dict[str, str]) -> None:
    name = ("--ledger-id", "1001", "--ledger-scope-id", "1")  # scope 0 has one
    outcome = bkaudit("ledger", "show", "--metadata", uris[kind], *name)
    assert outcome.exit_code == 2
    key = f"{SCOPE}/{etcd.to_path(LedgerId(1001, scope=1))}"
    assert f"has no ledger 1001 in scope 1 (no key {key})" in outcome.stderr


def test_damage_of_a_ledger_is_shown(uris: dict[str, str]) -> None:
    name = ("--ledger-qualified-name", DAMAGED.qualified_name)
    for uri in uris.values():
        shown = json.loads(bkaudit("ledger", "show", "--metadata", uri, *name).stdout)
        assert shown["metadata"] is None
        assert "(at byte 0)" in shown["damage"]


def test_live_etcd_is_read_for_one_ledger_only(tmp_path: Path) -> None:
    from auditor.sources.metadata.etcd import live as etcd_live
    from auditor.sources.metadata.ledgers import find_ledger

    stores: list[etcd_live.EtcdStore] = []
    with running(tmp_path / "server", saved=True) as server, pytest.MonkeyPatch.context() as patched:
        opened = etcd_live.EtcdStore.__init__

        def recorded_init(store: etcd_live.EtcdStore, *arguments: Any) -> None:
            opened(store, *arguments)
            stores.append(store)

        patched.setattr(etcd_live.EtcdStore, "__init__", recorded_init)
        server.load((f"{SCOPE}/{etcd.to_path(LedgerId(n, scope=5))}", V1) for n in range(1000))
        find_ledger(f"etcd://{server.host}{SCOPE}", LedgerId(7, scope=5))
    assert stores[0].operations()["keys_read"] < 100  # the cluster's own, and one


def test_ledger_cut_off_from_a_dump_is_a_read_error_and_not_missing(tmp_path: Path) -> None:
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
    """Yield the URI of an etcd in which only the user auditor may read below the corpus's scope."""
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


def test_etcd_user_in_a_credentials_file_may_read(
    locked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = ("ledger", "show", "--metadata", locked, "--ledger-id", "7")
    file = credentials(tmp_path, PASSWORD)
    assert bkaudit(*show).exit_code == 4
    by_option = bkaudit(*show, "--credentials", file)
    assert by_option.exit_code == 0, by_option.output
    assert len(list_ledgers(locked, "--credentials", file)[1]) == len(corpus_ledgers())
    monkeypatch.setenv(CREDENTIALS_VARIABLE, file)
    by_variable = bkaudit(*show)
    assert by_variable.stdout == by_option.stdout
    assert PASSWORD not in by_option.output + by_variable.output


def test_wrong_password_is_refused_and_not_printed(locked: str, tmp_path: Path) -> None:
    file = credentials(tmp_path, f"not-{PASSWORD}")
    outcome = bkaudit("ledger", "list", "--metadata", locked, "--credentials", file)
    assert outcome.exit_code == 4
    assert "not authorised" in outcome.stderr
    assert PASSWORD not in outcome.output


def test_missing_credentials_file_is_wrong_usage(locked: str, tmp_path: Path) -> None:
    outcome = bkaudit("ledger", "list", "--metadata", locked, "--credentials", str(tmp_path / "none.toml"))
    assert outcome.exit_code == 2
    assert "none.toml" in outcome.stderr

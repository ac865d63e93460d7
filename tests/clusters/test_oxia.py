"""Real bookies whose metadata is in a real Oxia with TLS and tokens, with Pulsar's driver.

The commands of docs/secured.md read, dump, compare and audit it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from auditor.cli import main
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarManagedLedgerInfo
from auditor.keys.ledger_tree import LayoutKind
from auditor.notebook.run import open_run
from auditor.sources.metadata.ledgers import StoredLedger, list_ledgers
from auditor.sources.metadata.store import StoreOptions
from auditor.sources.metadata.stores import choose_layout, open_store
from tests.corpora.audited import FinishedRun
from tests.live.test_secrets import file_content
from tests.servers.bookies.driver import Bookies
from tests.servers.oxia import Oxia
from tests.servers.secured_oxia import SecuredOxia, running_secured
from tests.test_document_commands import blocks

LONG = 2**31
"""From here on ids lie in the tree of long ones."""
WHOLE = (LONG - 1, LONG, LONG + 1)
LACKING, DELETED = 77, 78
LEDGERS = {*WHOLE, LACKING}
TOPIC = "public/default/persistent/orders"
SECTION = "## Oxia with TLS and tokens\n"
RUN_COMMANDS = """
import json, sys
from click.testing import CliRunner
from auditor.cli import main
done = [CliRunner().invoke(main, words, prog_name="bkaudit") for words in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.output] for result in done]))
"""
EXIT_CODES = {"doctor": 0, "audit": 1, "ledger list": 0, "ledger show": 0, "dump": 0, "compare": 0}
PAGE = Path(__file__).parents[2] / "docs" / "secured.md"


class OxiaCluster(NamedTuple):
    """A cluster of three bookies. The third lacks entries 5 to 8 of one ledger.

    In the brokers' namespace a topic names all ledgers and one that was deleted.
    """

    secured: SecuredOxia
    bookies: Bookies

    @property
    def oxia(self) -> Oxia:
        return self.secured.oxia

    @property
    def options(self) -> StoreOptions:
        return StoreOptions(rate_limit=0, credentials=str(self.secured.folder / "auditor.toml"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxiaCluster]:
    root = tmp_path_factory.mktemp("oxia")
    namespaces = {"bookkeeper": {"initialShardCount": 2}, "broker": {}}
    with (
        running_secured(root / "oxia", namespaces) as secured,
        Bookies(
            secured.bookies_uri,
            root,
            "InterleavedLedgerStorage",
            (None, None, None),
            java_options=secured.java_options(),
        ) as bookies,
    ):
        for ledger in WHOLE:
            bookies.write(ledger, bookies.ids, 3, 2, 5)
        bookies.record(LACKING, bookies.ids, 3, 2, 8)
        for bookie, entries in zip(bookies.ids, (9, 9, 5), strict=True):
            bookies.add(LACKING, bookie, range(entries))
        bookies.flush()
        topic = PulsarManagedLedgerInfo()
        for ledger in (LACKING, DELETED, *WHOLE):
            topic.ledgerInfo.add(ledgerId=ledger, entries=5, size=60)
        secured.in_namespace("broker").load([(f"/managed-ledgers/{TOPIC}", topic.SerializeToString())])
        yield OxiaCluster(secured, bookies)


@pytest.fixture
def place(cluster: OxiaCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the files that the page names, and set the environment that it exports."""
    folder = cluster.secured.folder
    for name, file in (("ca", "ca.pem"), ("client", "auditor.pem"), ("client_key", "auditor.key")):
        shutil.copy(getattr(cluster.secured.files, name), folder / file)
    (folder / "token").write_text(f"{cluster.secured.token}\n")
    (folder / "auditor.toml").write_text("\n".join(block("toml")))
    (folder / "auditor.toml").chmod(0o600)
    for line in block("console example"):
        if line.startswith("export "):
            name = re.split("[ =]", line)[1]
            result = subprocess.run(
                ["sh", "-c", f'{line}; printf %s "${name}"'],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            )
            monkeypatch.setenv(name, result.stdout)
    assert os.environ["BKAUDIT_CREDENTIALS"] == "auditor.toml"
    monkeypatch.chdir(folder)
    return folder


def block(info: str) -> list[str]:
    """Return the lines of a block in the page's section."""
    section = PAGE.read_text("utf-8").partition(SECTION)[2].partition("\n## ")[0]
    [lines] = [lines for fence, lines in blocks(section) if fence == info]
    return lines


def page_commands(cluster: OxiaCluster, place: Path) -> dict[str, list[str]]:
    """Return the words of each command on the page, with the page's places replaced by the cluster's."""
    places = {
        "oxia1:6648": cluster.oxia.host,
        "/mnt/bookies": str(cluster.bookies.directory),
        "$PWD": str(place),
    }
    commands = {}
    for line in block("console example"):
        if line.startswith("bkaudit "):
            for written, real in places.items():
                line = line.replace(written, real)
            words = shlex.split(line)[1:]
            commands[" ".join(words[:2] if words[0] == "ledger" else words[:1])] = words
    return commands


def test_documented_commands_audit_oxia_with_a_certificate_and_a_token(
    cluster: OxiaCluster, place: Path
) -> None:
    before = cluster.oxia.offsets()
    commands = page_commands(cluster, place)
    commands["audit"] += ["--grace", "0"]  # all was flushed after the metadata was written
    # Spark's tasks have the environment in which Spark started: a process of its own.
    program = [sys.executable, "-c", RUN_COMMANDS, json.dumps([*commands.values()])]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=600)
    results = dict(zip(commands, json.loads(done.stdout), strict=True))
    texts = {name: text for name, (_, text) in results.items()}
    doctor = " ".join(texts["doctor"].split())
    assert {name: code for name, (code, _) in results.items()} == EXIT_CODES, texts
    assert "auditor.toml: a token, TLS" in doctor
    assert f"{cluster.oxia.host} answers" in doctor
    assert {int(json.loads(line)["ledger_id"]) for line in texts["ledger list"].splitlines()} == LEDGERS
    assert json.loads(texts["ledger show"])["ledger_id"] == str(LACKING)
    assert "SAME: the copy has exactly the same contents as the source" in texts["compare"]
    audited = FinishedRun(open_run(place / "run").report, place / "run")
    [lacking] = audited.findings_of("below-write-quorum")
    assert (lacking["ledger_id"], lacking["confidence"]) == (LACKING, "confirmed")
    assert json.loads(lacking["evidence"])["owner"]["topic"] == "orders"
    [dangling] = audited.findings_of("owner-dangling")
    assert dangling["ledger_id"] == DELETED
    assert {row["standing"] for row in audited.table("ownership")} == {"owned", "dangling"}
    assert {row["answer"] for row in audited.table("witness")} == {"served", "no-such-entry"}
    # Oxia's notifications told the second scan that nothing had changed.
    assert {row["reused"] for row in audited.table("ledgers_again")} == {True}
    assert cluster.oxia.offsets() == before
    secret = cluster.secured.token.encode()
    written = [path for path in (place / "run").rglob("*") if path.is_file()]
    assert not [path for path in [*written, place / "metadata.jsonl"] if secret in file_content(path)]
    assert not [name for name, text in texts.items() if cluster.secured.token in text]


@pytest.mark.parametrize(
    ("absent", "command", "words"),
    [
        ("token_env", "doctor", "Set token or token_env in the [oxia] section"),
        ("certificate|key", "audit", "requires a client certificate; add certificate and key to [oxia.tls]"),
    ],
)
def test_missing_token_or_certificate_is_refused_with_advice(
    cluster: OxiaCluster, place: Path, tmp_path: Path, absent: str, command: str, words: str
) -> None:
    lines = [line for line in block("toml") if not re.match(f"({absent}) ", line)]
    for name in ("ca.pem", "auditor.pem", "auditor.key"):
        shutil.copy(place / name, tmp_path / name)
    (tmp_path / "less.toml").write_text("\n".join(lines))
    (tmp_path / "less.toml").chmod(0o600)
    arguments = [*page_commands(cluster, place)[command], "--credentials", str(tmp_path / "less.toml")]
    arguments += ["--out", str(tmp_path / "run")] if command == "audit" else []
    done = CliRunner().invoke(main, arguments, prog_name="bkaudit")
    assert done.exit_code == 4, done.output
    assert words in " ".join(done.output.split())


def test_registrations_are_ephemeral_and_cookies_are_not(cluster: OxiaCluster, place: Path) -> None:
    with closing(open_store(cluster.oxia.uri, cluster.options)) as store:
        nodes = store.cluster()
        assert choose_layout(store, nodes)[0] is LayoutKind.HIERARCHICAL
    for bookie in cluster.bookies.ids:
        assert nodes.nodes[f"available/{bookie}"].ephemeral_owner > 0
        assert nodes.nodes[f"cookies/{bookie}"].ephemeral_owner == 0
    assert "INSTANCEID" in nodes.nodes


def test_bookies_own_uri_is_accepted_and_ledgers_of_both_trees_are_listed(
    cluster: OxiaCluster, place: Path
) -> None:
    assert "?configFilePath=" in cluster.secured.bookies_uri
    records = list_ledgers(cluster.secured.bookies_uri, 0, cluster.options)
    ledgers = [record for record in records if isinstance(record, StoredLedger)]
    assert {ledger.ledger.id for ledger in ledgers} == LEDGERS
    assert all(ledger.metadata is not None and ledger.damage is None for ledger in ledgers)

"""Real bookies with TLS, roles and logins, of the oldest and the newest release, asked and audited."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor import Audit
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.options import AuditOptions
from auditor.model.report import exit_code
from auditor.model.states import WitnessAnswer
from auditor.reports.doctor import AnswerLine, AnswerState
from auditor.sources.bookies.rpc import access
from auditor.sources.bookies.rpc import reads as bookie_reads
from auditor.sources.bookies.rpc.access import BookieAccess, read_access
from auditor.sources.bookies.rpc.client import MAX_FAILED_CONNECTIONS
from auditor.sources.bookies.rpc.connection import Codec
from auditor.sources.bookies.rpc.probe import ProbeOutcome, probe_bookies
from auditor.sources.bookies.rpc.reads import Entry, ReadClient, ReadRequest
from auditor.sources.metadata.store import StoreOptions
from tests.corpora.audited import Audited, missing
from tests.doctor.diagnosed import diagnosed
from tests.live.test_secrets import words_of
from tests.live.ways import without_journals
from tests.servers.bookies.driver import Bookies
from tests.servers.bookies.jars import RELEASES
from tests.servers.bookies.secured import PASSWORD, Kind, Security
from tests.servers.kerberos import Kdc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from auditor.codecs.bookie.wire import ReadAnswer

HEALTHY, THIN, LOST = 1, 2, 3
ENTRIES = 10
"""In each ledger. THIN lacks its entry 4 on the first and third bookie, LOST its last entry everywhere."""

SERVED, NO_ENTRY, NO_LEDGER = WitnessAnswer.SERVED, WitnessAnswer.NO_SUCH_ENTRY, WitnessAnswer.NO_SUCH_LEDGER
QUESTIONS = (Entry(HEALTHY, 0), Entry(HEALTHY, ENTRIES), Entry(99, 0))
KINDS = (Kind.TLS, Kind.ROLES, Kind.SASL, Kind.TLS_SASL)
SECURED = [(release, kind) for release in (RELEASES[0], RELEASES[-1]) for kind in KINDS]


@dataclass(frozen=True)
class Cluster:
    """Three bookies with the same ledgers and the same faults, whatever they want of their clients."""

    security: Security
    bookies: Bookies
    uri: str

    @property
    def kind(self) -> Kind:
        return self.security.kind


def started(root: Path, release: str, kind: Kind, kdc: Kdc | None = None) -> Iterator[Cluster]:
    security = Security(root / "security", kind, kdc)
    with EmbeddedZooKeeper(root / "zookeeper") as server:
        uri = f"zk+hierarchical://{server.hosts}/ledgers"
        with security.bookies(uri, root, release=release) as bookies:
            bookies.write(HEALTHY, bookies.ids, 3, 2, ENTRIES)
            for ledger, absent in (
                (THIN, {0: {4}, 2: {4}}),
                (LOST, {number: {ENTRIES - 1} for number in range(3)}),
            ):
                bookies.record(ledger, bookies.ids, 3, 2, ENTRIES - 1)
                for number, bookie in enumerate(bookies.ids):
                    bookies.add(ledger, bookie, set(range(ENTRIES)) - absent.get(number, set()))
            bookies.flush()
            yield Cluster(security, bookies, uri)


@pytest.fixture(scope="module", params=SECURED, ids=[f"{kind}-{release}" for release, kind in SECURED])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    release, kind = request.param
    yield from started(tmp_path_factory.mktemp(f"{kind}-{release}"), release, kind)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from started(tmp_path_factory.mktemp("plain"), RELEASES[-1], Kind.PLAIN)


@dataclass(frozen=True)
class Heard:
    answers: dict[Entry, WitnessAnswer]
    given_up: str | None
    refuses: bool
    connects: int


def ask(cluster: Cluster, credentials: str | None = None, timeout_s: float = 10.0) -> Heard:
    """Ask the first bookie the three questions, as one task of an audit does."""
    path = cluster.security.credentials(credentials)
    host, port = "127.0.0.1", cluster.bookies.ports[0]

    async def asked() -> Heard:
        client = ReadClient(host, port, StoreOptions(credentials=path, timeout_s=timeout_s))
        replies = await client.ask(deque(QUESTIONS))
        await client.close()
        answers = {reply.entry: reply.answer for reply in replies}
        return Heard(answers, client.give_up_reason, client.is_refused, client.operations["connect"])

    return asyncio.run(asked())


ALL = Heard(dict(zip(QUESTIONS, (SERVED, NO_ENTRY, NO_LEDGER), strict=True)), None, False, 1)


def test_an_auditor_with_the_right_credentials_is_served(cluster: Cluster) -> None:
    assert ask(cluster) == ALL


def test_protocol_2_is_served_after_the_same_login(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def only(self: ReadClient) -> tuple[Codec[Entry, ReadAnswer], ...]:
        return (ReadRequest(2),)

    monkeypatch.setattr(bookie_reads.ReadClient, "wire_protocols", only)
    assert ask(cluster) == ALL


def test_only_an_auth_provider_closes_a_bookie_to_plain_clients(cluster: Cluster) -> None:
    heard = ask(cluster, "")
    if cluster.kind is Kind.TLS:
        assert heard == ALL
    else:
        assert (heard.refuses, heard.connects) == (True, 1)
        assert heard.given_up == (
            "not authorised: the bookie requires authentication; add [bookies.sasl] or [bookies.tls] to the "
            "credentials file: EUA (502)"
        )


def test_a_tls_section_allows_no_plain_connection(cluster: Cluster) -> None:
    heard = ask(cluster, cluster.security.tls_section() if cluster.security.has_tls else TLS_ELSEWHERE)
    if cluster.security.has_tls and cluster.kind is not Kind.TLS_SASL:
        assert heard == ALL
    elif cluster.kind is Kind.TLS_SASL:
        assert "nor a client without a login. Compare" in str(heard.given_up)
    else:
        assert (heard.refuses, heard.connects) == (True, 1)
        assert "the bookie refuses TLS (EBADREQ (404) to START_TLS), and [bookies.tls]" in str(heard.given_up)


TLS_ELSEWHERE = "[bookies.tls]\n"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_versions_of_tls_are_spoken(
    cluster: Cluster, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    if not cluster.security.has_tls:
        assert ask(cluster) == ALL  # nothing about TLS is asked for
        return
    wanted = ssl.TLSVersion[version]
    make = access._tls_context
    spoken: list[str | None] = []

    def context(tls: Any) -> ssl.SSLContext:
        made = make(tls)
        made.minimum_version = made.maximum_version = wanted
        return made

    begin = access.start_tls

    async def start_tls(reader: Any, writer: Any, *more: Any) -> None:
        await begin(reader, writer, *more)
        spoken.append(writer.get_extra_info("ssl_object").version())

    monkeypatch.setattr(access, "_tls_context", context)
    monkeypatch.setattr(access, "start_tls", start_tls)
    assert ask(cluster) == ALL
    assert spoken == [version.replace("_", ".")]
    without = f'[bookies.tls]\nca = "{cluster.security.pem().ca}"\n'
    heard = ask(cluster, without)
    assert (heard.answers, heard.refuses) == ({}, True)
    # With TLS 1.3 the end of the connection can overtake the alert.
    assert heard.connects <= MAX_FAILED_CONNECTIONS
    assert heard.given_up == (
        "the bookie requires a client certificate; add certificate and key to [bookies.tls] of the "
        "credentials file"
    )


def test_tls_may_come_after_the_login(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    if cluster.kind is not Kind.TLS_SASL:
        assert ask(cluster) == ALL
        return
    order: list[str] = []

    async def the_other_way_around(
        reader: Any, writer: Any, where: str, host: str, version: int, timeout_s: float, who: BookieAccess
    ) -> None:
        await access.log_in(reader, writer, where, host, version, timeout_s, who)
        order.append("login")
        await access.start_tls(reader, writer, where, host, timeout_s, who)
        order.append("tls")

    monkeypatch.setattr("auditor.sources.bookies.rpc.connection.start_session", the_other_way_around)
    assert ask(cluster) == ALL
    assert order == ["login", "tls"]


def test_a_login_that_the_bookie_does_not_take_ends_in_time_after_one_attempt(cluster: Cluster) -> None:
    if not cluster.security.has_sasl:
        heard = ask(cluster, cluster.security.sasl_section())
        if cluster.kind is Kind.ROLES:
            assert heard.given_up == (
                "the bookie does not use SASL (EUA (502) to AUTH). If it authorises certificate roles, add a "
                "client certificate: [bookies.tls]"
            )
        else:
            assert heard == ALL  # it wants no login
        return
    for section in (
        cluster.security.sasl_section(password="wrong-wrong"),
        cluster.security.sasl_section(user="nobody"),
        cluster.security.sasl_section(user="stranger"),  # known, and not among saslJaasClientAllowedIds
    ):
        heard = ask(cluster, section, timeout_s=2)
        assert (heard.answers, heard.refuses, heard.connects) == ({}, True, 1)
        assert heard.given_up == (
            "the bookie rejects the login: no answer to AUTH within 2 s, and reads are refused; "
            "check user and password of [bookies.sasl] of the credentials file, and saslJaasClientAllowedIds "
            "of the bookie"
        )
        assert PASSWORD not in str(heard.given_up)


def test_a_certificate_without_an_authorised_role_is_refused_where_roles_count(cluster: Cluster) -> None:
    if not cluster.security.has_tls:
        assert ask(cluster) == ALL
        return
    certificate, key = cluster.security.client("other", "0:reader,auditor")  # only the first role counts
    section = cluster.security.tls_section(certificate=str(certificate), key=str(key))
    heard = ask(cluster, section)
    if cluster.kind is Kind.ROLES:
        assert (heard.refuses, heard.connects) == (True, 1)
        assert "the bookie accepts neither the role in the client certificate" in str(heard.given_up)
    elif cluster.kind is Kind.TLS:
        assert heard == ALL


def test_the_host_name_is_verified_on_request_and_the_authority_always(cluster: Cluster) -> None:
    if not cluster.security.has_tls:
        assert ask(cluster) == ALL
        return
    security = cluster.security
    login = security.sasl_section() if security.has_sasl else ""
    verified = security.tls_section().replace("\n", "\ncheck_hostname = true\n", 1)
    assert ask(cluster, verified + login) == ALL  # the certificate names 127.0.0.1
    heard = ask(cluster, security.tls_section(ca=str(security.client("auditor", "")[0])) + login)
    assert (heard.refuses, heard.connects) == (True, 1)
    assert "the certificate of the bookie is not accepted" in str(heard.given_up)
    unverified = security.tls_section(ca=str(security.client("auditor", "")[0])) + "verify = false\n"
    assert ask(cluster, unverified + login) == ALL


def inventory(cluster: Cluster, root: Path) -> Path:
    """The ledger directories of two bookies, without journals: what the witness says decides."""
    whole = without_journals(cluster.bookies.directory, root / "inventory.toml")
    parts = [
        part for part in whole.read_text().split("[bookies.") if part and cluster.bookies.ids[2] not in part
    ]
    whole.write_text("".join(f"[bookies.{part}" for part in parts))
    return whole


def audited(cluster: Cluster, spark: SparkSession, root: Path, credentials: str | None = None) -> Audited:
    """Two bookies by disk, and the third by what it lists."""
    root.mkdir()
    options = AuditOptions(grace=0, timeout=10, credentials=cluster.security.credentials(credentials))
    sources = [str(inventory(cluster, root)), "rpc:"]
    return Audited(Audit(cluster.uri, sources, str(root / "run"), options).run(spark), root / "run")


def without_ports(cluster: Cluster, run: Audited) -> list[tuple[Any, ...]]:
    """All findings, with bookies by their number."""
    number = {None: None} | {bookie: place for place, bookie in enumerate(cluster.bookies.ids)}
    return sorted(
        (
            (
                row["id"],
                row["severity"],
                row["confidence"],
                row["ledger_id"],
                number[row["bookie_id"]],
                {number[bookie]: sorted(entries) for bookie, entries in missing(row).items()},
            )
            for row in run.findings()
        ),
        key=repr,
    )


@pytest.fixture(scope="module")
def on_plain_bookies(
    plain: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[tuple[Any, ...]], int]:
    run = audited(plain, spark, tmp_path_factory.mktemp("audit") / "plain")
    return without_ports(plain, run), exit_code(run.report, AuditOptions().fail_on)


def test_an_audit_finds_what_it_finds_on_plain_bookies(
    cluster: Cluster,
    on_plain_bookies: tuple[list[tuple[Any, ...]], int],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    run = audited(cluster, spark, tmp_path / "audit")
    found = without_ports(cluster, run)
    assert (found, exit_code(run.report, AuditOptions().fail_on)) == on_plain_bookies
    of_ledgers = {(row[3], row[0], row[2]) for row in found if row[3] is not None}
    assert of_ledgers == {
        (THIN, "below-ack-quorum", "confirmed"),
        (LOST, "entry-lost", "confirmed"),
    }
    assert {row["answer"] for row in run.table("witness")} == {"served", "no-such-entry"}
    files = [path for path in run.out.rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in words_of(path)]


def test_an_audit_without_credentials_says_what_would_help(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    if cluster.kind is not Kind.SASL:
        return
    run = audited(cluster, spark, tmp_path / "audit", "")
    assert exit_code(run.report, AuditOptions().fail_on) == 3
    assert "confirmed" not in {row["confidence"] for row in run.findings() if row["ledger_id"] is not None}
    assert told(cluster, [str(tmp_path / "audit" / "inventory.toml"), "rpc:"], "")[1] == 3
    said = " ".join(str(row["reason"]) for row in run.table("bookies"))
    assert "add [bookies.sasl] or [bookies.tls] to the credentials file" in said


def told(
    cluster: Cluster, sources: list[str], credentials: str | None = None
) -> tuple[list[AnswerLine], int]:
    """What doctor says about asking bookies, and its exit code."""
    options = AuditOptions(credentials=cluster.security.credentials(credentials), timeout=10)
    diagnosis = diagnosed(cluster.uri, sources, None, options)
    if credentials != "":
        [store] = [line for line in diagnosis.lines if (line.topic, line.name) == ("store", "credentials")]
        assert store.state is AnswerState.OK  # a section for bookies is enough
    assert PASSWORD not in str(diagnosis.to_json())
    return [
        line for line in diagnosis.lines if line.name in ("access", "no access") and line.topic == "bookies"
    ], (diagnosis.exit_code)


WAYS_IN = {
    Kind.TLS: "over TLS",
    Kind.ROLES: "over TLS",
    Kind.SASL: (
        "without TLS, with a login by DIGEST-MD5: bookies return entries unencrypted; add [bookies.tls] to "
        "the credentials file to encrypt them"
    ),
    Kind.TLS_SASL: "over TLS, with a login by DIGEST-MD5",
}


def test_doctor_asks_as_an_audit_does(cluster: Cluster) -> None:
    for sources in (["rpc:"], [str(cluster.bookies.directory)]):
        [line], code = told(cluster, sources)
        assert line.said == f"3 of 3 registered bookies answered a read, {WAYS_IN[cluster.kind]}"
        assert (line.state, code) == (AnswerState.OK, 0)


WANTED = {
    Kind.ROLES: (
        "TLS and certificate required: the bookie requires TLS and a client certificate with one of its "
        "roles; add [bookies.tls] to the credentials file"
    ),
    Kind.SASL: (
        "login required: the bookie requires a login by SASL; add [bookies.sasl] to the credentials file"
    ),
}


def test_doctor_says_what_each_bookie_wants(cluster: Cluster) -> None:
    by_disk, by_rpc = (told(cluster, sources, "") for sources in ([str(cluster.bookies.directory)], ["rpc:"]))
    if cluster.kind is Kind.TLS:  # it serves plain clients too
        assert [by_disk[1], by_rpc[1]] == [0, 0]
        assert "without TLS: bookies return entries unencrypted" in by_rpc[0][0].said
        return
    wanted = WANTED[Kind.ROLES if cluster.kind is Kind.ROLES else Kind.SASL]
    for lines, code, exit_code_ in ((*by_disk, 0), (*by_rpc, 3)):
        assert lines[0].said.startswith("0 of 3 registered bookies answered a read")
        assert sorted(line.said for line in lines[1:]) == sorted(
            f"{bookie}: {wanted}" for bookie in cluster.bookies.ids
        )
        assert (code, {line.state for line in lines}) == (exit_code_, {AnswerState.WARN})


def test_doctor_names_a_login_that_is_not_taken_and_a_bookie_that_is_silent(cluster: Cluster) -> None:
    if not cluster.security.has_sasl:
        return
    lines, code = told(cluster, ["rpc:"], cluster.security.sasl_section(password="wrong-wrong"))
    assert code == 3
    assert "refused: the bookie rejects the login: no answer to AUTH within 5 s" in lines[1].said
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        found = probe_bookies({"mute": nobody.getsockname()}, read_access(None), 0.3)
    assert found["mute"].outcome is ProbeOutcome.SILENT
    assert found["mute"].reason == "no answer to a read within 0.3 s"

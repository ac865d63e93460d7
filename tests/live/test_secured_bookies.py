"""Real bookies with TLS, roles and logins, of the oldest and the newest release, queried and audited."""

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
from tests.corpora.audited import FinishedRun, missing
from tests.doctor.diagnosed import diagnose
from tests.live.test_secrets import file_content
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
    """Three bookies with the same ledgers and the same faults, whatever security they require of clients."""

    security: Security
    bookies: Bookies
    uri: str

    @property
    def kind(self) -> Kind:
        return self.security.kind


def start_cluster(root: Path, release: str, kind: Kind, kdc: Kdc | None = None) -> Iterator[Cluster]:
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
    yield from start_cluster(tmp_path_factory.mktemp(f"{kind}-{release}"), release, kind)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from start_cluster(tmp_path_factory.mktemp("plain"), RELEASES[-1], Kind.PLAIN)


@dataclass(frozen=True)
class ReadResult:
    answers: dict[Entry, WitnessAnswer]
    given_up: str | None
    refuses: bool
    connects: int


def ask(cluster: Cluster, credentials: str | None = None, timeout_s: float = 10.0) -> ReadResult:
    """Send the first bookie the three requests, as one task of an audit does."""
    path = cluster.security.credentials(credentials)
    host, port = "127.0.0.1", cluster.bookies.ports[0]

    async def ask_bookie() -> ReadResult:
        client = ReadClient(host, port, StoreOptions(credentials=path, timeout_s=timeout_s))
        replies = await client.ask(deque(QUESTIONS))
        await client.close()
        answers = {reply.entry: reply.answer for reply in replies}
        return ReadResult(answers, client.give_up_reason, client.refuses_all, client.operations["connect"])

    return asyncio.run(ask_bookie())


FULL_RESULT = ReadResult(dict(zip(QUESTIONS, (SERVED, NO_ENTRY, NO_LEDGER), strict=True)), None, False, 1)


def test_auditor_with_valid_credentials_is_served(cluster: Cluster) -> None:
    assert ask(cluster) == FULL_RESULT


def test_protocol_2_read_is_served_after_login(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def version_2_only(self: ReadClient) -> tuple[Codec[Entry, ReadAnswer], ...]:
        return (ReadRequest(2),)

    monkeypatch.setattr(bookie_reads.ReadClient, "wire_protocols", version_2_only)
    assert ask(cluster) == FULL_RESULT


def test_bookie_with_auth_provider_refuses_plain_clients(cluster: Cluster) -> None:
    result = ask(cluster, "")
    if cluster.kind is Kind.TLS:
        assert result == FULL_RESULT
    else:
        assert (result.refuses, result.connects) == (True, 1)
        assert result.given_up == (
            "not authorised: the bookie requires authentication; add [bookies.sasl] or [bookies.tls] to the "
            "credentials file: EUA (502)"
        )


def test_tls_section_never_falls_back_to_plain_connections(cluster: Cluster) -> None:
    result = ask(cluster, cluster.security.tls_section() if cluster.security.has_tls else EMPTY_TLS_SECTION)
    if cluster.security.has_tls and cluster.kind is not Kind.TLS_SASL:
        assert result == FULL_RESULT
    elif cluster.kind is Kind.TLS_SASL:
        assert "nor a client without a login. Compare" in str(result.given_up)
    else:
        assert (result.refuses, result.connects) == (True, 1)
        assert "the bookie refuses TLS (EBADREQ (404) to START_TLS), and [bookies.tls]" in str(
            result.given_up
        )


EMPTY_TLS_SECTION = "[bookies.tls]\n"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_tls_versions_are_supported(
    cluster: Cluster, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    if not cluster.security.has_tls:
        assert ask(cluster) == FULL_RESULT  # nothing about TLS is asked for
        return
    tls_version = ssl.TLSVersion[version]
    make = access._tls_context
    spoken: list[str | None] = []

    def context(tls: Any) -> ssl.SSLContext:
        ssl_context = make(tls)
        ssl_context.minimum_version = ssl_context.maximum_version = tls_version
        return ssl_context

    begin = access.start_tls

    async def start_tls(reader: Any, writer: Any, *arguments: Any) -> None:
        await begin(reader, writer, *arguments)
        spoken.append(writer.get_extra_info("ssl_object").version())

    monkeypatch.setattr(access, "_tls_context", context)
    monkeypatch.setattr(access, "start_tls", start_tls)
    assert ask(cluster) == FULL_RESULT
    assert spoken == [version.replace("_", ".")]
    without = f'[bookies.tls]\nca = "{cluster.security.pem().ca}"\n'
    result = ask(cluster, without)
    assert (result.answers, result.refuses) == ({}, True)
    # With TLS 1.3 the end of the connection can overtake the alert.
    assert result.connects <= MAX_FAILED_CONNECTIONS
    assert result.given_up == (
        "the bookie requires a client certificate; add certificate and key to [bookies.tls] of the "
        "credentials file"
    )


def test_tls_can_start_after_the_login(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    if cluster.kind is not Kind.TLS_SASL:
        assert ask(cluster) == FULL_RESULT
        return
    order: list[str] = []

    async def log_in_before_tls(
        reader: Any, writer: Any, where: str, host: str, version: int, timeout_s: float, who: BookieAccess
    ) -> None:
        await access.log_in(reader, writer, where, host, version, timeout_s, who)
        order.append("login")
        await access.start_tls(reader, writer, where, host, timeout_s, who)
        order.append("tls")

    monkeypatch.setattr("auditor.sources.bookies.rpc.connection.start_session", log_in_before_tls)
    assert ask(cluster) == FULL_RESULT
    assert order == ["login", "tls"]


def test_rejected_login_ends_after_one_attempt_within_the_timeout(cluster: Cluster) -> None:
    if not cluster.security.has_sasl:
        result = ask(cluster, cluster.security.sasl_section())
        if cluster.kind is Kind.ROLES:
            assert result.given_up == (
                "the bookie does not use SASL (EUA (502) to AUTH). If it authorises certificate roles, add a "
                "client certificate: [bookies.tls]"
            )
        else:
            assert result == FULL_RESULT  # it wants no login
        return
    for section in (
        cluster.security.sasl_section(password="wrong-wrong"),
        cluster.security.sasl_section(user="nobody"),
        cluster.security.sasl_section(user="stranger"),  # known, and not among saslJaasClientAllowedIds
    ):
        result = ask(cluster, section, timeout_s=2)
        assert (result.answers, result.refuses, result.connects) == ({}, True, 1)
        assert result.given_up == (
            "the bookie rejects the login: no answer to AUTH within 2 s, and reads are refused; "
            "check user and password of [bookies.sasl] of the credentials file, and saslJaasClientAllowedIds "
            "of the bookie"
        )
        assert PASSWORD not in str(result.given_up)


def test_bookie_with_roles_refuses_certificate_without_authorised_role(cluster: Cluster) -> None:
    if not cluster.security.has_tls:
        assert ask(cluster) == FULL_RESULT
        return
    certificate, key = cluster.security.client("other", "0:reader,auditor")  # only the first role counts
    section = cluster.security.tls_section(certificate=str(certificate), key=str(key))
    result = ask(cluster, section)
    if cluster.kind is Kind.ROLES:
        assert (result.refuses, result.connects) == (True, 1)
        assert "the bookie accepts neither the role in the client certificate" in str(result.given_up)
    elif cluster.kind is Kind.TLS:
        assert result == FULL_RESULT


def test_host_name_is_checked_on_request_and_ca_unless_disabled(cluster: Cluster) -> None:
    if not cluster.security.has_tls:
        assert ask(cluster) == FULL_RESULT
        return
    security = cluster.security
    login = security.sasl_section() if security.has_sasl else ""
    verified = security.tls_section().replace("\n", "\ncheck_hostname = true\n", 1)
    assert ask(cluster, verified + login) == FULL_RESULT  # the certificate names 127.0.0.1
    result = ask(cluster, security.tls_section(ca=str(security.client("auditor", "")[0])) + login)
    assert (result.refuses, result.connects) == (True, 1)
    assert "the certificate of the bookie is not accepted" in str(result.given_up)
    unverified = security.tls_section(ca=str(security.client("auditor", "")[0])) + "verify = false\n"
    assert ask(cluster, unverified + login) == FULL_RESULT


def inventory(cluster: Cluster, root: Path) -> Path:
    """Return an inventory of two bookies' ledger directories. Without journals, the witness decides."""
    whole = without_journals(cluster.bookies.directory, root / "inventory.toml")
    parts = [
        part for part in whole.read_text().split("[bookies.") if part and cluster.bookies.ids[2] not in part
    ]
    whole.write_text("".join(f"[bookies.{part}" for part in parts))
    return whole


def run_audit(
    cluster: Cluster, spark: SparkSession, root: Path, credentials: str | None = None
) -> FinishedRun:
    """Audit two bookies by disk, and the third by its own listings."""
    root.mkdir()
    options = AuditOptions(grace=0, timeout=10, credentials=cluster.security.credentials(credentials))
    sources = [str(inventory(cluster, root)), "rpc:"]
    return FinishedRun(Audit(cluster.uri, sources, str(root / "run"), options).run(spark), root / "run")


def without_ports(cluster: Cluster, run: FinishedRun) -> list[tuple[Any, ...]]:
    """Return all findings, with bookies by their number."""
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
    run = run_audit(plain, spark, tmp_path_factory.mktemp("audit") / "plain")
    return without_ports(plain, run), exit_code(run.report, AuditOptions().fail_on)


def test_audit_has_the_findings_of_plain_bookies(
    cluster: Cluster,
    on_plain_bookies: tuple[list[tuple[Any, ...]], int],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    run = run_audit(cluster, spark, tmp_path / "audit")
    findings = without_ports(cluster, run)
    assert (findings, exit_code(run.report, AuditOptions().fail_on)) == on_plain_bookies
    of_ledgers = {(row[3], row[0], row[2]) for row in findings if row[3] is not None}
    assert of_ledgers == {
        (THIN, "below-ack-quorum", "confirmed"),
        (LOST, "entry-lost", "confirmed"),
    }
    assert {row["answer"] for row in run.table("witness")} == {"served", "no-such-entry"}
    files = [path for path in run.out.rglob("*") if path.is_file()]
    assert not [path for path in files if PASSWORD.encode() in file_content(path)]


def test_audit_without_credentials_names_the_missing_sections(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    if cluster.kind is not Kind.SASL:
        return
    run = run_audit(cluster, spark, tmp_path / "audit", "")
    assert exit_code(run.report, AuditOptions().fail_on) == 3
    assert "confirmed" not in {row["confidence"] for row in run.findings() if row["ledger_id"] is not None}
    assert doctor_answers(cluster, [str(tmp_path / "audit" / "inventory.toml"), "rpc:"], "")[1] == 3
    reasons = " ".join(str(row["reason"]) for row in run.table("bookies"))
    assert "add [bookies.sasl] or [bookies.tls] to the credentials file" in reasons


def doctor_answers(
    cluster: Cluster, sources: list[str], credentials: str | None = None
) -> tuple[list[AnswerLine], int]:
    """Return doctor's answers about access to bookies, and its exit code."""
    options = AuditOptions(credentials=cluster.security.credentials(credentials), timeout=10)
    diagnosis = diagnose(cluster.uri, sources, None, options)
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


def test_doctor_reports_how_bookies_answered_a_read(cluster: Cluster) -> None:
    for sources in (["rpc:"], [str(cluster.bookies.directory)]):
        [line], code = doctor_answers(cluster, sources)
        assert line.said == f"3 of 3 registered bookies answered a read, {WAYS_IN[cluster.kind]}"
        assert (line.state, code) == (AnswerState.OK, 0)


REQUIREMENTS = {
    Kind.ROLES: (
        "TLS and certificate required: the bookie requires TLS and a client certificate with one of its "
        "roles; add [bookies.tls] to the credentials file"
    ),
    Kind.SASL: (
        "login required: the bookie requires a login by SASL; add [bookies.sasl] to the credentials file"
    ),
}


def test_doctor_reports_the_access_that_each_bookie_requires(cluster: Cluster) -> None:
    by_disk, by_rpc = (
        doctor_answers(cluster, sources, "") for sources in ([str(cluster.bookies.directory)], ["rpc:"])
    )
    if cluster.kind is Kind.TLS:  # it serves plain clients too
        assert [by_disk[1], by_rpc[1]] == [0, 0]
        assert "without TLS: bookies return entries unencrypted" in by_rpc[0][0].said
        return
    requirement = REQUIREMENTS[Kind.ROLES if cluster.kind is Kind.ROLES else Kind.SASL]
    for lines, code, exit_code_ in ((*by_disk, 0), (*by_rpc, 3)):
        assert lines[0].said.startswith("0 of 3 registered bookies answered a read")
        assert sorted(line.said for line in lines[1:]) == sorted(
            f"{bookie}: {requirement}" for bookie in cluster.bookies.ids
        )
        assert (code, {line.state for line in lines}) == (exit_code_, {AnswerState.WARN})


def test_doctor_names_rejected_login_and_probe_reports_silent_bookie(cluster: Cluster) -> None:
    if not cluster.security.has_sasl:
        return
    lines, code = doctor_answers(cluster, ["rpc:"], cluster.security.sasl_section(password="wrong-wrong"))
    assert code == 3
    assert "refused: the bookie rejects the login: no answer to AUTH within 5 s" in lines[1].said
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        probe_results = probe_bookies({"mute": nobody.getsockname()}, read_access(None), 0.3)
    assert probe_results["mute"].outcome is ProbeOutcome.SILENT
    assert probe_results["mute"].reason == "no answer to a read within 0.3 s"

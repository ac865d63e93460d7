"""Tests of failures at the start of a connection, with fake bookies.

`tests/live/test_secured_bookies.py` tests TLS, roles and logins with real bookies.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from auditor.codecs.bookie.wire import LENGTH
from auditor.codecs.protobuf.pb import bookie_wire_pb2 as pb
from auditor.errors import UsageError
from auditor.sources.bookies.rpc import access
from auditor.sources.bookies.rpc import client as bookie_client
from auditor.sources.bookies.rpc.access import AuthRequirement, find_requirement, read_access
from auditor.sources.bookies.rpc.reads import Entry, ReadClient, ReadReply
from auditor.sources.metadata.store import StoreOptions
from tests.codecs.bookie.test_handshake import answer
from tests.servers.certificates import certificates
from tests.sources.fake_bookie import read_frame

SECRET = "hunter2-hunter2"
SASL = f'[bookies.sasl]\nmechanism = "DIGEST-MD5"\nuser = "ann"\npassword = "{SECRET}"\n'
CHALLENGE = b'realm="bookkeeper",nonce="n0nce",charset=utf-8,algorithm=md5-sess'

Frames = list[bytes]
Bookie = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Frames], Awaitable[None]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie_client, "FIRST_PAUSE_S", 0.001)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "credentials.toml"
    path.touch(mode=0o600)
    return path


async def frame(reader: asyncio.StreamReader, frames: Frames) -> bytes:
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    frames.append(await reader.readexactly(length))
    return frames[-1]


def add_length(message: bytes) -> bytes:
    return LENGTH.pack(len(message)) + message


def read_one_entry(
    bookie: Bookie, path: Path, timeout_s: float = 0.3
) -> tuple[list[ReadReply], ReadClient, Frames]:
    """Read entry 0 of ledger 1 once. Return the replies, the client and all frames sent to the bookie."""
    frames: Frames = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await bookie(reader, writer, frames)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def ask() -> tuple[list[ReadReply], ReadClient]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = ReadClient("127.0.0.1", port, StoreOptions(credentials=str(path), timeout_s=timeout_s))
            replies = await client.ask(deque([Entry(1, 0)]))
            await client.close()
            return replies, client

    return *asyncio.run(ask()), frames


def operations(frames: Frames) -> list[int]:
    return [pb.ListRequest.FromString(message).header.operation for message in frames]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    while True:
        await frame(reader, frames)


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    await frame(reader, frames)


@pytest.mark.parametrize(
    ("bookie", "words"), [(silent, "no answer to START_TLS within 0.3 s"), (closing, "after START_TLS")]
)
def test_bookie_that_does_not_answer_start_tls_gets_no_other_request(
    bookie: Bookie, words: str, file: Path
) -> None:
    file.write_text("[bookies.tls]\n")
    replies, client, frames = read_one_entry(bookie, file)
    assert (replies, client.refuses_all) == ([], False)
    assert words in str(client.give_up_reason)
    assert set(operations(frames)) == {9}
    assert client.operations["connect"] == bookie_client.MAX_FAILED_CONNECTIONS


def test_silent_bookie_is_not_reported_as_rejecting_the_login(file: Path) -> None:
    file.write_text(SASL)
    replies, client, frames = read_one_entry(silent, file)
    assert (replies, client.refuses_all) == ([], False)
    assert "no answer to AUTH within 0.3 s" in str(client.give_up_reason)
    assert set(operations(frames)) == {5, 1}


def test_silence_to_auth_followed_by_a_refused_read_is_a_rejected_login(file: Path) -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
        await frame(reader, frames)
        writer.write(add_length(answer(5, 1, 0, "sasl", CHALLENGE)))
        await frame(reader, frames)  # the digest, and nothing is said to it
        await frame(reader, frames)
        writer.write(add_length(answer(1, 0, 502)))
        await silent(reader, writer, frames)

    file.write_text(SASL)
    replies, client, frames = read_one_entry(refusing, file)
    assert (replies, client.refuses_all, client.operations["connect"]) == ([], True, 1)
    assert "the bookie rejects the login: no answer to AUTH within 0.3 s" in str(client.give_up_reason)
    assert operations(frames) == [5, 5, 1]
    assert SECRET not in str(client.give_up_reason)
    assert not [sent_frame for sent_frame in frames if SECRET.encode() in sent_frame]


def test_bookie_that_does_not_know_the_password_fails_the_login(file: Path) -> None:
    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
        await frame(reader, frames)
        writer.write(add_length(answer(5, 1, 0, "sasl", CHALLENGE)))
        await frame(reader, frames)
        writer.write(add_length(answer(5, 2, 0, "sasl", b"rspauth=" + hashlib.md5(b"").hexdigest().encode())))
        await silent(reader, writer, frames)

    file.write_text(SASL)
    replies, client, frames = read_one_entry(impostor, file)
    assert (replies, client.refuses_all) == ([], True)
    assert "DIGEST-MD5 failed: Invalid server auth response" in str(client.give_up_reason)
    assert operations(frames) == [5, 5]


@pytest.mark.parametrize(
    "challenge", [b"", b"\xff=1", b'realm="x"', b"qop=auth-conf,nonce=1,realm=2", b"=,=,="]
)
def test_unreadable_challenge_is_a_failed_login(challenge: bytes, file: Path) -> None:
    async def bad_challenge(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames
    ) -> None:
        await frame(reader, frames)
        writer.write(add_length(answer(5, 1, 0, "sasl", challenge)))
        await silent(reader, writer, frames)

    file.write_text(SASL)
    replies, client, _ = read_one_entry(bad_challenge, file)
    assert (replies, client.refuses_all) == ([], True)
    assert "DIGEST-MD5 failed: " in str(client.give_up_reason)
    assert SECRET not in str(client.give_up_reason)


def test_late_answer_to_start_tls_is_ignored(file: Path, tmp_path: Path) -> None:
    pem = certificates(tmp_path / "pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem.server, pem.server_key)

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
        await frame(reader, frames)
        writer.write(add_length(answer(9, 0, 0)))
        await writer.start_tls(context)
        writer.write(add_length(answer(9, 0, 501)))  # not satisfied with TLS alone
        request = pb.EntryRequest.FromString(await frame(reader, frames))
        writer.write(read_frame(request.header.txnId, 403, 1, 0))
        await silent(reader, writer, frames)

    file.write_text(f'[bookies.tls]\nca = "{pem.ca}"\n')
    replies, client, frames = read_one_entry(late, file, timeout_s=10)
    assert [reply.answer for reply in replies] == ["no-such-entry"]
    assert client.give_up_reason is None
    assert operations(frames) == [9, 1]


@pytest.mark.parametrize(
    ("message", "words"),
    [(b"\x02\x02" + bytes(22), "START_TLS failed"), (answer(11, 0, 0), "unexpected answer")],
)
def test_invalid_or_unexpected_answer_to_start_tls_is_reported(
    message: bytes, words: str, file: Path
) -> None:
    async def wrong_answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames
    ) -> None:
        await frame(reader, frames)
        writer.write(add_length(message))
        await silent(reader, writer, frames)

    file.write_text("[bookies.tls]\n")
    _, client, _ = read_one_entry(wrong_answer, file)
    assert words in str(client.give_up_reason)
    assert not client.refuses_all


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([(5, 0)], AuthRequirement.LOGIN),
        ([(5, None)], AuthRequirement.LOGIN),  # GSSAPI says nothing to a token that is none
        ([(5, 502), (9, 0)], AuthRequirement.CERTIFICATE),
        ([(5, 502), (9, 404)], AuthRequirement.OTHER),
    ],
)
def test_required_authentication_of_a_bookie_is_detected(
    statuses: list[tuple[int, int | None]], expected: AuthRequirement
) -> None:
    async def find() -> AuthRequirement:
        frames: Frames = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for operation, status in statuses:
                request = await frame(reader, frames)
                number = pb.ListRequest.FromString(request).header.txnId
                if status is not None:
                    writer.write(add_length(answer(operation, number, status)))
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            requirement = await find_requirement(reader, writer, "rpc://bookie", 1)
            writer.close()
            return requirement

    assert asyncio.run(find()) is expected


def test_files_without_pem_certificates_are_rejected_by_option_name(file: Path, tmp_path: Path) -> None:
    pem = certificates(tmp_path / "pem")
    (tmp_path / "other").write_text("no certificate")
    for text, words in (
        (f'ca = "{tmp_path}/other"', r"bookies\.tls\.ca: .*other contains no PEM certificate"),
        (f'certificate = "{tmp_path}/other"', r"bookies\.tls\.certificate: .* are not a PEM pair"),
        (f'certificate = "{pem.client}"\nkey = "{pem.server_key}"', r"bookies\.tls\.certificate: "),
    ):
        file.write_text(f"[bookies.tls]\n{text}\n")
        with pytest.raises(UsageError, match=words):
            read_access(str(file))


def test_tls_and_sasl_sections_for_bookies_are_parsed(file: Path) -> None:
    file.write_text('[bookies.tls]\n[bookies.sasl]\nmechanism = "DIGEST-MD5"\nuser = "a"\npassword = "b"\n')
    bookie_access = read_access(str(file))
    assert bookie_access.tls is not None
    assert bookie_access.ssl_context is not None
    # As BookKeeper's own client: the authority always, the host name on request.
    assert (bookie_access.ssl_context.check_hostname, bookie_access.ssl_context.verify_mode) == (
        False,
        ssl.CERT_REQUIRED,
    )
    assert bookie_access.ssl_context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert bookie_access.sasl is not None
    assert bookie_access.sasl.service == "bookkeeper"
    file.write_text("[bookies.tls]\ncheck_hostname = true\n")
    context = read_access(str(file)).ssl_context
    assert context is not None
    assert context.check_hostname
    file.write_text("[etcd.tls]\n")
    assert read_access(str(file)) == access.CLEAR_ACCESS


def test_gssapi_without_its_package_is_a_usage_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "missing_package", lambda sasl: "kerberos")
    file.write_text('[bookies.sasl]\nmechanism = "GSSAPI"\n')
    with pytest.raises(UsageError, match=r"GSSAPI needs the Python package kerberos, .*pip install kerberos"):
        read_access(str(file))

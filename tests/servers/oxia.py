"""A real Oxia for tests, on free ports of loopback. The test chooses its data directory and ends it.

The server is built once from its Go module, into the user's cache. Without go the tests that need it skip.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from auditor.codecs.protobuf.pb import oxia_pb2 as pb
from tests.servers.bookies.driver import free_ports
from tests.servers.bookies.jars import kept_directory
from tests.servers.certificates import Certificates

RELEASE = "0.14.0"
OTHER_PROGRAM = "OXIA_PROGRAM"
"""The variable of the environment that names the program of a later release, which no Go module has whole."""

MODULE = Path(__file__).parent / "oxia_build" / "go.mod"
SERVICE = "/io.streamnative.oxia.proto.OxiaClient"
BUILD_LIMIT_S = 1800.0
START_S = 30.0
ELECTION_S = 120.0
PUTS_AT_ONCE = 500
SESSION_MS = 300_000
"""The longest that a server allows."""
_VARINT, _BYTES = 0, 2


def program() -> Path:
    """Return the server's program, built now or earlier, or of another release if a variable names it."""
    if override := os.environ.get(OTHER_PROGRAM):
        return Path(override)
    if shutil.which("go") is None:
        pytest.skip("needs go")
    assert f"oxia v{RELEASE}" in MODULE.read_text("utf-8")
    return kept_directory("oxia", [MODULE], _build) / "oxia"


def _build(target: Path) -> None:
    module = target / "module"
    module.mkdir()
    shutil.copy(MODULE, module / "go.mod")
    command = ["go", "build", "-o", str(target / "oxia"), "github.com/oxia-db/oxia/cmd"]
    environment = os.environ | {"GOFLAGS": "-mod=mod"}  # go.sum is made by the build
    done = subprocess.run(
        command,
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


class OxiaProcess:
    """A process of the program, with its log in a given directory."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str]) -> None:
        self._folder, self._name, self._arguments = folder, name, arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen([str(program()), *self._arguments], stdout=log, stderr=log)

    def stop(self) -> None:
        """Kill the process, as a power failure of its machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, self.log()

    def log(self) -> str:
        return (self._folder / f"{self._name}.log").read_text("utf-8", "replace")[-2000:]


@dataclass
class Oxia:
    """A running Oxia, and a plain writer to one of its namespaces. Clients reach it at ``servers``."""

    servers: list[str]
    namespace: str = "default"
    processes: dict[str, OxiaProcess] = field(default_factory=dict)
    credentials: Any = None
    token: str | None = None
    channels: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.servers[0]

    @property
    def uri(self) -> str:
        return f"metadata-store:oxia://{self.host}/{self.namespace}"

    def wait(self) -> Oxia:
        """Wait until every server knows a leader of every shard."""
        end = time.monotonic() + START_S
        while True:
            for process in self.processes.values():
                process.check()
            try:
                if all(all(self.leaders(server).values()) for server in self.servers):
                    return self
            except (grpc.RpcError, StopIteration):
                pass
            assert time.monotonic() < end, [process.log() for process in self.processes.values()]
            time.sleep(0.1)

    def leaders(self, server: str | None = None) -> dict[int, str]:
        """Return the leader of each shard, as reported by a server."""
        request = pb.OxiaShardsRequest(namespace=self.namespace)
        call = self._stream(server or self.host, "GetShardAssignments", pb.OxiaShards, request)
        shards = next(call).namespaces[self.namespace].shards
        call.cancel()
        return {shard.shard: shard.leader for shard in shards}

    def wait_for_other_leader(self, lost: str) -> None:
        """Wait until a remaining server reports leaders of all shards, none of which is the lost one."""
        remaining = next(server for server in self.servers if server != lost)
        end = time.monotonic() + ELECTION_S
        while True:
            try:
                leaders = self.leaders(remaining).values()
                if all(leaders) and lost not in leaders:
                    return
            except (grpc.RpcError, StopIteration):
                pass
            assert time.monotonic() < end, f"{lost} still leads a shard"
            time.sleep(0.1)

    def offsets(self) -> dict[int, int]:
        """Return the current offset of the log of each shard."""
        shard_offsets = {}
        for shard, leader in self.leaders().items():
            request = pb.OxiaNotificationsRequest(shard=shard)
            call = self._stream(leader, "GetNotifications", pb.OxiaNotifications, request)
            shard_offsets[shard] = next(call).offset
            call.cancel()
        return shard_offsets

    def read(self, path: str) -> dict[str, bytes]:
        """Return all records below a path whose parents have records too, as Pulsar's driver makes them."""
        records = {}
        request = {"start": f"{path}/".encode(), "end": f"{path}//".encode()}
        for shard, leader in self.leaders().items():
            range_request = pb.OxiaRangeRequest(shard=shard, **request)
            for answer in self._stream(leader, "RangeScan", pb.OxiaRecords, range_request):
                records.update({record.key.decode(): record.value for record in answer.records})
        for child in [*records]:
            records.update(self.read(child))
        return records

    def load(self, records: Iterable[tuple[str, bytes]], sessions: Mapping[int, int] | None = None) -> None:
        """Put many records quickly, and the records of their parents as Pulsar's driver makes them.

        With ``sessions``, one for each shard, the records are ephemeral, but their parents are not. A key's
        shard is not the one that Oxia's clients would choose, as with a partition key.
        """
        leaders = self.leaders()
        waiting: dict[int, list[bytes]] = {shard: [] for shard in leaders}
        created: set[str] = set()

        def put(path: str, value: bytes, owners: Mapping[int, int]) -> None:
            parent = path.rpartition("/")[0]
            if parent and parent not in created:
                put(parent, b"", {})
            created.add(path)
            shard = self.shard_of(path, leaders)
            fields = [_field(1, path.encode()), _field(2, value)]
            waiting[shard].append(b"".join([*fields, *([_field(4, owners[shard])] if owners else [])]))
            if len(waiting[shard]) >= PUTS_AT_ONCE:
                self._write(leaders[shard], shard, 2, waiting[shard])

        for path, value in records:
            put(path, value, sessions or {})
        for shard, puts in waiting.items():
            self._write(leaders[shard], shard, 2, puts)

    def delete(self, path: str) -> None:
        leaders = self.leaders()
        shard = self.shard_of(path, leaders)
        self._write(leaders[shard], shard, 3, [_field(1, path.encode())])

    def open_sessions(self) -> dict[int, int]:
        """Return a session of each shard that lasts for the length of a test without heartbeats."""
        sessions = {}
        for shard, leader in self.leaders().items():
            answer = self._unary(leader, "CreateSession", _field(1, shard) + _field(2, SESSION_MS))
            sessions[shard] = int(pb.OxiaChange.FromString(answer).kind)  # the one field: a number
        return sessions

    @staticmethod
    def shard_of(path: str, shards: Mapping[int, object]) -> int:
        return sorted(shards)[zlib.crc32(path.encode()) % len(shards)]

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()
        for process in self.processes.values():
            process.stop()

    def _write(self, leader: str, shard: int, number: int, messages: list[bytes]) -> None:
        if messages:
            request = b"".join([_field(1, shard), *(_field(number, message) for message in messages)])
            # The answers to puts look like records: the first field is what came of each, 0 is well.
            done = pb.OxiaRecords.FromString(self._unary(leader, "Write", request))
            assert not [record.status for record in done.records if record.status]
            messages.clear()

    def _unary(self, server: str, method: str, request: bytes) -> bytes:
        call = self._channel(server).unary_unary(f"{SERVICE}/{method}", _same, _same)
        return bytes(call(request, 30, self._metadata()))

    def _stream(self, server: str, method: str, answer: Any, request: Any) -> Any:
        call = self._channel(server).unary_stream(
            f"{SERVICE}/{method}", type(request).SerializeToString, answer.FromString
        )
        return call(request, 30, self._metadata())

    def _metadata(self) -> Any:
        return (("authorization", f"Bearer {self.token}"),) if self.token else None

    def _channel(self, server: str) -> Any:
        if server not in self.channels:
            secured = self.credentials is not None
            self.channels[server] = (
                grpc.secure_channel(server, self.credentials) if secured else grpc.insecure_channel(server)
            )
        return self.channels[server]


def _same(message: bytes) -> bytes:
    return message


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field of a protobuf message: a number, or bytes with their length."""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


@contextmanager
def running(folder: Path, *, shards: int = 1, flags: Sequence[str] = ()) -> Iterator[Oxia]:
    """Yield a standalone server with the namespace ``default``."""
    public, metrics = free_ports(2)
    arguments = ["standalone", "-p", f"127.0.0.1:{public}", "-m", f"127.0.0.1:{metrics}"]
    arguments += ["--shards", str(shards), "--wal-sync-data=false", *_data(folder), *flags]
    process = OxiaProcess(folder, "standalone", arguments)
    oxia = Oxia([f"127.0.0.1:{public}"], processes={"standalone": process})
    try:
        process.start()
        yield oxia.wait()
    finally:
        oxia.close()


@contextmanager
def running_cluster(
    folder: Path,
    *,
    servers: int = 1,
    namespaces: Mapping[str, Mapping[str, Any]],
    host: str = "127.0.0.1",
    tls: Certificates | None = None,
    token: str | None = None,
    flags: Sequence[str] = (),
) -> Iterator[Oxia]:
    """Yield servers and their coordinator. ``namespaces`` are settings by name; writes go to the first.

    With ``tls`` every client needs a certificate. Servers accept ``token`` if ``flags`` tell them to require
    one.
    """
    ports = free_ports(3 * servers + 3)
    addresses = [
        (f"{host}:{ports[3 * n]}", f"127.0.0.1:{ports[3 * n + 1]}", ports[3 * n + 2]) for n in range(servers)
    ]
    secured = []
    if tls is not None:
        secured = ["--tls-cert-file", str(tls.server), "--tls-key-file", str(tls.server_key)]
        secured += ["--tls-trusted-ca-file", str(tls.ca), "--tls-client-auth"]
    oxia = Oxia([public for public, _, _ in addresses], next(iter(namespaces)), token=token)
    if tls is not None:
        files = (tls.ca, tls.client_key, tls.client)
        oxia.credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
    for public, internal, metrics in addresses:
        arguments = [
            "server",
            "-p",
            public,
            "-i",
            internal,
            "-m",
            f"127.0.0.1:{metrics}",
            "--wal-sync-data=false",
        ]
        arguments += [*_data(folder / public.replace(":", "_")), *secured, *flags]
        oxia.processes[public] = OxiaProcess(folder, public.replace(":", "_"), arguments)
    settings = {"initialShardCount": 1, "replicationFactor": servers}
    configuration = {
        "namespaces": [{"name": name, **settings, **own} for name, own in namespaces.items()],
        "servers": [{"public": public, "internal": internal} for public, internal, _ in addresses],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cluster.yaml").write_text(json.dumps(configuration))  # which is YAML too
    coordinator = ["coordinator", "-i", f"127.0.0.1:{ports[-2]}", "-m", f"127.0.0.1:{ports[-1]}"]
    coordinator += ["--metadata", "file", "--file-clusters-status-path", str(folder / "status.json")]
    coordinator += ["-f", str(folder / "cluster.yaml")]
    if OTHER_PROGRAM in os.environ:  # from 0.15 on it listens for the program's admin commands too
        coordinator += ["-p", f"127.0.0.1:{ports[-3]}"]
    oxia.processes["coordinator"] = OxiaProcess(folder, "coordinator", coordinator)
    with ExitStack() as stack:
        stack.callback(oxia.close)
        for process in oxia.processes.values():
            process.start()
        yield oxia.wait()


def _data(folder: Path) -> list[str]:
    return ["--data-dir", str(folder / "db"), "--wal-dir", str(folder / "wal")]

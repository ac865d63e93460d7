"""A real etcd for tests, on free ports of loopback. The test chooses its data directory and ends it."""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from etcd3 import etcdrpc

START_S = 30.0
PUTS_AT_ONCE = 100
SNAPSHOT = Path(__file__).parents[1] / "data" / "etcd" / "etcd-snapshot.db.gz"


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form: an authority, and the certificates it signed for the server and for a client."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


class Etcd:
    """One running member. ``host`` is the address at which clients reach it."""

    def __init__(
        self,
        folder: Path,
        *,
        tls: Certificates | None = None,
        members: dict[str, str] | None = None,
        name: str = "default",
        snapshot: Path | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        for program in ("etcd", "etcdctl"):
            if shutil.which(program) is None:
                pytest.skip(f"needs {program}")
        self._folder = folder
        self._tls = tls
        self._name = name
        self._members = members or {name: f"http://127.0.0.1:{free_port()}"}
        self._flags = flags
        self._scheme = "https" if tls else "http"
        self._process: subprocess.Popen[bytes] | None = None
        self._user: str | None = None
        self.host = f"127.0.0.1:{free_port()}"
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def pid(self) -> int:
        """Return the process id of the member, which must have been started."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Etcd:
        """Start the member. Start all members of a cluster before waiting for one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        url = f"{self._scheme}://{self.host}"
        command = ["etcd", *self._data_dir(), *self._membership()]
        command += ["--listen-peer-urls", self._members[self._name]]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        if self._tls is not None:
            command += ["--cert-file", str(self._tls.server), "--key-file", str(self._tls.server_key)]
            command += ["--client-cert-auth", "--trusted-ca-file", str(self._tls.ca)]
        command += self._flags
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def wait(self) -> Etcd:
        """Wait until the member answers."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            assert self._process is not None
            assert self._process.poll() is None, self._log()
            if self._attempt("endpoint", "health").returncode == 0:
                return self
            time.sleep(0.1)
        raise AssertionError(f"etcd does not answer: {self._log()}")

    def stop(self) -> None:
        """Kill the member, as a power failure of its machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ctl(self, *arguments: str) -> str:
        """Run etcdctl against the member and return its output."""
        done = self._attempt(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, pairs: Iterable[tuple[str, bytes]], ttl_s: int = 0) -> int:
        """Put many keys quickly, on a lease of ``ttl_s`` seconds if not 0, and return the last revision."""
        revision = lease = 0
        with grpc.insecure_channel(self.host) as channel:
            if ttl_s:
                lease = etcdrpc.LeaseStub(channel).LeaseGrant(etcdrpc.LeaseGrantRequest(TTL=ttl_s)).ID
            txn = etcdrpc.KVStub(channel).Txn
            batches: list[list[etcdrpc.RequestOp]] = [[]]
            for path, value in pairs:
                key = path.encode("utf-8", "surrogateescape")
                put = etcdrpc.PutRequest(key=key, value=value, lease=lease)
                if len(batches[-1]) >= PUTS_AT_ONCE or (len(value) > 10_000 and batches[-1]):
                    batches.append([])
                batches[-1].append(etcdrpc.RequestOp(request_put=put))
            for batch in batches:
                revision = txn(etcdrpc.TxnRequest(success=batch)).header.revision
        return revision

    def read(self, prefix: str) -> list[Any]:
        """Return all keys that begin with a prefix, without starting etcdctl."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        with grpc.insecure_channel(self.host) as channel:
            request = etcdrpc.RangeRequest(key=prefix.encode(), range_end=end.encode())
            return list(etcdrpc.KVStub(channel).Range(request).kvs)

    def delete(self, path: str) -> None:
        """Delete a key, without starting etcdctl."""
        with grpc.insecure_channel(self.host) as channel:
            request = etcdrpc.DeleteRangeRequest(key=path.encode("utf-8", "surrogateescape"))
            etcdrpc.KVStub(channel).DeleteRange(request)

    def save(self, snapshot: Path) -> None:
        """Save a snapshot of the member."""
        self.ctl("snapshot", "save", str(snapshot))

    def put_back(self, snapshot: Path) -> None:
        """Stop the member, and start it again with the data of a snapshot."""
        self.stop()
        shutil.rmtree(self._folder / f"{self._name}.etcd")
        self._restore(snapshot)
        self.start().wait()

    def revision(self) -> int:
        """Return the newest revision."""
        with grpc.insecure_channel(self.host) as channel:
            request = etcdrpc.RangeRequest(key=b"any", keys_only=True)
            return int(etcdrpc.KVStub(channel).Range(request).header.revision)

    def compact(self, revision: int) -> None:
        """Compact the history before a revision."""
        self.ctl("compact", str(revision))

    def enable_auth(self, password: str) -> None:
        """Require a user of every client from now on. The user root has this password."""
        self.ctl("user", "add", f"root:{password}")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("auth", "enable")
        self._user = f"root:{password}"

    def _data_dir(self) -> list[str]:
        return ["--data-dir", str(self._folder / f"{self._name}.etcd")]

    def _membership(self) -> list[str]:
        cluster = ",".join(f"{name}={url}" for name, url in self._members.items())
        own = self._members[self._name]
        return ["--name", self._name, "--initial-cluster", cluster, "--initial-advertise-peer-urls", own]

    def _attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = ["--endpoints", f"{self._scheme}://{self.host}", "--command-timeout", "30s"]
        if self._tls is not None:
            options += ["--cacert", str(self._tls.ca), "--cert", str(self._tls.client)]
            options += ["--key", str(self._tls.client_key)]
        if self._user is not None:
            options += ["--user", self._user]
        return self._command("etcdctl", *options, *arguments)

    def _restore(self, snapshot: Path) -> None:
        """Write the member's files from a snapshot. From 3.6 on only etcdutl can, which 3.4 does not have."""
        program = "etcdutl" if shutil.which("etcdutl") else "etcdctl"
        command = (program, "snapshot", "restore", str(snapshot), *self._data_dir(), *self._membership())
        done = self._command(*command)
        assert done.returncode == 0, done.stderr

    @staticmethod
    def _command(*command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ETCDCTL_API": "3"}
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    def _log(self) -> str:
        return (self._folder / f"{self._name}.log").read_text("utf-8", "replace")[-2000:]


@contextmanager
def running(
    folder: Path, *, tls: Certificates | None = None, saved: bool = False, flags: Sequence[str] = ()
) -> Iterator[Etcd]:
    """Yield a single member, empty or with the data of the corpus's snapshot."""
    snapshot = None
    if saved:
        folder.mkdir(parents=True, exist_ok=True)
        snapshot = folder / "snapshot.db"
        snapshot.write_bytes(gzip.decompress(SNAPSHOT.read_bytes()))
    member = Etcd(folder, tls=tls, snapshot=snapshot, flags=flags)
    try:
        yield member.start().wait()
    finally:
        member.stop()


@contextmanager
def running_cluster(folder: Path, size: int = 3) -> Iterator[Sequence[Etcd]]:
    """Yield the members of one cluster."""
    peers = {f"m{number}": f"http://127.0.0.1:{free_port()}" for number in range(size)}
    members = [Etcd(folder, members=peers, name=name) for name in peers]
    try:
        for member in members:
            member.start()
        yield [member.wait() for member in members]
    finally:
        for member in members:
            member.stop()


def certificates(folder: Path) -> Certificates:
    """Make a short-lived authority and the certificates that it signs for 127.0.0.1."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder.mkdir(parents=True, exist_ok=True)
    files = Certificates(
        *(folder / f"{name}.pem" for name in ("ca", "server", "server-key", "client", "client-key"))
    )
    ca_key = folder / "ca-key.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    openssl("req", "-x509", *curve, "-keyout", ca_key, "-out", files.ca, "-subj", "/CN=authority")
    for certificate, key, name in (
        (files.server, files.server_key, "server"),
        (files.client, files.client_key, "client"),
    ):
        openssl(
            "req", "-x509", *curve, "-keyout", key, "-out", certificate, "-subj", f"/CN={name}",
            "-CA", files.ca, "-CAkey", ca_key, "-addext", "subjectAltName=IP:127.0.0.1",
            "-addext", "extendedKeyUsage=serverAuth,clientAuth",
            "-addext", "basicConstraints=critical,CA:FALSE",
        )  # fmt: skip
    return files


def openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def free_port() -> int:
    """Return a port of loopback on which no process currently listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

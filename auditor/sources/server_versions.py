"""Which servers of a metadata URI answer, how quickly, and what version they are.

ZooKeeper answers ``srvr``, where its operators allow that (``4lw.commands.whitelist``; the default allows
it). It is sent in plain text: a port that speaks TLS is only knocked at. etcd answers Status.
"""

from __future__ import annotations

import re
import socket
import time
from dataclasses import dataclass

from auditor.errors import StoreError
from auditor.sources.credentials import read_credentials
from auditor.sources.store import StoreOptions
from auditor.sources.uri import parse_metadata_uri

ANSWER_LIMIT = 4096
"""Bytes of an answer to ``srvr`` that are read; usual are 200."""

_VERSION = re.compile(r"^Zookeeper version: ([0-9][\w.]*)", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the URI: whether it answers, in how many ms, its version and mode.

    ``trouble`` says why it does not answer, or why it does not tell its version, which is None then.
    """

    host: str
    reached: bool
    latency_ms: float | None = None
    version: str | None = None
    mode: str | None = None
    trouble: str | None = None


def servers(uri: str, options: StoreOptions) -> list[Server]:
    """Ask each server of a running store once, in the order of the URI; a saved store has none.

    >>> servers("dump:///saved/metadata.jsonl", StoreOptions())
    []
    """
    parsed = parse_metadata_uri(uri)
    if parsed.scheme == "zk":
        tls = read_credentials(options.credentials).zookeeper.tls is not None
        return [_zookeeper(host, options.timeout_s, tls) for host in parsed.hosts]
    if parsed.scheme == "etcd":
        return [_etcd(host, options) for host in parsed.hosts]
    return []


def _zookeeper(host: str, timeout_s: float, tls: bool) -> Server:
    name, _, port = host.rpartition(":")
    begun = time.monotonic()
    answer = b""
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout_s) as connection:
            latency = (time.monotonic() - begun) * 1000
            if tls:
                return Server(host, True, latency, trouble="srvr is not asked over TLS")
            connection.sendall(b"srvr")
            while len(answer) < ANSWER_LIMIT and (more := connection.recv(ANSWER_LIMIT)):
                answer += more
    except OSError as error:
        if not answer:
            return Server(host, False, trouble=error.strerror or str(error))
    said = answer.decode("utf-8", "replace")
    version, mode = _VERSION.search(said), _MODE.search(said)
    if version is None:
        why = "it does not allow srvr" if "whitelist" in said else "it does not answer srvr"
        return Server(host, True, latency, trouble=why)
    return Server(host, True, latency, version[1], mode[1] if mode else None)


def _etcd(host: str, options: StoreOptions) -> Server:
    from auditor.sources.etcd_client import EtcdClient

    client = EtcdClient([host], options, sleep=lambda _: None)
    begun = time.monotonic()
    try:
        version = client.version()
    except StoreError as error:
        return Server(host, False, trouble=str(error))
    finally:
        client.close()
    return Server(host, True, (time.monotonic() - begun) * 1000, version)

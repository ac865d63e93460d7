"""A record shows every action that is not a read: file writes by their calls, requests by their bytes."""

from __future__ import annotations

import socket
import sys
from collections import Counter
from pathlib import Path

from auditor.codecs.bookie.wire import list_request, read_request
from tests.live.recorded import record
from tests.live.requests import READS, bookie_requests, zookeeper_requests

WRITES = """
import os, socket, sys
os.chdir(sys.argv[1])
open("opened", "w").close()
os.rename("opened", "renamed")
if not os.fork():
    os.open("within", os.O_RDWR | os.O_CREAT, dir_fd=os.open("below", os.O_RDONLY))
    os._exit(0)
os.wait()
os.fchmod(os.open("renamed", os.O_RDONLY), 0o600)
os.utime(os.open("below", os.O_RDONLY))
try:
    open("/proc/version", "a")
except OSError:
    pass
connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
connection.sendall(b"first")
connection.sendmsg([b", ", b"then"])
"""


def test_file_writes_and_sent_bytes_are_recorded(tmp_path: Path) -> None:
    place = tmp_path / "a place"
    (place / "below").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-c", WRITES, str(place), str(port)]
        recording = record(command, tmp_path / "record", {"PYTHONDONTWRITEBYTECODE": "1"})
    assert recording.written == {
        f"{place}/opened": {"openat"},
        "opened": {"rename"},  # in a directory that the call does not name: outside of any
        "renamed": {"rename"},
        f"{place}/renamed": {"fchmod"},
        f"{place}/below": {"utimensat"},
        f"{place}/below/within": {"openat"},
        "/proc/version": {"openat"},  # tried in vain
    }
    assert recording.outside(str(place), "/proc").keys() == {"opened", "renamed"}
    assert (recording.ports[port], recording.sent_to(port)) == (1, [b"first, then"])


def frame(*numbers: int) -> bytes:
    """Return a request that consists of four-byte numbers."""
    body = b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)
    return len(body).to_bytes(4, "big") + body


def test_write_requests_are_not_counted_as_reads() -> None:
    session = frame(0, 0, 0) + frame(1, 4) + frame(2, 5) + frame(3, 14) + frame(4, -11)
    expected = Counter(["createSession", "getData", "request 5", "request 14", "closeSession"])
    assert zookeeper_requests(session) == expected
    plain = [read_request(7, 99, 5), read_request(8, 99, 5, version=2), list_request(9, 99)]
    read = bookie_requests(b"".join(plain))
    assert read.keys() <= READS["bookies"]
    assert read.total() == len(plain)
    # The flag that fences: field 100 of the request's body; in version 2 the first bit of the flags.
    body = bytes.fromhex("0863 1005 a00601")
    fencing = bytes.fromhex("0a0608031001 1807 a206") + bytes([len(body)]) + body
    fenced = bookie_requests(len(fencing).to_bytes(4, "big") + fencing)
    assert fenced == {"READ_ENTRY with fields [100]": 1}
    second = bytearray(plain[1])
    second[7] = 1
    assert not bookie_requests(bytes(second)).keys() & READS["bookies"]

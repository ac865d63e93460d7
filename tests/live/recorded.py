"""A strace of a command and all its processes: the files they wrote, and the bytes they sent to servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

CHANGES = (
    *("creat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
    *("link", "linkat", "symlink", "symlinkat", "truncate", "mknod", "mknodat", "chmod", "fchmodat"),
    *("chown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr"),
    *("removexattr", "lremovexattr", "fchmod", "fchown", "fsetxattr", "fremovexattr", "mount", "umount2"),
)
"""System calls that change what they name or have open; to write into a file it is opened for it."""
OPENS = ("open", "openat", "openat2")
SENDS = ("sendto", "sendmsg", "sendmmsg")

_CALL = re.compile(r"(\w+)\((.*)\) += (.*)$")
_TEXT = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2})*)>, )?"((?:\\x[0-9a-f]{2})*)"')
_OPEN = re.compile(r"\d+<((?:\\x[0-9a-f]{2})+)>")
_PEER = re.compile(r"<TCP(?:v6)?:\[(.*?)->(.*?)\]>")
_PORT = re.compile(r"sin6?_port=htons\((\d+)\)")


@dataclass(frozen=True)
class Record:
    """The recorded actions of a command and its processes.

    ``written``: files that were opened for writing or changed, with the calls. ``sent``: all bytes sent on a
    connection. Its key is the thread (addresses are reused), the connection's own address and the server's.
    ``ports``: the ports that the processes connected to.
    """

    written: Mapping[str, set[str]]
    sent: Mapping[tuple[str, str, str], bytes]
    ports: Counter[int]

    def sent_to(self, port: int) -> list[bytes]:
        """Return the bytes sent to a port of this machine, one item per connection."""
        return [data for (*_, peer), data in self.sent.items() if peer.endswith(f":{port}")]

    def outside(self, *places: str) -> dict[str, set[str]]:
        """Return written files outside of the directories, except /proc/self, /dev/null and /dev/tty."""
        return {
            path: calls
            for path, calls in self.written.items()
            if not path.startswith(tuple(f"{place.rstrip('/')}/" for place in ("/proc/self", *places)))
            and path not in ("/dev/null", "/dev/tty", *places)
        }


def record(command: Sequence[str], place: Path, environment: Mapping[str, str]) -> Record:
    """Run a command until its last process ends, and record it in the new directory ``place``."""
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    place.mkdir()
    traced = ["strace", "-ff", "-qq", "-yy", "-xx", "-s", "1048576", "-e", "signal=none", "--seccomp-bpf"]
    traced += ["-e", f"trace={','.join((*CHANGES, *OPENS, *SENDS, 'connect'))}", "-o", str(place / "calls")]
    with (place / "output").open("wb") as output:
        done = subprocess.run(
            [*traced, *command], env={**os.environ, **environment}, stdout=output, stderr=output, check=False
        )
    assert done.returncode == 0, (place / "output").read_text()[-3000:]
    return _read(sorted(place.glob("calls.*")))


def _read(files: Sequence[Path]) -> Record:
    written: dict[str, set[str]] = {}
    # Spark is told some hundred thousand things over one connection: its bytes are joined once.
    sent: dict[tuple[str, str, str], list[bytes]] = {}
    ports: Counter[int] = Counter()
    for thread, call, arguments, result in _calls(files):
        if call == "connect":
            ports.update(map(int, _PORT.findall(arguments)))
        elif call in SENDS:
            if (peer := _PEER.search(arguments)) is not None and not result.startswith("-1"):
                key = thread, peer[1], peer[2]
                data = b"".join(_bytes(text) for _, text in _TEXT.findall(arguments))
                sent.setdefault(key, []).append(data[: int(result)])
        elif call in CHANGES or re.search("O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND", arguments):
            path_parts = _TEXT.findall(arguments) or [("", text) for text in _OPEN.findall(arguments)]
            for base, text in (
                path_parts[-1:] if call.startswith("symlink") else path_parts
            ):  # it may lead anywhere
                path = os.path.normpath(Path(os.fsdecode(_bytes(base)), os.fsdecode(_bytes(text))))
                written.setdefault(path, set()).add(call)
    return Record(written, {key: b"".join(parts) for key, parts in sent.items()}, ports)


def _calls(files: Sequence[Path]) -> Iterator[tuple[str, str, str, str]]:
    for file in files:
        for line in file.read_text("utf-8", "surrogateescape").splitlines():
            if (call := _CALL.match(line)) is not None:
                yield file.name, call[1], call[2], call[3]


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))

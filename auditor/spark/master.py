"""Spark's masters: what can be said of one before a session is started, which may take minutes to fail."""

from __future__ import annotations

import os
import re
import socket

from auditor.errors import SparkError, UsageError

_LOCAL = re.compile(r"local(\[(\*|\d+)(, *\d+)?\]|-cluster\[\d+, *\d+, *\d+\])?$")
_STANDALONE = "spark://"
_DEFAULT_PORT = 7077
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


def check_master(master: str, timeout: float = 5.0) -> None:
    """Refuse a master that no session could be started on.

    >>> check_master("local[*]")
    >>> check_master("locl[2]")
    Traceback (most recent call last):
    auditor.errors.UsageError: master: 'locl[2]' is not one of local[N], spark://HOST:PORT, yarn, k8s://URL

    Raises:
        UsageError: no such kind of master, or yarn where no configuration of Hadoop is named.
        SparkError: nobody answers at any address of a spark:// master within ``timeout`` seconds.
    """
    if _LOCAL.match(master) or master.startswith("k8s://"):
        return
    if master == "yarn":
        if not any(os.environ.get(name) for name in _HADOOP):
            raise UsageError(f"master: yarn needs Hadoop's configuration: set {' or '.join(_HADOOP)}")
        return
    if not master.startswith(_STANDALONE):
        raise UsageError(f"master: {master!r} is not one of local[N], spark://HOST:PORT, yarn, k8s://URL")
    reasons = [_unreachable(address, timeout) for address in master.removeprefix(_STANDALONE).split(",")]
    if all(reasons):
        raise SparkError(f"master: {master}: {'; '.join(reason for reason in reasons if reason)}")


def _unreachable(address: str, timeout: float) -> str | None:
    """Why nobody can be reached at HOST:PORT; None if somebody can."""
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_DEFAULT_PORT))
    if not port.isdecimal() or not host:
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout).close()
    except (OSError, OverflowError) as error:
        return f"{address}: {getattr(error, 'strerror', None) or error}"
    return None

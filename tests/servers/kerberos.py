"""A KDC for tests: MIT's, on loopback, with its own realm, and the Python module that authenticates to it.

with running(root) as kdc:
    keytab = kdc.keytab("bookkeeper/127.0.0.1")
    subprocess.run(..., env=kdc.environment(ticket="bookkeeper-auditor"))
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.bookies.jars import kept_directory
from tests.servers.zookeeper import free_ports

REALM = "EXAMPLE.TEST"
MODULE = "kerberos==1.3.1"
"""As in constraints.txt; it has no wheels, so that no environment has it unless it was asked for."""

PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "krb5-config")
LIMIT_S = 60.0

_CLIENT = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
"""
_SERVER = """\
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {root}/principal
  key_stash_file = {root}/stash
  acl_file = {root}/acl
}}
[logging]
kdc = FILE:{root}/kdc.log
"""


@dataclass(frozen=True)
class Kdc:
    """A running KDC. ``conf`` is the krb5.conf of its clients."""

    root: Path

    @property
    def conf(self) -> Path:
        return self.root / "krb5.conf"

    def keytab(self, principal: str) -> Path:
        """Return the keytab of a principal of the realm. Make the principal and its key on the first call."""
        path = self.root / f"{principal.replace('/', '_')}.keytab"
        if not path.exists():
            self._call("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
            self._call("kadmin.local", "-r", REALM, "ktadd", "-k", str(path), principal)
        return path

    def jaas(self, section: str, principal: str, initiator: bool = False) -> str:
        """Return a section of Java's login configuration for a principal that `keytab` has made."""
        path = self.root / f"{principal.replace('/', '_')}.keytab"
        return (
            f"{section} {{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
            f"storeKey=true doNotPrompt=true useTicketCache=false isInitiator={str(initiator).lower()} "
            f'keyTab="{path}" '
            f'principal="{principal}@{REALM}"; }};\n'
        )

    def java_options(self) -> list[str]:
        """Return the Java options that are needed in addition to the login configuration."""
        return [f"-Djava.security.krb5.conf={self.conf}"]

    def environment(self, ticket: str | None = None, lifetime: str = "1h") -> dict[str, str]:
        """Return the environment of a client, with a new ticket of a principal of `keytab`, or with none."""
        cache = self.root / f"cache-{secrets.token_hex(8)}"
        own = {
            "KRB5_CONFIG": str(self.conf),
            "KRB5CCNAME": f"FILE:{cache}",
            "KRB5_CLIENT_KTNAME": "FILE:/none",
        }
        if ticket is not None:
            keytab = str(self.root / f"{ticket}.keytab")
            self._call("kinit", "-l", lifetime, "-kt", keytab, ticket, **own)
        return os.environ | own | {"PYTHONPATH": os.pathsep.join([*sys.path, str(module_directory())])}

    def _call(self, *command: str, **variables: str) -> None:
        own = {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(self.root / "kdc.conf")}
        done = subprocess.run(
            [_program(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            env=os.environ | own | variables,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@contextmanager
def running(root: Path) -> Iterator[Kdc]:
    """Yield a KDC for the length of a block, below the new ``root``. Skip if its programs are missing."""
    missing = [name for name in PROGRAMS if not _is_installed(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    root.mkdir(parents=True)
    [port] = free_ports(1)
    kdc = Kdc(root)
    kdc.conf.write_text(_CLIENT.format(realm=REALM, port=port))
    (root / "kdc.conf").write_text(_SERVER.format(realm=REALM, port=port, root=root))
    kdc._call("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-of-a-test")
    own = {"KRB5_CONFIG": str(kdc.conf), "KRB5_KDC_PROFILE": str(root / "kdc.conf")}
    with (root / "out.log").open("wb") as log:
        process = subprocess.Popen(
            [_program("krb5kdc"), "-n", "-r", REALM], env=os.environ | own, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + LIMIT_S
        while "commencing operation" not in _text(root / "kdc.log"):
            assert process.poll() is None, _text(root / "out.log")
            assert time.monotonic() < until, _text(root / "kdc.log")
            time.sleep(0.05)
        yield kdc
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def module_directory() -> Path:
    """Return the directory of the Python module kerberos, installed here or compiled once per interpreter."""
    spec = importlib.util.find_spec("kerberos")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent
    name = f"kerberos-{sys.implementation.cache_tag}"
    return kept_directory(name, [Path(__file__)], _install)


def _install(target: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(target),
        MODULE,
    ]
    subprocess.run(command, check=True, timeout=600)


def _program(name: str) -> str:
    # Debian has the server's programs where only root's PATH looks.
    return shutil.which(name) or f"/usr/sbin/{name}"


def _is_installed(name: str) -> bool:
    return shutil.which(name) is not None or Path(f"/usr/sbin/{name}").exists()


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""

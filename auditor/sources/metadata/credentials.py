"""Who an audit is to a metadata store: one TOML file of users, passwords and certificates.

    [zookeeper.digest]                  # addauth digest; what ACLs of the scheme digest name
    user = "auditor"
    password_env = "ZK_PASSWORD"        # the value of that environment variable

    [zookeeper.sasl]                    # DIGEST-MD5; GSSAPI is handed on to kazoo, and was never tried
    mechanism = "DIGEST-MD5"
    user = "auditor"
    password = "..."

    [zookeeper.tls]                     # this section, even an empty one, means TLS
    ca = "ca.pem"                       # paths start at the directory that this file is in
    certificate = "auditor.pem"
    key = "auditor.key"

    [etcd]
    user = "auditor"
    password_env = "ETCD_PASSWORD"

    [etcd.tls]
    ca = "ca.pem"

    [ledgers]                           # the password that applications give their ledgers: of HMAC digests
    password_env = "LEDGER_PASSWORD"

Every key that holds text may be written ``<key>_env`` instead, naming an environment variable. Secrets are
read where they are used, in each task, and go nowhere: no repr shows them, no error repeats them, and they
refuse to be pickled. As ssh does with a private key, a file that has a secret written in it and that others
may read is refused, not warned of; root's own file may be readable by its group, as mounted secrets are.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from auditor.errors import UsageError
from auditor.sources.regular_file import MAX_TOML_BYTES, open_regular, parse_toml, read_at_most


class SecretFile:
    """A TOML file and whether a secret is written in it.

    Raises:
        UsageError: no such file, or not TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.holds_secrets = False
        self.sections: list[Section] = []
        try:
            with open_regular(path) as stream:
                self._status = os.fstat(stream.fileno())
                values = parse_toml(read_at_most(stream, MAX_TOML_BYTES))
        except OSError as error:
            raise UsageError(f"{path}: cannot read the credentials: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"{path}: not TOML: {error}") from None
        self.top = Section(self, "", values)

    def end(self) -> None:
        """Refuse what nothing asked for, and a file with a secret in it that others may read, as ssh does.

        Raises:
            UsageError: it is such a file.
        """
        for section in self.sections:
            section.end()
        if not self.holds_secrets or os.name != "posix":
            return
        # A secret that is mounted belongs to root and is given to a group, which cannot change the file.
        allowed = stat.S_IRGRP if self._status.st_uid == 0 else 0
        if stat.S_IMODE(self._status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO) & ~allowed:
            raise UsageError(
                f"{self.path}: others may read this file, and a secret is written in it; chmod 600 it, "
                "or name an environment variable instead (password_env)"
            )


class Section:
    """One table of the file; what is taken out of it is known, and the rest is refused by `end`."""

    def __init__(self, file: SecretFile, name: str, values: Mapping[str, Any]) -> None:
        self._file = file
        self._name = name
        self._values = values
        self._known: list[str] = []
        file.sections.append(self)

    def has(self, key: str) -> bool:
        """Whether the key is given, as itself or as ``<key>_env``."""
        return key in self._values or f"{key}_env" in self._values

    def section(self, key: str) -> Section | None:
        """The section of that name inside this one; None if there is none."""
        self._known.append(key)
        values = self._values.get(key)
        if values is None:
            return None
        if not isinstance(values, dict):
            self.wrong(key, f"it is a section, as in [{self._place(key)}]")
        return Section(self._file, self._place(key), values)

    def text(self, key: str, secret: bool = False) -> str | None:
        """Text, as it stands there or from the variable that ``<key>_env`` names; None: not given."""
        self._known += [key, f"{key}_env"]
        value, variable = self._values.get(key), self._values.get(f"{key}_env")
        for name, given in ((key, value), (f"{key}_env", variable)):
            if given is not None and (not isinstance(given, str) or not given):
                self.wrong(name, "it is not a string, or empty")
        if value is not None and variable is not None:
            self.wrong(key, f"it is given twice, here and as {key}_env")
        if variable is not None:
            value = os.environ.get(variable)
            if not value:
                self.wrong(f"{key}_env", "the environment has no such variable")
        elif value is not None and secret:
            self._file.holds_secrets = True
        return value

    def require(self, key: str, secret: bool = False) -> str:
        """Text that must be given."""
        value = self.text(key, secret)
        if value is None:
            self.wrong(key, "it is needed here")
        return value

    def flag(self, key: str) -> bool:
        """true or false; true if it is not given."""
        self._known.append(key)
        value = self._values.get(key, True)
        if not isinstance(value, bool):
            self.wrong(key, "it is true or false")
        return value

    def file(self, key: str) -> str | None:
        """The path of a file that exists, from the directory of the TOML file on."""
        value = self.text(key)
        if value is None:
            return None
        path = self._file.path.parent / value
        if not path.is_file():
            self.wrong(key, "there is no such file")
        return str(path)

    def end(self) -> None:
        """Refuse what nothing asked for."""
        for key in self._values:
            if key not in self._known:
                shown = [name for name in self._known if not name.endswith("_env")]
                self.wrong(key, f"no such key; there are {', '.join(shown)}")

    def wrong(self, key: str, why: str) -> NoReturn:
        """Refuse the value of a key, without repeating it."""
        raise UsageError(f"{self._file.path}: {self._place(key)}: {why}")

    def _place(self, key: str) -> str:
        return f"{self._name}.{key}" if self._name else key


VARIABLE = "BKAUDIT_CREDENTIALS"
"""The environment variable that names the file where no option does."""

MECHANISMS = ("DIGEST-MD5", "GSSAPI")


class _Stays:
    """What is read in every process by itself and never sent to one."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("credentials are read where they are used; send the path of their file")


@dataclass(frozen=True, slots=True)
class Login(_Stays):
    """A user and a password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sasl(_Stays):
    """How a SASL client logs in: with ``login`` (DIGEST-MD5), or as ``principal`` by a ticket (GSSAPI)."""

    mechanism: str
    login: Login | None = None
    service: str = "zookeeper"
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Tls(_Stays):
    """Files in PEM form, as absolute paths; ``ca`` None: the system's authorities.

    ``certificate`` and ``key`` are the client's, for servers that ask for one. ``verify`` False takes any
    server for the right one; ``check_hostname`` False takes any that the authority signed.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ZooKeeperCredentials(_Stays):
    """Any of the three, or all of them."""

    digest: Login | None = None
    sasl: Sasl | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class EtcdCredentials(_Stays):
    """``login`` None: no user; ``tls`` None: a plain connection."""

    login: Login | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class LedgerCredentials(_Stays):
    """``password`` None: none is known."""

    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Credentials(_Stays):
    """What one file says; empty where there is no file."""

    zookeeper: ZooKeeperCredentials = field(default_factory=ZooKeeperCredentials)
    etcd: EtcdCredentials = field(default_factory=EtcdCredentials)
    ledgers: LedgerCredentials = field(default_factory=LedgerCredentials)


def credentials_file(path: str | None) -> str | None:
    """The absolute path of the file that an option or BKAUDIT_CREDENTIALS names; None where neither does."""
    chosen = path or os.environ.get(VARIABLE)
    return str(Path(chosen).absolute()) if chosen else None


def read_credentials(path: str | None) -> Credentials:
    """Read the file at ``path``, or the one that BKAUDIT_CREDENTIALS names; none at all is no credentials.

    >>> Login("auditor", "a secret")
    Login(user='auditor')

    Raises:
        UsageError: no such file, not TOML, an unknown key, a wrong value, others may read it; the message
            names file and key, never a value.
    """
    chosen = credentials_file(path)
    if chosen is None:
        return Credentials()
    file = SecretFile(Path(chosen))
    zookeeper, etcd = file.top.section("zookeeper"), file.top.section("etcd")
    ledgers = file.top.section("ledgers")
    read = Credentials(
        zookeeper=_zookeeper(zookeeper) if zookeeper else ZooKeeperCredentials(),
        etcd=_etcd(etcd) if etcd else EtcdCredentials(),
        ledgers=LedgerCredentials(ledgers.require("password", secret=True) if ledgers else None),
    )
    file.end()
    return read


def _zookeeper(section: Section) -> ZooKeeperCredentials:
    digest, sasl, tls = section.section("digest"), section.section("sasl"), section.section("tls")
    return ZooKeeperCredentials(
        digest=_login(digest, colon=False) if digest else None,
        sasl=_sasl(sasl) if sasl else None,
        tls=_tls(tls, own_checks=True) if tls else None,
    )


def _etcd(section: Section) -> EtcdCredentials:
    tls = section.section("tls")
    login = _login(section) if section.has("user") or section.has("password") else None
    return EtcdCredentials(login, _tls(tls, own_checks=False) if tls else None)


def _login(section: Section, colon: bool = True) -> Login:
    login = Login(section.require("user"), section.require("password", secret=True))
    if not colon and ":" in login.user:
        section.wrong("user", "a colon ends the user where ZooKeeper reads user:password")
    return login


def _sasl(section: Section) -> Sasl:
    mechanism = section.require("mechanism")
    if mechanism not in MECHANISMS:
        section.wrong("mechanism", f"there are {', '.join(MECHANISMS)}")
    if mechanism == "DIGEST-MD5":
        return Sasl(mechanism, _login(section))
    service = section.text("service") or "zookeeper"
    return Sasl(mechanism, None, service, section.text("principal"))


def _tls(section: Section, own_checks: bool) -> Tls:
    ca, certificate, key = section.file("ca"), section.file("certificate"), section.file("key")
    if key and not certificate:
        section.wrong("key", "a key without its certificate")
    if not own_checks:
        return Tls(ca, certificate, key)
    verify = section.flag("verify")
    return Tls(
        ca,
        certificate,
        key,
        section.text("key_password", secret=True),
        verify,
        section.flag("check_hostname") and verify,
    )

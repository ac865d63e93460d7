"""Credentials for metadata stores and bookies: one TOML file with users, passwords and certificates.

    [zookeeper.digest]                  # addauth digest, for ACLs of the scheme digest
    user = "auditor"
    password_env = "ZK_PASSWORD"        # the value of that environment variable

    [zookeeper.sasl]                    # DIGEST-MD5, or GSSAPI (Kerberos) with service and principal
    mechanism = "DIGEST-MD5"
    user = "auditor"
    password = "..."

    [zookeeper.tls]                     # this section, even an empty one, means TLS
    ca = "ca.pem"                       # paths are relative to the directory of this file
    certificate = "auditor.pem"
    key = "auditor.key"

    [etcd]
    user = "auditor"
    password_env = "ETCD_PASSWORD"

    [etcd.tls]
    ca = "ca.pem"

    [oxia]
    token_env = "OXIA_TOKEN"            # OpenID Connect token, sent as `authorization: Bearer`

    [oxia.tls]
    ca = "ca.pem"

    [bookies.tls]                       # this section means TLS for all bookies
    ca = "ca.pem"
    certificate = "auditor.pem"
    key = "auditor.key"
    check_hostname = true               # default: false, as in BookKeeper's own client

    [bookies.sasl]                      # DIGEST-MD5, or GSSAPI
    mechanism = "DIGEST-MD5"
    user = "bookkeeper-auditor"
    password_env = "BOOKIE_PASSWORD"

    [ledgers]                           # the applications' password for their ledgers, for HMAC digests
    password_env = "LEDGER_PASSWORD"

Any key whose value is a string can be replaced by the key ``<key>_env``. Its value is the name of an
environment variable that contains the string.

Each task reads the secrets that it uses from the file. Secrets cannot be pickled, and neither a repr nor an
error message shows them.

Like ssh with private keys, the program refuses a file that contains a secret and that other users can read.
There is one exception: if root owns the file, its group may read it, because mounted secrets are such
files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from auditor.sources.metadata.secret_file import SecretFile, Section

CREDENTIALS_VARIABLE = "BKAUDIT_CREDENTIALS"
"""Environment variable that names the credentials file, used if no option names it."""

MECHANISMS = ("DIGEST-MD5", "GSSAPI")


class _NotPickled:
    """Base class of objects that contain secrets. These objects cannot be pickled.

    Each process reads its secrets from the credentials file instead.
    """

    __slots__ = ()

    def __reduce_ex__(self, pickle_protocol: Any) -> NoReturn:
        raise TypeError("credentials cannot be pickled; send the path of their file")


@dataclass(frozen=True, slots=True)
class Login(_NotPickled):
    """A user and a password."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Sasl(_NotPickled):
    """A SASL login with the mechanism DIGEST-MD5 or GSSAPI (Kerberos).

    DIGEST-MD5 uses ``login``. GSSAPI uses a Kerberos ticket of ``principal``. ``service`` is the service
    name in the server's principal.
    """

    mechanism: str
    login: Login | None = None
    service: str = "zookeeper"
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Tls(_NotPickled):
    """TLS files in PEM format, given as absolute paths.

    If ``ca`` is None, the client trusts the system's certificate authorities. ``certificate`` and ``key``
    belong to the client, for servers that require a client certificate. If ``verify`` is False, the client
    accepts any server. If ``check_hostname`` is False, the client accepts a valid certificate that was
    issued for any host.
    """

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ZooKeeperCredentials(_NotPickled):
    """Credentials for ZooKeeper: any combination of a digest login, a SASL login and TLS.

    An attribute is None if the credentials file does not configure it.
    """

    digest: Login | None = None
    sasl: Sasl | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class EtcdCredentials(_NotPickled):
    """Credentials for etcd.

    ``login`` is None if no user is configured. ``tls`` is None for a connection without TLS.
    """

    login: Login | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class OxiaCredentials(_NotPickled):
    """Credentials for Oxia.

    ``token`` is None if no login is configured. ``tls`` is None for a connection without TLS.
    """

    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class BookieCredentials(_NotPickled):
    """Credentials for bookies.

    ``tls`` is None for connections without TLS. ``sasl`` is None if no login is configured.
    """

    tls: Tls | None = None
    sasl: Sasl | None = None


@dataclass(frozen=True, slots=True)
class LedgerCredentials(_NotPickled):
    """The applications' password for their ledgers. ``password`` is None if it is not configured."""

    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Credentials(_NotPickled):
    """The content of a credentials file. If there is no file, all fields have their default values."""

    zookeeper: ZooKeeperCredentials = field(default_factory=ZooKeeperCredentials)
    etcd: EtcdCredentials = field(default_factory=EtcdCredentials)
    oxia: OxiaCredentials = field(default_factory=OxiaCredentials)
    ledgers: LedgerCredentials = field(default_factory=LedgerCredentials)
    bookies: BookieCredentials = field(default_factory=BookieCredentials)


def credentials_file(path: str | None) -> str | None:
    """Return the absolute path of the credentials file, or None if no file is configured.

    ``path`` is the value of the command-line option. If it is None, the environment variable
    BKAUDIT_CREDENTIALS names the file.
    """
    credentials_path = path or os.environ.get(CREDENTIALS_VARIABLE)
    return str(Path(credentials_path).absolute()) if credentials_path else None


def read_credentials(path: str | None) -> Credentials:
    """Read the credentials file at ``path``, and return its content.

    If ``path`` is None, the environment variable BKAUDIT_CREDENTIALS names the file. If this variable is
    not set either, return the defaults.

    >>> Login("auditor", "a secret")
    Login(user='auditor')

    Raises:
        UsageError: the file does not exist or is not TOML, it has an unknown key or an invalid value, or
            other users may read it. The message names the file and the key, never a value.
    """
    credentials_path = credentials_file(path)
    if credentials_path is None:
        return Credentials()
    file = SecretFile(Path(credentials_path))
    zookeeper, etcd = file.top_section.section("zookeeper"), file.top_section.section("etcd")
    oxia = file.top_section.section("oxia")
    bookies, ledgers = file.top_section.section("bookies"), file.top_section.section("ledgers")
    credentials = Credentials(
        zookeeper=_zookeeper_credentials(zookeeper) if zookeeper else ZooKeeperCredentials(),
        etcd=_etcd_credentials(etcd) if etcd else EtcdCredentials(),
        oxia=_oxia_credentials(oxia) if oxia else OxiaCredentials(),
        ledgers=LedgerCredentials(ledgers.required_text("password", secret=True) if ledgers else None),
        bookies=_bookie_credentials(bookies) if bookies else BookieCredentials(),
    )
    file.refuse_unread_keys()
    return credentials


def _zookeeper_credentials(section: Section) -> ZooKeeperCredentials:
    digest, sasl, tls = section.section("digest"), section.section("sasl"), section.section("tls")
    return ZooKeeperCredentials(
        digest=_read_login(digest, allows_colon=False) if digest else None,
        sasl=_read_sasl(sasl, "zookeeper") if sasl else None,
        tls=_read_tls(tls, has_verification_keys=True) if tls else None,
    )


def _bookie_credentials(section: Section) -> BookieCredentials:
    sasl, tls = section.section("sasl"), section.section("tls")
    return BookieCredentials(
        # Java's client does not verify host names by default, so many certificates have none.
        tls=_read_tls(tls, has_verification_keys=True, check_hostname=False) if tls else None,
        sasl=_read_sasl(sasl, "bookkeeper") if sasl else None,
    )


def _etcd_credentials(section: Section) -> EtcdCredentials:
    tls = section.section("tls")
    login = _read_login(section) if section.has_key("user") or section.has_key("password") else None
    return EtcdCredentials(login, _read_tls(tls, has_verification_keys=False) if tls else None)


def _oxia_credentials(section: Section) -> OxiaCredentials:
    token, tls = section.text("token", secret=True), section.section("tls")
    # gRPC refuses an invalid header with an error that repeats its value: the token.
    if token is not None and not (token.isascii() and token.isprintable()):
        section.raise_wrong_value(
            "token", "must not contain characters that a header does not allow, such as a line break"
        )
    return OxiaCredentials(token, _read_tls(tls, has_verification_keys=False) if tls else None)


def _read_login(section: Section, allows_colon: bool = True) -> Login:
    login = Login(section.required_text("user"), section.required_text("password", secret=True))
    if not allows_colon and ":" in login.user:
        section.raise_wrong_value("user", "must not contain a colon: ZooKeeper reads user:password")
    return login


def _read_sasl(section: Section, default_service: str) -> Sasl:
    mechanism = section.required_text("mechanism")
    if mechanism not in MECHANISMS:
        section.raise_wrong_value("mechanism", f"must be one of {', '.join(MECHANISMS)}")
    if mechanism == "DIGEST-MD5":
        return Sasl(mechanism, _read_login(section), default_service)
    service = section.text("service") or default_service
    return Sasl(mechanism, None, service, section.text("principal"))


def _read_tls(section: Section, has_verification_keys: bool, check_hostname: bool = True) -> Tls:
    ca, certificate, key = section.file("ca"), section.file("certificate"), section.file("key")
    if key and not certificate:
        section.raise_wrong_value("key", "is set without a certificate; add certificate")
    if not has_verification_keys:
        return Tls(ca, certificate, key)
    verify = section.boolean("verify")
    return Tls(
        ca,
        certificate,
        key,
        section.text("key_password", secret=True),
        verify,
        section.boolean("check_hostname", check_hostname) and verify,
    )

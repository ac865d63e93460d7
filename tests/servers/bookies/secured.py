"""Bookies that require TLS, a login or a role, and the identities of their clients.

with EmbeddedZooKeeper(root / "zookeeper") as server:
    secured = Security(root / "security", Kind.ROLES)
    with secured.bookies(f"zk+hierarchical://{server.hosts}/ledgers", root, release="4.14.7") as cluster:
        secured.credentials()
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.servers.bookies.driver import HOST, Bookies
from tests.servers.bookies.jars import RELEASE
from tests.servers.certificates import Certificates, certificates, client_certificate
from tests.servers.kerberos import Kdc

USER, PASSWORD = "bookkeeper-auditor", "hunter2-hunter2"


class Kind(StrEnum):
    """The security that a bookie requires of its clients."""

    PLAIN = "plain"
    TLS = "tls"  # a client that speaks TLS has to show a certificate; who does not is served all the same
    ROLES = "roles"  # TLS with a certificate of an authorised role
    SASL = "sasl"
    TLS_SASL = "tls-sasl"
    GSSAPI = "gssapi"


@dataclass(frozen=True)
class Security:
    """Keys, passwords and settings of one cluster, below ``directory``, which must not exist yet."""

    directory: Path
    kind: Kind
    kdc: Kdc | None = None  # of GSSAPI

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)

    @property
    def has_tls(self) -> bool:
        return self.kind in (Kind.TLS, Kind.ROLES, Kind.TLS_SASL)

    @property
    def has_sasl(self) -> bool:
        return self.kind in (Kind.SASL, Kind.TLS_SASL, Kind.GSSAPI)

    def bookies(
        self, uri: str, root: Path, storage: str = "SortedLedgerStorage", release: str = RELEASE
    ) -> Bookies:
        """Return three bookies, with a client that they serve."""
        server: dict[str, str | int] = {}
        client: dict[str, str | int] = {}
        options: list[str] = []
        if self.has_tls:
            pem = self.pem()
            tls = {
                "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
                "tlsProvider": "JDK",
                "tlsKeyStoreType": "PEM",
                "tlsTrustStoreType": "PEM",
                "tlsTrustStore": str(pem.ca),
                "tlsClientAuthentication": "true",
            }
            server |= tls | {"tlsKeyStore": str(pem.server_key), "tlsCertificatePath": str(pem.server)}
            own, key = self.client("bookie", "0:bookie")
            client |= tls | {"tlsKeyStore": str(key), "tlsCertificatePath": str(own)}
        if self.kind is Kind.ROLES:
            server |= {
                "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory",
                "authorizedRoles": "bookie,auditor",
            }
        if self.has_sasl:
            server |= {
                "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory",
            }
            # The client of TLS and SASL together sometimes fails at its start: it logs in without TLS.
            client = {
                "clientAuthProviderFactoryClass": "org.apache.bookkeeper.sasl.SASLClientProviderFactory",
            }
            options.append(f"-Djava.security.auth.login.config={self._jaas()}")
            options += self.kdc.java_options() if self.kdc else []
        # A busy machine is slow to log in: 5 s, the client's own limit, are not enough.
        client |= {"addEntryTimeoutSec": 60, "readEntryTimeoutSec": 60}
        return Bookies(
            uri,
            root,
            storage,
            [None] * 3,
            release=release,
            settings=server,
            client_settings=client,
            java_options=options,
        )

    def pem(self) -> Certificates:
        """Return the authority, the server's certificate and one of a client without a role, made once."""
        return certificates(self.directory)

    def client(self, name: str, unit: str) -> tuple[Path, Path]:
        """Return the certificate and key of a client with this OU, made once."""
        return client_certificate(self.directory, name, unit)

    def tls_section(self, **overrides: str) -> str:
        """Return the TLS section of an auditor's credentials file, with its own role if roles count."""
        certificate, key = self.client("auditor", "0:auditor;1:clusterA")
        keys = {"ca": self.pem().ca, "certificate": certificate, "key": key} | overrides
        return "[bookies.tls]\n" + "".join(f'{name} = "{value}"\n' for name, value in keys.items())

    def sasl_section(self, user: str = USER, password: str = PASSWORD) -> str:
        return f'[bookies.sasl]\nmechanism = "DIGEST-MD5"\nuser = "{user}"\npassword = "{password}"\n'

    def credentials(self, text: str | None = None) -> str:
        """Return the path of a new credentials file with ``text``, or else with these bookies' needs."""
        if text is None:
            text = self.tls_section() if self.has_tls else ""
            text += self.sasl_section() if self.has_sasl and self.kdc is None else ""
            text += '[bookies.sasl]\nmechanism = "GSSAPI"\n' if self.kdc else ""
        number = len([*self.directory.glob("credentials*.toml")])
        path = self.directory / f"credentials{number}.toml"
        path.touch(mode=0o600)
        path.write_text(text)
        return str(path)

    def _jaas(self) -> Path:
        module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
        users = f'user_bookkeeper="{PASSWORD}" user_{USER}="{PASSWORD}" user_stranger="{PASSWORD}"'
        login = f'{module} username="bookkeeper" password="{PASSWORD}";'
        sections = f"Bookie {{ {module} {users}; }};\nBookKeeper {{ {login} }};\nAuditor {{ {login} }};\n"
        if self.kdc is not None:
            server, client = f"bookkeeper/{HOST}", "bookkeeper-client"
            for principal in (server, client, USER, "stranger"):
                self.kdc.keytab(principal)
            sections = self.kdc.jaas("Bookie", server) + "".join(
                self.kdc.jaas(name, client, initiator=True) for name in ("BookKeeper", "Auditor")
            )
        path = self.directory / "jaas.conf"
        path.write_text(sections)
        return path

"""Credentials: they are read from a file or the environment, and never shown."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from auditor.errors import UsageError
from auditor.sources.metadata.credentials import (
    Credentials,
    EtcdCredentials,
    Login,
    Sasl,
    Tls,
    ZooKeeperCredentials,
    credentials_file,
    read_credentials,
)

SECRET = "hunter2-hunter2"
WHOLE = f"""
[zookeeper.digest]
user = "ann"
password = "{SECRET}"
[zookeeper.sasl]
mechanism = "DIGEST-MD5"
user = "ann"
password = "{SECRET}"
[zookeeper.tls]
ca = "ca.pem"
certificate = "client.pem"
key = "client.key"
key_password = "{SECRET}"
[etcd]
user = "bob"
password = "{SECRET}"
[etcd.tls]
ca = "ca.pem"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).write_text("")
    path = tmp_path / "credentials.toml"
    path.touch(mode=0o600)
    return path


def test_complete_file_is_parsed(file: Path) -> None:
    file.write_text(WHOLE)
    ca, certificate, key = (str(file.parent / name) for name in ("ca.pem", "client.pem", "client.key"))
    assert read_credentials(str(file)) == Credentials(
        ZooKeeperCredentials(
            Login("ann", SECRET),
            Sasl("DIGEST-MD5", Login("ann", SECRET)),
            Tls(ca, certificate, key, SECRET),
        ),
        EtcdCredentials(Login("bob", SECRET), Tls(ca)),
    )


def test_no_file_gives_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BKAUDIT_CREDENTIALS", raising=False)
    assert read_credentials(None) == Credentials()
    assert credentials_file(None) is None


def test_option_wins_over_the_file_named_in_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(WHOLE)
    monkeypatch.setenv("BKAUDIT_CREDENTIALS", str(file))
    assert read_credentials(None).etcd.login == Login("bob", SECRET)
    other_file = file.with_name("other.toml")
    other_file.write_text("[etcd]")
    assert read_credentials(str(other_file)) == Credentials()
    monkeypatch.chdir(file.parent)
    assert credentials_file("other.toml") == str(other_file)


def test_values_may_come_from_environment_variables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[etcd]\nuser_env = "WHO"\npassword_env = "HOW"')
    monkeypatch.setenv("WHO", "bob")
    monkeypatch.setenv("HOW", SECRET)
    assert read_credentials(str(file)).etcd.login == Login("bob", SECRET)


def test_gssapi_needs_no_password(file: Path) -> None:
    file.write_text('[zookeeper.sasl]\nmechanism = "GSSAPI"\nprincipal = "ann@EXAMPLE"')
    assert read_credentials(str(file)).zookeeper.sasl == Sasl("GSSAPI", None, "zookeeper", "ann@EXAMPLE")


def test_empty_tls_section_means_tls_with_the_system_authorities(file: Path) -> None:
    file.write_text("[zookeeper.tls]\n[etcd.tls]")
    read = read_credentials(str(file))
    assert read.zookeeper.tls == read.etcd.tls == Tls()
    file.write_text("[zookeeper.tls]\nverify = false")
    tls = read_credentials(str(file)).zookeeper.tls
    assert tls == Tls(verify=False, check_hostname=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'[zoo]\npassword = "{SECRET}"', "zoo: unknown key; the valid keys are zookeeper, etcd"),
        (
            f'[etcd]\npasswrod = "{SECRET}"',
            "etcd.passwrod: unknown key; the valid keys are tls, user, password|",
        ),
        (f'[etcd]\npassword = "{SECRET}"', "etcd.user: is required here"),
        (f'[etcd]\nuser = "{SECRET}"', "etcd.password: is required here"),
        (f'etcd = "{SECRET}"', r"etcd: must be a section, as in \[etcd\]"),
        (f'[etcd]\nuser = "u"\npassword = ["{SECRET}"]', "etcd.password: must be a string that is not empty"),
        ('[etcd]\nuser = "u"\npassword = ""', "etcd.password: must be a string that is not empty"),
        (
            f'[etcd]\nuser = "u"\npassword = "{SECRET}"\npassword_env = "X"',
            "etcd.password: given twice",
        ),
        (
            f'[etcd]\nuser = "u"\npassword_env = "{SECRET}"',
            "etcd.password_env: the environment variable is not set, or is empty",
        ),
        (
            f'[zookeeper.digest]\nuser = "{SECRET}:"\npassword = "{SECRET}"',
            "zookeeper.digest.user: must not contain a colon",
        ),
        (
            f'[zookeeper.sasl]\nmechanism = "{SECRET}"',
            "zookeeper.sasl.mechanism: must be one of DIGEST-MD5, GSSAPI",
        ),
        (f'[zookeeper.tls]\nverify = "{SECRET}"', "zookeeper.tls.verify: must be true or false"),
        (f'[zookeeper.tls]\nca = "{SECRET}"', "zookeeper.tls.ca: no such file"),
        ('[zookeeper.tls]\nkey = "client.key"', "zookeeper.tls.key: is set without a certificate"),
        (f'[etcd.tls]\nkey_password = "{SECRET}"', "etcd.tls.key_password: unknown key"),
        (f"[etcd]\npassword = {SECRET}", "not TOML"),
        (f'[etcd]\npassword = "{SECRET}', "not TOML"),
    ],
)
def test_invalid_setting_is_rejected_by_file_and_key_without_its_value(
    file: Path, text: str, message: str
) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=message) as refused:
        read_credentials(str(file))
    assert str(file) in str(refused.value)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_missing_or_non_text_file_is_a_usage_error(file: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot read the credentials: No such file"):
        read_credentials(str(file.with_name("none.toml")))
    file.write_bytes(b"\xff" + SECRET.encode())
    with pytest.raises(UsageError, match="not UTF-8 text") as refused:
        read_credentials(str(file))
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o777])
def test_secret_readable_by_other_users_is_rejected(file: Path, mode: int) -> None:
    file.write_text(WHOLE)
    file.chmod(mode)
    with pytest.raises(UsageError, match=r"other users may read this file.*chmod 600") as refused:
        read_credentials(str(file))
    assert SECRET not in str(refused.value)


def test_file_without_a_secret_may_be_readable_by_everyone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOW", SECRET)
    file.write_text('[etcd]\nuser = "bob"\npassword_env = "HOW"\n[etcd.tls]\nca = "ca.pem"')
    file.chmod(0o644)
    assert read_credentials(str(file)).etcd.login == Login("bob", SECRET)


def test_secrets_are_not_in_repr_and_cannot_be_pickled_or_copied(file: Path) -> None:
    file.write_text(WHOLE)
    read = read_credentials(str(file))
    assert SECRET not in repr(read)
    assert SECRET not in str(read.zookeeper.sasl)
    for part in (read, read.zookeeper, read.zookeeper.digest, read.zookeeper.tls, read.etcd.login):
        for leave in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="send the path of their file"):
                leave(part)


def test_ledger_password_is_read_and_not_in_repr(file: Path) -> None:
    file.write_text(f'[ledgers]\npassword = "{SECRET}"\n')
    file.chmod(0o600)
    read = read_credentials(str(file))
    assert read.ledgers.password == SECRET
    assert SECRET not in repr(read)
    file.write_text("[ledgers]\n")
    with pytest.raises(UsageError, match=r"ledgers\.password: is required here"):
        read_credentials(str(file))

"""Credentials: read from a file or the environment, and shown nowhere."""

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


def test_a_whole_file_says_who_the_audit_is_everywhere(file: Path) -> None:
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


def test_no_file_is_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BKAUDIT_CREDENTIALS", raising=False)
    assert read_credentials(None) == Credentials()
    assert credentials_file(None) is None


def test_the_environment_may_name_the_file_and_the_option_goes_before_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(WHOLE)
    monkeypatch.setenv("BKAUDIT_CREDENTIALS", str(file))
    assert read_credentials(None).etcd.login == Login("bob", SECRET)
    other = file.with_name("other.toml")
    other.write_text("[etcd]")
    assert read_credentials(str(other)) == Credentials()
    monkeypatch.chdir(file.parent)
    assert credentials_file("other.toml") == str(other)


def test_any_text_may_come_from_the_environment(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('[etcd]\nuser_env = "WHO"\npassword_env = "HOW"')
    monkeypatch.setenv("WHO", "bob")
    monkeypatch.setenv("HOW", SECRET)
    assert read_credentials(str(file)).etcd.login == Login("bob", SECRET)


def test_gssapi_needs_no_password_here(file: Path) -> None:
    file.write_text('[zookeeper.sasl]\nmechanism = "GSSAPI"\nprincipal = "ann@EXAMPLE"')
    assert read_credentials(str(file)).zookeeper.sasl == Sasl("GSSAPI", None, "zookeeper", "ann@EXAMPLE")


def test_an_empty_section_means_tls_with_the_systems_authorities(file: Path) -> None:
    file.write_text("[zookeeper.tls]\n[etcd.tls]")
    read = read_credentials(str(file))
    assert read.zookeeper.tls == read.etcd.tls == Tls()
    file.write_text("[zookeeper.tls]\nverify = false")
    tls = read_credentials(str(file)).zookeeper.tls
    assert tls == Tls(verify=False, check_hostname=False)


@pytest.mark.parametrize(
    ("text", "said"),
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
def test_what_cannot_be_meant_is_refused_by_file_and_key_and_never_by_value(
    file: Path, text: str, said: str
) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=said) as refused:
        read_credentials(str(file))
    assert str(file) in str(refused.value)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_file_that_is_not_there_or_no_text_is_refused(file: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot read the credentials: No such file"):
        read_credentials(str(file.with_name("none.toml")))
    file.write_bytes(b"\xff" + SECRET.encode())
    with pytest.raises(UsageError, match="not UTF-8 text") as refused:
        read_credentials(str(file))
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o777])
def test_a_secret_that_others_may_read_is_refused_as_ssh_does(file: Path, mode: int) -> None:
    file.write_text(WHOLE)
    file.chmod(mode)
    with pytest.raises(UsageError, match=r"other users may read this file.*chmod 600") as refused:
        read_credentials(str(file))
    assert SECRET not in str(refused.value)


def test_a_file_without_a_secret_may_be_read_by_everyone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOW", SECRET)
    file.write_text('[etcd]\nuser = "bob"\npassword_env = "HOW"\n[etcd.tls]\nca = "ca.pem"')
    file.chmod(0o644)
    assert read_credentials(str(file)).etcd.login == Login("bob", SECRET)


def test_secrets_are_in_no_repr_and_refuse_to_travel(file: Path) -> None:
    file.write_text(WHOLE)
    read = read_credentials(str(file))
    assert SECRET not in repr(read)
    assert SECRET not in str(read.zookeeper.sasl)
    for part in (read, read.zookeeper, read.zookeeper.digest, read.zookeeper.tls, read.etcd.login):
        for leave in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="send the path of their file"):
                leave(part)


def test_the_password_of_ledgers_is_kept_from_every_eye(file: Path) -> None:
    file.write_text(f'[ledgers]\npassword = "{SECRET}"\n')
    file.chmod(0o600)
    read = read_credentials(str(file))
    assert read.ledgers.password == SECRET
    assert SECRET not in repr(read)
    file.write_text("[ledgers]\n")
    with pytest.raises(UsageError, match=r"ledgers\.password: is required here"):
        read_credentials(str(file))

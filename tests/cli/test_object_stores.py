"""A wrong key, missing rights or a missing bucket wherever a user names a place: exit code 4, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import Result

from auditor.sources import object_stores
from auditor.sources.object_stores import service_error_text
from tests.cli.test_doors import bkaudit
from tests.corpora.corpora import Corpus, unpack
from tests.made_runs import made_run
from tests.servers import s3

Environment = dict[str, str]


class Store(NamedTuple):
    """A store with a finished run below ``run``, the environment variables of its users, and a corpus."""

    run: str
    users: dict[str, Environment]
    corpus: Corpus


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    root = tmp_path_factory.mktemp("s3")
    made_run(root / "run")
    with s3.running_with_users(root / "server") as (server, users):
        writer = users["writer"]
        users["wrong secret"] = writer | {"AWS_SECRET_ACCESS_KEY": "x" * 40}
        users["unknown key"] = writer | {"AWS_ACCESS_KEY_ID": "AKIANOBODYNOBODYNOBO"}
        run = server.upload(root / "run", "run", s3.file_system(writer))
        yield Store(run, users, unpack("flat-v1", root / "corpus"))


DENIED = ("wrong secret", "unknown key", "stranger")
WORDS = {
    "wrong secret": "AWS Error SIGNATURE_DOES_NOT_MATCH during ListObjectsV2 operation: The request sig",
    "unknown key": "AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation: The AWS Access Key Id",
    "stranger": "AWS Error ACCESS_DENIED during ListObjectsV2 operation: Access Denied",
}


def call(
    store: Store, user: str, monkeypatch: pytest.MonkeyPatch, command: str, place: str, out: Path
) -> Result:
    """Run one of the commands that take a place, as this user."""
    for name, value in store.users[user].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(object_stores, "_checked_buckets", set())
    metadata = ("--metadata", f"dump://{store.corpus.dump}")
    arguments = {
        "collect": ("collect", "--bookies", str(store.corpus.bookies), "--out", place),
        "audit": ("audit", *metadata, "--out", place),
        "audit --bookies": ("audit", *metadata, "--bookies", place, "--out", str(out)),
        "audit --since": ("audit", *metadata, "--since", place, "--out", str(out)),
        "report": ("report", place),
        "explain": ("explain", "run", place),
    }
    return bkaudit(*arguments[command])


COMMANDS = ("collect", "audit", "audit --bookies", "audit --since", "report", "explain")


def assert_refused(outcome: Result, words: str) -> None:
    assert outcome.exit_code == 4, outcome.output
    [line] = outcome.stderr.strip().splitlines()
    assert line.startswith("bkaudit: ")
    assert words in line
    for wrong in ("damaged", "bug", "Request ID", "Traceback"):
        assert wrong not in outcome.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("user", DENIED)
def test_denied_user_gets_the_error_text_of_the_service(
    store: Store, user: str, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = store.run if command in COMMANDS[2:] else f"{store.run}-new"
    outcome = call(store, user, monkeypatch, command, place, tmp_path / "run")
    assert_refused(outcome, WORDS[user])
    assert place in outcome.stderr
    assert store.users[user]["AWS_SECRET_ACCESS_KEY"] not in outcome.output


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_bucket_is_named(
    store: Store, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = "s3a://no-such-bucket/run"
    outcome = call(store, "writer", monkeypatch, command, place, tmp_path / "run")
    assert_refused(
        outcome, f"{place}: there is no bucket no-such-bucket; check the name, the endpoint and the region"
    )


@pytest.mark.parametrize("command", ["audit --since", "report", "explain"])
def test_run_that_may_be_listed_but_not_read_is_not_damaged(
    store: Store, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = call(store, "lister", monkeypatch, command, store.run, tmp_path / "run")
    assert_refused(outcome, "AWS Error ACCESS_DENIED")
    assert store.run in outcome.stderr


@pytest.mark.parametrize("command", ["collect", "audit"])
def test_place_that_may_be_read_but_not_written_is_refused(
    store: Store, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outcome = call(store, "reader", monkeypatch, command, f"{store.run}-mine", tmp_path / "run")
    assert_refused(outcome, "AWS Error ACCESS_DENIED")


def test_permitted_reader_can_read_and_a_wrong_path_is_wrong_usage(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert call(store, "reader", monkeypatch, "report", store.run, tmp_path).exit_code in (0, 1, 3)
    outcome = call(store, "reader", monkeypatch, "report", f"{store.run}-elsewhere", tmp_path)
    assert outcome.exit_code == 2, outcome.output


def test_damage_is_not_mistaken_for_a_refusal() -> None:
    for error in (
        OSError("Parquet magic bytes not found in footer"),
        ValueError("AWS Error X"),
        OSError(5, "Input"),
    ):
        assert service_error_text(error) is None

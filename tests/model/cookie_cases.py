"""Bookies, and the answers of bookkeeper-server 4.17.2 to their start.

``cookie-validation/vectors.json.gz`` has 300 bookies with random cookies, laid out as real directories. Two
server classes checked them behind ``Main.storageDirectoriesFromConf``. LegacyCookieValidation is ``legacy``,
or ``expansion`` with allowStorageExpansion. DataIntegrityCookieValidation is ``integrity``, or ``stamping``
with dataIntegrityStampMissingCookies and a check that succeeds. Their paths were below a temporary directory,
written here as /data. The corpora's oracle has both answers of LegacyCookieValidation for every bookie.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from auditor.codecs.bookie import cookie as cookie_codec
from auditor.errors import DecodeError
from auditor.model.cookie import Cookie, infer_configuration
from auditor.model.start_refusal import BookieDirectory, MissingVersion, UnreadableCookie, configured_paths
from tests.corpora.plain_readers import read_dump

DATA = Path(__file__).parents[1] / "data"
CORPORA = ("dbledger-long", "flat-v1", "interleaved-hier")


@dataclass(frozen=True)
class Case:
    """A bookie before its start. ``answers`` has, by validation, None or the server's error and message."""

    expected: Cookie
    stored: Cookie | UnreadableCookie | None
    directories: list[BookieDirectory]
    answers: dict[str, dict[str, str] | None]

    @property
    def candidates(self) -> list[tuple[str, Cookie | UnreadableCookie]]:
        return [] if self.stored is None else [(self.expected.bookie_id, self.stored)]


def read(text: bytes) -> Cookie | UnreadableCookie:
    try:
        return cookie_codec.decode(text)
    except DecodeError as error:
        return UnreadableCookie(error.reason)


@cache
def vectors() -> list[Case]:
    rows = json.loads(gzip.decompress((DATA / "cookie-validation" / "vectors.json.gz").read_bytes()))
    return [_vector(row) for row in rows]


def _vector(row: dict[str, Any]) -> Case:
    index = row["indexDirs"]
    return Case(
        Cookie(
            5,
            row["bookieId"],
            ",".join(row["journalDirs"]),
            tuple(row["ledgerDirs"]),
            tuple(index) if index else None,
            row["instanceId"],
        ),
        None if row["stored"] is None else read(row["stored"].encode()),
        [
            BookieDirectory(
                directory["path"],
                directory["role"],
                MissingVersion(directory["empty"], directory["oldData"])
                if directory["version"] is None
                else read(directory["version"].encode()),
            )
            for directory in row["directories"]
        ],
        row["answers"],
    )


@cache
def store_of(name: str) -> tuple[str, dict[str, Cookie | UnreadableCookie], dict[str, bytes]]:
    """Return a corpus's instance id, and its store's cookies and registration data by bookie id."""
    znodes = read_dump(DATA / name / "metadata.jsonl.gz")
    cookies = {
        path.rpartition("/")[2]: read(node["data"])
        for path, node in znodes.items()
        if path.startswith("/ledgers/cookies/")
    }
    registered = {
        path.rpartition("/")[2]: node["data"]
        for path, node in znodes.items()
        if path.startswith("/ledgers/available/") and path != "/ledgers/available/readonly"
    }
    return znodes["/ledgers/INSTANCEID"]["data"].decode(), cookies, registered


@cache
def versions_of(name: str) -> dict[str, dict[str, Cookie]]:
    """Return the VERSION files of a corpus, by bookie and directory name."""
    versions: dict[str, dict[str, Cookie]] = {}
    with tarfile.open(DATA / name / "bookies.tar.gz") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if parts[-2:] == ("current", "VERSION"):
                stream = archive.extractfile(member)
                assert stream is not None
                cookie = read(stream.read())
                assert isinstance(cookie, Cookie)
                versions.setdefault(parts[1].replace("_", ":"), {})[parts[2]] = cookie
    return versions


def corpus_cases(name: str) -> dict[str, Case]:
    """Return a corpus's bookies by id, with the configuration that their cookies imply."""
    oracle = json.loads(gzip.decompress((DATA / name / "oracle.json.gz").read_bytes()))["cookieValidation"]
    instance_id, cookies, _ = store_of(name)
    cases = {}
    for bookie, oracle_row in oracle.items():
        versions, stored = versions_of(name)[bookie], cookies.get(bookie)
        inferred = infer_configuration(
            bookie, list(versions.values()), stored if isinstance(stored, Cookie) else None
        )
        assert inferred is not None
        expected = inferred.expected_cookie(bookie, instance_id)
        directories = [
            BookieDirectory(path, role, versions[path.rpartition("/")[2]])
            for role, path in configured_paths(expected)
        ]
        answers = {
            mode: None if oracle_row[key] == "ok" else oracle_row[key]
            for mode, key in (("legacy", "validation"), ("expansion", "validationAllowingExpansion"))
        }
        cases[bookie] = Case(expected, stored, directories, answers)
    return cases

"""The expected result of each bookie's next start, compared with the server's answer on the same disks."""

from __future__ import annotations

from auditor.sources.bookies.owners import attribute_directories
from auditor.sources.bookies.places import find_places
from auditor.sources.metadata.stores import open_store
from auditor.tables.registry import instance_id, store_cookies
from auditor.tables.starts import starts
from tests.corpora.corpora import Corpus

WRONG_INSTANCE = {"store-instance", "version-instance"}


def test_predicted_start_errors_match_the_servers_cookie_validation(corpus: Corpus) -> None:
    cluster = open_store(f"dump://{corpus.dump}").cluster()
    cookies = store_cookies(cluster)
    oracle = corpus.oracle["cookieValidation"]
    directories = attribute_directories(
        find_places([str(corpus.bookies)]), set(oracle), {}, instance_id(cluster)
    ).found_directories
    rows = {row["bookie_id"]: row for row in starts(directories, cookies, instance_id(cluster))}
    assert set(rows) == set(oracle)
    for bookie, answers in oracle.items():
        for prefix, mode in (("", "validation"), ("expansion_", "validationAllowingExpansion")):
            answer = answers[mode]
            row = rows[bookie]
            assert row[f"{prefix}error"] == (None if answer == "ok" else answer["error"]), bookie
            if answer != "ok":
                of_instance = answer["message"].startswith("instanceId")
                assert (row[f"{prefix}fault"] in WRONG_INSTANCE) is of_instance, bookie

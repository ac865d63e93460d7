"""Many questions to the server's placement policies, 4.17.2, and their answers, in one Java process.

For clusters with isolation groups, Pulsar's own policy of 4.2.4 answers, with the BookKeeper that it ships.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditor.spark.java import find_java
from tests.servers.bookies.jars import classpath, compiled_classpath, needs_java
from tests.servers.java import SHORT_LIVED

JAVA = Path(__file__).parent / "java"
SOURCE = JAVA / "PlacementOracle.java"
PACKAGE = "org.apache.bookkeeper.client"
LIMIT_S = 500


@dataclass(frozen=True)
class Cluster:
    """A cluster of numbered bookies. Some have ``locations``; ``writable`` is in the order of joining.

    The policy "isolated" reads ``groups`` in Pulsar's mapping.
    """

    policy: str
    settings: dict[str, object] = field(default_factory=dict)
    locations: dict[int, str] = field(default_factory=dict)
    writable: Sequence[int] = ()
    readonly: Sequence[int] = ()
    groups: dict[str, list[int]] | None = None

    def lines(self) -> list[str]:
        """Return the input lines that create a policy for this cluster."""
        settings = [f"{key}={str(value).lower()}" for key, value in self.settings.items()]
        if self.groups is not None:
            mapping = {
                group: {f"127.9.9.{bookie}:3181": {"rack": "/r"} for bookie in bookies}
                for group, bookies in self.groups.items()
            }
            settings.append(f"groups={base64.b64encode(json.dumps(mapping).encode()).decode()}")
        return [
            f"map {' '.join(f'{bookie}={path}' for bookie, path in self.locations.items())}",
            " ".join(["policy", self.policy, *settings]),
            f"readonly {' '.join(map(str, self.readonly))}",
            f"writable {' '.join(map(str, self.writable))}",
        ]


def adhere(ensemble: Sequence[int], write_quorum: int) -> str:
    """Return the question for a verdict on an ensemble."""
    return f"adhere {','.join(map(str, ensemble)) or '-'} {write_quorum} {write_quorum}"


def replace(
    ensemble: Sequence[int],
    position: int,
    write_quorum: int,
    ack_quorum: int,
    tries: int,
    config: bytes | None = None,
) -> str:
    """Return the question for every replacement that is chosen. ``config`` is the ledger's own."""
    question = f"replace {','.join(map(str, ensemble))} {position} {write_quorum} {ack_quorum} {tries}"
    return question + _config(config)


def make(ensemble: int, write_quorum: int, ack_quorum: int, tries: int, config: bytes | None = None) -> str:
    """Return the question for how many tries make an ensemble, and which bookies are left out."""
    return f"new {ensemble} {write_quorum} {ack_quorum} {tries}{_config(config)}"


def _config(config: bytes | None) -> str:
    return "" if config is None else f" {base64.b64encode(config).decode()}"


def ask(questions: Iterable[tuple[Cluster, Sequence[str]]], pulsar: bool = False) -> list[list[str]]:
    """Return the answers to each cluster's questions; skip the test without Maven or a Java compiler."""
    if pulsar:
        needs_java()
        sources = [SOURCE, JAVA / "IsolatedOracle.java"]
        classes, main = compiled_classpath("placement", JAVA / "pom.xml", sources), "IsolatedOracle"
    else:
        classes, main = classpath(java_files=[SOURCE]), "PlacementOracle"
    clusters = list(questions)
    lines = [[*cluster.lines(), *cluster_questions] for cluster, cluster_questions in clusters]
    done = subprocess.run(
        [
            str(find_java().executable),
            *SHORT_LIVED,
            "-Dlog4j2.level=OFF",
            "-cp",
            classes,
            f"{PACKAGE}.{main}",
        ],
        input="".join(f"{line}\n" for cluster_lines in lines for line in cluster_lines),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    answers = iter([line[2:] for line in done.stdout.splitlines() if line.startswith("> ")])
    cluster_answers = []
    for (cluster, cluster_questions), cluster_lines in zip(clusters, lines, strict=True):
        replies = [next(answers) for _ in cluster_lines]
        setup_count = len(cluster_lines) - len(cluster_questions)
        assert replies[:setup_count] == ["ok"] * setup_count, (cluster, replies)
        cluster_answers.append(replies[setup_count:])
    return cluster_answers

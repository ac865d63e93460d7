"""The server's placement policies, 4.17.2, asked in one Java process: many questions, an answer for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditor.spark.java import find_java
from tests.servers.bookies.jars import classpath
from tests.servers.java import SHORT_LIVED

SOURCE = Path(__file__).parent / "java" / "PlacementOracle.java"
MAIN = "org.apache.bookkeeper.client.PlacementOracle"
LIMIT_S = 500


@dataclass(frozen=True)
class Cluster:
    """Bookies are numbers: ``locations`` of some, ``writable`` in the order in which they joined."""

    policy: str
    settings: dict[str, object] = field(default_factory=dict)
    locations: dict[int, str] = field(default_factory=dict)
    writable: Sequence[int] = ()
    readonly: Sequence[int] = ()

    def lines(self) -> list[str]:
        """What makes a policy of it."""
        settings = " ".join(f"{key}={str(value).lower()}" for key, value in self.settings.items())
        return [
            f"map {' '.join(f'{bookie}={path}' for bookie, path in self.locations.items())}",
            f"policy {self.policy} {settings}",
            f"readonly {' '.join(map(str, self.readonly))}",
            f"writable {' '.join(map(str, self.writable))}",
        ]


def adhere(ensemble: Sequence[int], write_quorum: int) -> str:
    """The question for a verdict."""
    return f"adhere {','.join(map(str, ensemble)) or '-'} {write_quorum} {write_quorum}"


def replace(ensemble: Sequence[int], position: int, write_quorum: int, ack_quorum: int, tries: int) -> str:
    """The question for every bookie that is chosen."""
    return f"replace {','.join(map(str, ensemble))} {position} {write_quorum} {ack_quorum} {tries}"


def ask(questions: Iterable[tuple[Cluster, Sequence[str]]]) -> list[list[str]]:
    """The answers to each cluster's questions; skips where Maven or a Java compiler is lacking."""
    classes = classpath(more=[SOURCE])
    clusters = list(questions)
    lines = [[*cluster.lines(), *asked] for cluster, asked in clusters]
    done = subprocess.run(
        [str(find_java().executable), *SHORT_LIVED, "-Dlog4j2.level=OFF", "-cp", classes, MAIN],
        input="".join(f"{line}\n" for each in lines for line in each),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    answers = iter([line[2:] for line in done.stdout.splitlines() if line.startswith("> ")])
    found = []
    for (cluster, asked), each in zip(clusters, lines, strict=True):
        said = [next(answers) for _ in each]
        made = len(each) - len(asked)
        assert said[:made] == ["ok"] * made, (cluster, said)
        found.append(said[made:])
    return found

"""A test fails if it starts Spark, a server or bookies without having the marker for it.

`tests.tiers` sets markers by the harness code that a test can reach. This module compares every process
that a test starts with the test's marker, so that no marker is missing. This includes processes that the
product starts, and Python processes that start Spark.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import Tier

BOOKIES = re.compile(r"(?:\w*Harness|LivingBookie|org\.apache\.bookkeeper\.server\.Main)")
"""Main classes of Java processes in which bookies run."""

OTHER_SERVERS = re.compile(r"org\.apache\.(?:zookeeper|bookkeeper|pulsar)\..*")
"""Main classes of servers' packages; programs of tests stand there too, and call the classes beside them."""

STARTS_SPARK = re.compile(r"build_session\(|main\(\[?'(?:audit|demo)'")
"""Text of a program for ``python -c`` that starts Spark."""

AUDIT_COMMANDS = {"audit", "demo", "watch"}
"""Commands of bkaudit that start Spark."""

SPARK_PROGRAMS = {"spark-submit", "spark-class"}


def tier_of_command(words: Sequence[str]) -> Tier:
    """Return the tier that a command line needs, by the program that it starts."""
    program = Path(words[0]).name if words else ""
    if program in SPARK_PROGRAMS:
        is_daemon = any(word.startswith("org.apache.spark.deploy.") for word in words)
        return Tier.SERVER if is_daemon else Tier.SPARK
    if program in ("etcd", "oxia") or "moto.server" in words:
        return Tier.SERVER
    if program == "java":
        return _tier_of_java(words)
    if "tests.servers.shared_spark" in words or any(STARTS_SPARK.search(word) for word in words):
        return Tier.SPARK
    is_job = "auditor.cli" in words or any("auditor.jobs" in word for word in words)
    if (is_job or program == "bkaudit") and AUDIT_COMMANDS & {*words} and "--help" not in words:
        return Tier.SPARK
    return Tier.UNIT


def _tier_of_java(words: Sequence[str]) -> Tier:
    if "-version" in words:
        return Tier.UNIT
    if any(word.startswith("org.apache.spark.") for word in words):
        return Tier.SPARK
    if any(BOOKIES.fullmatch(word) for word in words):
        return Tier.CLUSTER
    return Tier.SERVER if any(OTHER_SERVERS.fullmatch(word) for word in words) else Tier.UNIT


class Guard:
    """A comparison of the processes that a test starts with the test's tier.

    Attributes:
        tier: The tier of the running test, or the highest tier while no test runs.
        offences: The command lines that this test must not start, each with the tier that it needs.
    """

    def __init__(self) -> None:
        self.tier = Tier.CLUSTER
        self.offences: list[str] = []

    @contextmanager
    def watching(self, tier: Tier) -> Iterator[None]:
        """Watch one test of this tier."""
        self.tier, self.offences = tier, []
        try:
            yield
        finally:
            self.tier = Tier.CLUSTER

    def note(self, arguments: Any) -> None:
        """Compare one command with the tier of the test that runs."""
        words = [arguments] if isinstance(arguments, (str, bytes, os.PathLike)) else list(arguments)
        command = [os.fsdecode(word) for word in words]
        needed = tier_of_command(command)
        if needed > self.tier:
            self.offences.append(f"{needed.name.lower()}: {' '.join(command)[:200]}")

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Check every process that this process starts from now on, until ``patch`` is undone."""
        begin = subprocess.Popen.__init__

        @wraps(begin)
        def noted(popen: Any, args: Any, *positional: Any, **options: Any) -> None:
            self.note(args)
            begin(popen, args, *positional, **options)

        patch.setattr(subprocess.Popen, "__init__", noted)

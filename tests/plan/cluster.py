"""Real bookies with AutoRecovery, on which a test types the commands of a plan exactly as printed.

``bookkeeper shell ...`` is BookKeeper's own BookieShell, in the process of the bookies, because a new process
takes two seconds. The harness does the manual parts of a plan (stop, start, set).
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from auditor.codecs.protobuf.pb.ledger_metadata_pb2 import LedgerMetadataFormat
from auditor.codecs.protobuf.pb.pulsar_managed_ledger_pb2 import PulsarManagedLedgerInfo
from auditor.embedded.zookeeper import EmbeddedZooKeeper
from auditor.model.plan import CommandRole, PlanStep
from tests.clusters.store import Store, edit_metadata
from tests.servers.bookies.driver import Bookies

PACKAGE_DIR = Path(__file__).parent
_HAND = re.compile(r"(stop the bookie|start) (\S+)")
_MOVE = re.compile(r"move to a directory that no bookie uses: (.+)")
_SET = re.compile(r"set (\S+=\S+(?: and \S+=\S+)*) in its configuration")
_PUT_BACK = re.compile(r"move each of these directories back to its own place: (.+)")
_OF_BOOKIE = re.compile(r"(.+) \(of (\S+)\)")

SETTINGS: dict[str, str | int] = {
    "autoRecoveryDaemonEnabled": "true",
    # The auditor forgets a lost bookie until somebody asks it.
    "lostBookieRecoveryDelay": 3_600,
    "auditorPeriodicBookieCheckInterval": 0,
    "auditorPeriodicCheckInterval": 0,
    "gcOverreplicatedLedgerWaitTime": 1,
    "zkTimeout": 4_000,
    "rwRereplicateBackoffMs": 500,
}


class OperatedBookies(Bookies):
    """Bookies, and an operator who types the commands of a plan."""

    MAIN = "PlanHarness"
    JAVA = (PACKAGE_DIR / "java" / "PlanHarness.java",)
    MEMORY = ("-Xmx800m", "-XX:MaxDirectMemorySize=768m")
    collector_conf: Path | None = None
    """The configuration of collectors, once somebody set a line of it."""

    def configure(self, bookie: str, key: str, value: str) -> None:
        """Set a line of a stopped bookie's configuration."""
        self._do("configure", bookie=bookie, key=key, value=value)

    def do(self, step: PlanStep, *roles: CommandRole) -> list[str]:
        """Type a step's commands with these roles, for each of its ledgers; return the output of each."""
        printed = []
        for command in step.commands:
            if command.role in roles:
                ledger_ids = (
                    [ledger.ledger_id for ledger in step.ledgers] if "ID" in command.text.split() else [""]
                )
                for id in ledger_ids:
                    text = re.sub(r"\bID\b", id, command.text)
                    printed.append(self._type(text, step.bookie_id, command.role is CommandRole.DRY_RUN))
        return printed

    def _type(self, text: str, bookie: str | None, looks: bool) -> str:
        if hand := _HAND.fullmatch(text):
            (self.stop if hand[1].startswith("stop") else self.start)(hand[2])
            return ""
        if moved := _MOVE.fullmatch(text):
            (self.root / "moved").mkdir(exist_ok=True)
            for path in shlex.split(moved[1]):
                shutil.move(path.rstrip(","), self.root / "moved")
            return ""
        if lines := _SET.fullmatch(text):
            assert bookie is not None
            settings = lines[1].split(" and ")
            for setting in settings:
                self.configure(bookie, *setting.split("=", 1))
            self.collector_conf = self.root / "collector.conf"
            self.collector_conf.write_text("\n".join([*settings, ""]))
            return ""
        if put_back := _PUT_BACK.fullmatch(text):
            self._put_back([path.rstrip(",") for path in shlex.split(put_back[1])])
            return ""
        program, shell, *words = shlex.split(text)
        assert (program, shell) == ("bookkeeper", "shell")
        return self.shell(words, bookie, looks)

    def _put_back(self, places: list[str]) -> None:
        """Exchange directories. Each place names in parentheses the bookie that owns the directory."""
        moved = []
        for place in places:
            if place_match := _OF_BOOKIE.fullmatch(place):
                source = Path(place_match[1])
                own = self.place(place_match[2]) / source.relative_to(self.directory).relative_to(
                    source.relative_to(self.directory).parts[0]
                )
                between = source.with_name(f"{source.name}.moved")
                source.rename(between)
                moved.append((between, own))
        for between, own in moved:
            own.parent.mkdir(parents=True, exist_ok=True)
            between.rename(own)

    def shell(
        self, words: list[str], bookie: str | None = None, looks: bool = False, limit_s: float | None = None
    ) -> str:
        """Return the output of ``bookkeeper shell``, with Y as the answer to every question.

        The command must succeed, unless it only looks: for a ledger that is gone it ends with -1. After
        ``limit_s`` seconds it is interrupted, as by Ctrl-C, and counts as failed.
        """
        conf = self.root / "bk_server.conf"
        lines = [f"metadataServiceUri={self._config['uri']}", "allowLoopback=true"]
        place = self.place(bookie) if bookie is not None else self.root / "nowhere"
        lines += [f"journalDirectories={place}/journal", f"ledgerDirectories={place}/ledgers0"]
        storage = "SortedLedgerStorage" if (place / "sorted").exists() else "storage.ldb.DbLedgerStorage"
        lines.append(f"ledgerStorageClass=org.apache.bookkeeper.bookie.{storage}")
        conf.write_text("\n".join([*lines, ""]))
        limit = {} if limit_s is None else {"limit_s": round(limit_s)}
        done = self._do("shell", conf=str(conf), words=words, **limit)
        with (self.root / "shell.log").open("a") as log:
            log.write(f"$ {shlex.join(words)} -> {done['code']}\n{done['printed']}\n")
        assert looks or done["code"] == 0, f"{words}: {done['printed'][-2000:]}; see {self.root}/bookies.log"
        printed: str = done["printed"]
        return printed


@contextmanager
def operated_cluster(root: Path, bookies: int) -> Iterator[tuple[OperatedBookies, Store]]:
    """Yield a new cluster on DbLedgerStorage, and its store."""
    with (
        EmbeddedZooKeeper(root / "zookeeper", tick_time_ms=500) as server,
        Store(server.hosts) as store,
        OperatedBookies(store.uri, root, "DbLedgerStorage", [None] * bookies, settings=SETTINGS) as cluster,
    ):
        yield cluster, store


def claim(store: Store, ledger: int, topic: str) -> None:
    """Write into a ledger's metadata, as a broker does, that it belongs to a topic."""
    words = {"application": "pulsar", "component": "managed-ledger", "pulsar/managed-ledger": topic}

    def add(record: LedgerMetadataFormat) -> None:
        for key, value in words.items():
            record.customMetadata.add(key=key, value=value.encode())

    edit_metadata(store, ledger, add)


def add_owner(store: Store, topic: str, *ledgers: int) -> None:
    """Write a topic that references ledgers, as a broker does."""
    info = PulsarManagedLedgerInfo()
    for ledger in ledgers:
        info.ledgerInfo.add(ledgerId=ledger, entries=10, size=120)
    store.client.create(f"/managed-ledgers/{topic}", info.SerializeToString(), makepath=True)

"""Parser of a check's manual page, which is the docstring of the check's function.

The section Commands has one bullet per command. Words that the user fills in are in capitals.
`SHARED_COMMANDS` describes the commands that several pages have. For such a command a page adds at most a
note. Every other bullet describes its command and the command's risk. The risk begins with a word of
`RISK_WORDS`:

    - `bookkeeper shell cookie_get BOOKIE`
      Look at its directories.
    - `bookkeeper shell whoisauditor`
      names it. Risk: none; it reads metadata.

Commands are those of BookKeeper 4.17's shell.
"""

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

RISK_WORDS = {
    "none": "nothing changes, and bookies do not slow down",
    "load": "nothing changes, but bookies may slow down",
    "writes": "something changes, and you can undo it",
    "danger": "something changes that you cannot undo, or data may be lost",
}
_STORAGE_BY_COMMAND = {"regenerate-interleaved-": "idx", "rebuild-db-": "rocksdb", "check-db-": "rocksdb"}
"""Kind of a ledger storage's index, by the first part of the shell commands for this kind.

``idx`` is for index files (InterleavedLedgerStorage, SortedLedgerStorage), ``rocksdb`` for DbLedgerStorage.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its effect and its risk."""

    text: str
    effect: str
    risk: str

    @property
    def storage(self) -> str | None:
        """Return the kind of index that the command is for. None if the command is for any kind of index.

        The kinds are values of the column ``storage`` of the table bookies.

        >>> SHARED_COMMANDS["bookkeeper shell rebuild-db-ledgers-index"].storage
        'rocksdb'
        """
        return next(
            (kind for command_start, kind in _STORAGE_BY_COMMAND.items() if f" {command_start}" in self.text),
            None,
        )

    @property
    def risk_level(self) -> str:
        """Return the word of `RISK_WORDS` with which the risk begins.

        >>> SHARED_COMMANDS["bookkeeper shell cookie_get BOOKIE"].risk_level
        'none'
        """
        return self.risk.replace(";", " ").split()[0]


_SHARED_COMMAND_BULLETS = """\
- `ledgermetadata -l ID` prints the ledger's metadata. Risk: none; it reads metadata.
- `ledgermetadata -l ID -dumptofile FILE` writes the ledger's metadata to a file. Risk: none; it reads
  metadata, and writes to FILE. If the shell cannot decode the record, save it with the store's own
  client.
- `ledgermetadata -l ID -restorefromfile FILE` writes the ledger's metadata again from a file that
  -dumptofile made. Risk: writes; it refuses a ledger that has metadata, and deleteledger undoes it. It
  helps only while bookies still have the entries. With a wrong ensemble no client finds the entries, so
  audit afterwards.
- `readledger -l ID -fe FIRST -le NEXT -b BOOKIE` asks one bookie for the entries from -fe to the one
  before -le. Risk: load; it reads from the bookie. Never add -r: that closes the ledger.
- `readledger -l ID -fe FIRST -le LAST` reads the entries FIRST to LAST as a client does, and stops at an
  entry that no bookie has. Risk: load; it reads from the bookies. Never add -r: that closes the ledger.
- `cookie_get BOOKIE` prints the bookie's cookie in the store. Risk: none; it reads metadata.
- `cookie_generate -j JOURNALS -l LEDGERS -i INSTANCE -o FILE BOOKIE` writes a cookie to a file. Give
  the directories in configured order, separated by commas, and -ix INDEXES if indexDirectories is
  configured. Risk: none; it changes only the file. Compare the file with a VERSION file.
- `cookie_update -cf FILE BOOKIE` replaces the bookie's cookie in the store. Risk: writes; a wrong
  cookie keeps the bookie from starting. First save the output of cookie_get.
- `updatecookie -b hostname` changes the id in the bookie's cookie and VERSION files to a host name (-b
  ip: to an address). Run it on the stopped bookie. Risk: writes; the ledgers still name the old id.
- `updatecookie -e` adds newly configured empty directories to the cookie in the store and on every
  disk. Run it on the stopped bookie. Risk: writes; it changes the store's cookie and every VERSION.
- `bookieformat -deleteCookie` empties all the bookie's directories and deletes its cookie; it asks
  first. Run it on the stopped bookie. Risk: danger; it deletes all data of the bookie.
- `listbookies -a` lists every bookie with a cookie. Risk: none; it reads metadata.
- `listbookies -rw -h` lists the writable bookies with their addresses. Risk: none; it reads metadata.
- `listbookies -ro -h` lists the read-only bookies with their addresses. Risk: none; it reads metadata.
- `endpointinfo -b BOOKIE` prints the bookie's registration, if it has a cookie. Risk: none; it reads
  metadata.
- `whatisinstanceid` prints the instance id of the store's cluster. Risk: none; it reads metadata.
- `listledgers -bookieid BOOKIE` lists the ledgers that have entries on the bookie, according to the
  metadata. Risk: none; it reads all metadata.
- `listunderreplicated -pmr -prw` lists the marked ledgers with their missing replicas and their
  workers. Risk: none; it reads metadata.
- `whoisauditor` prints the elected auditor. Risk: none; it reads metadata.
- `lostbookierecoverydelay -g` prints how many seconds the auditor waits before it marks a lost bookie's
  ledgers. Risk: none; it reads metadata.
- `queryautorecoverystatus` prints whether replication is switched on. Risk: none; it reads metadata.
- `autorecovery -e` switches replication on for the whole cluster. Risk: writes; workers copy every
  marked ledger, which loads the bookies. `autorecovery -d` switches it off again.
- `recover -q BOOKIE` lists the ledgers and ensembles that contain the bookie; it asks for a Y but
  changes nothing. Risk: none with -q; it reads all metadata.
- `recover -dr -sk -sku BOOKIE` prints what the command without -dr would copy and where to; it asks for
  a Y but changes nothing. Risk: none with -dr; it reads all metadata.
- `recover -sk -sku BOOKIE` copies the bookie's entries to other bookies and rewrites the metadata. It
  skips open ledgers (-sk) and ledgers that cannot be copied (-sku). Risk: danger; without -sk it fences
  open ledgers, whose writers then fail. It takes no locks: stop replication workers.
- `recover -dr -l ID BOOKIE` prints how the ledger would be copied away from the bookie; it asks for a Y
  but changes nothing. Risk: none with -dr; it reads metadata.
- `recover -l ID BOOKIE` copies the bookie's entries of the ledger to a new bookie, from any bookie that
  serves them. It then replaces the bookie in the metadata; it asks first. Risk: writes; it takes no
  lock. It fences an unclosed ledger whose last segment names the bookie.
- `decommissionbookie -bookieid BOOKIE` has the bookie's ledgers copied, then deletes its cookie. Risk:
  danger; first stop the bookie and switch replication on. The command waits for ever on a ledger that
  cannot be copied. Without its cookie the bookie does not start again.
- `updateBookieInLedger -sb OLD -db NEW` writes the new id into the metadata of every ledger that names
  the old one. Risk: danger; it moves no data: if NEW does not have it, the copies are lost. OLD must
  not be registered. Only the same command with exchanged ids undoes it, but that also changes ledgers
  that named NEW before.
- `updateledgers -bookieId hostname` changes the bookie's id in the metadata of every ledger to a host
  name (-bookieId ip: to an address). First set useHostNameAsBookieID. Run it on the bookie. Risk:
  danger; it moves no data.
- `deleteledger -l ID` deletes the ledger's metadata; it asks first. Risk: danger; every bookie then
  deletes the ledger's data for good, and applications that name the ledger fail to open it.
- `listfilesondisc -txn -log -idx` lists the bookie's journals, entry logs and index files. Run it on
  the bookie. Risk: none; it only reads.
- `regenerate-interleaved-storage-index-file -l ID -password ANY -dryRun` prints the ledger's entries in
  the entry logs; it requires a password but does not use it. Run it on the stopped bookie. Risk: none
  with -dryRun; it reads every entry log.
- `rebuild-db-ledger-locations-index` writes a new index of locations from all entry logs. Run it on the
  stopped bookie, and only if it has DbLedgerStorage. Risk: danger; it takes long and finds only
  ledgers in the index of ledgers. It keeps the old index as locations.BACKUP-TIME.
- `rebuild-db-ledgers-index` writes a new index of ledgers from entry logs and journals. Run it on the
  stopped bookie, and only if it has DbLedgerStorage. Risk: danger; all ledgers come back fenced and without a
  master key. It moves the old index aside.
"""
"""Bullets of the commands that several pages have. The text leaves out the words "bookkeeper shell"."""


SECTIONS = ("What it finds", "Why it matters", "How sure", "What to do", "Commands", "Limits")

_SECTION_PATTERN = re.compile(r"^(\w[\w ]+):\n((?:\n|    .*\n?)+)", re.MULTILINE)
_BULLET_MARK = re.compile(r"^- ", re.MULTILINE)
_COMMAND_PATTERN = re.compile(rf"`([^`]+)` (.+?)\. Risk: ((?:{'|'.join(RISK_WORDS)})\b.*)")
_SHARED_BULLET_PATTERN = re.compile(r"`([^`]+)`(?: (.+))?\.")


def _shared_commands() -> Iterator[tuple[str, Command]]:
    for bullet_text in _BULLET_MARK.split(_SHARED_COMMAND_BULLETS)[1:]:
        bullet_match = _COMMAND_PATTERN.fullmatch(" ".join(bullet_text.split()))
        assert bullet_match is not None, bullet_text
        text = f"bookkeeper shell {bullet_match[1]}"
        yield text, Command(text, bullet_match[2], bullet_match[3])


SHARED_COMMANDS = dict(_shared_commands())
"""Commands that several pages have, by the text of the command."""


def sections(page: str) -> dict[str, str]:
    """Return the text of each section of a cleaned docstring by its heading, in order."""
    return {name: inspect.cleandoc(text) for name, text in _SECTION_PATTERN.findall(page)}


def repeated_headings(page: str) -> list[str]:
    """Return the headings that a page has twice. Of two such sections, `sections` returns only the last.

    >>> repeated_headings("Title.\\n\\nLimits:\\n    One.\\n\\nLimits:\\n    Two.\\n")
    ['Limits']
    """
    counts = Counter(name for name, _ in _SECTION_PATTERN.findall(page))
    return [name for name, count in counts.items() if count > 1]


def commands(text: str) -> tuple[Command, ...]:
    """Return the commands of a section.

    Raises:
        ValueError: the section has no command, a risk is missing, or a bullet describes a shared command.

    >>> [command] = commands("- `bkaudit decode layout FILE` shows it. Risk: none; it reads the file.")
    >>> (command.text, command.effect, command.risk, command.risk_level)
    ('bkaudit decode layout FILE', 'shows it', 'none; it reads the file.', 'none')
    >>> commands("- `bookkeeper shell cookie_get BOOKIE` Keep the output.")[0].effect
    "prints the bookie's cookie in the store. Keep the output"
    """
    leading_text, *bullets = _BULLET_MARK.split(text)
    if leading_text.strip() or not bullets:
        raise ValueError("commands stand one per bullet")
    return tuple(_parse_command(" ".join(bullet.split())) for bullet in bullets)


def _parse_command(bullet_text: str) -> Command:
    described_command, shared_match = (
        _COMMAND_PATTERN.fullmatch(bullet_text),
        _SHARED_BULLET_PATTERN.fullmatch(bullet_text),
    )
    if described_command is not None and described_command[1] not in SHARED_COMMANDS:
        return Command(*described_command.groups())
    if described_command is None and shared_match is not None and shared_match[1] in SHARED_COMMANDS:
        command = SHARED_COMMANDS[shared_match[1]]
        return (
            command
            if shared_match[2] is None
            else replace(command, effect=f"{command.effect}. {shared_match[2]}")
        )
    raise ValueError(f"no command with its risk: {bullet_text}")

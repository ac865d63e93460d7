"""Fuzz targets that read text: URIs, command-line arguments, and keys and paths of stores."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import click

from auditor.cli import COMMAND_HELP_TEXTS, main
from auditor.errors import UsageError
from auditor.keys import etcd, index_path, ledger_path, ledger_tree, plain_paths, pulsar
from auditor.model import bookie_id
from auditor.model.ledger_id import LayoutKind
from auditor.sources.metadata.uri import parse_metadata_uri, redact
from auditor.sources.owners.applications import parse_owners_uri
from proofs.fuzz.target import Target
from tests.command_lines import program_context

_URIS = (
    "zk+hierarchical://h1:2181;h2:2181/ledgers",
    "etcd://host:2379/scope",
    "zk-snapshot:///path/to/version-2?root=/ledgers",
    "etcd-snapshot:///path/to/file.db?scope=/a",
    "dump:///path/to/metadata.jsonl?root=/ledgers",
    "metadata-store:zk:h1:2181,h2:2181/chroot",
    "metadata-store:etcd:http://h:2379?a=b",
    "metadata-store:etcd-snapshot:///a/b.db?root=/ledgers",
    "zk://user:secret@host:2181/ledgers",
    "pulsar:zk://h1:2181/chroot",
    "pulsar:dump:///a.jsonl?root=/",
)
_ARGUMENTS = (
    "audit --metadata dump:///a --bookies /b --out /c --fail-on error --grace 60",
    "report RUN --format html=/a --severity error --ledger 7 --by topic",
    "explain ledger 42 --run RUN",
    "plan RUN --out a.toml",
    "simulate RUN --lose rack:/r1",
    "decode ledger-metadata -",
    "ledger show --ledger-id 7 --ledger-scope-id 0 --metadata dump:///a",
    "watch --every 5m --keep-last 3 --metadata zk://h/l",
    "prune RUNS --keep-last 1 --older-than 30d",
)
_KEYS = (
    "00/0000/L0000",
    "000/0000/0000/0000/L0001",
    "L0000000001",
    "ledgers/00000000-0000-0000-0000-000000000007",
    "underreplication/ledgers/0000/0000/0000/0007/urL0000000007",
    "underreplication/locks/urL0000000007",
    "0/0/1.idx",
    "managed-ledgers/a/b/persistent/c%2Fd/e",
    "[::1]:3181",
)


def _of_text(
    *functions: Callable[[str], object],
    refusals: tuple[type[Exception], ...] = (),
    errors: str = "surrogateescape",
) -> Callable[[bytes], None]:
    """Return a reader that passes a text to each function, even if another one raises a declared error."""

    def run(data: bytes) -> None:
        text = data.decode("utf-8", errors)
        for function in functions:
            with suppress(*refusals):
                function(text)

    return run


def _arguments(text: str) -> None:
    """Parse the words of a command line and their options, without calling the command."""
    words = text.replace("\0", " ").split()  # no argument contains a zero byte
    command: click.Command = main
    context = program_context()
    while isinstance(command, click.Group) and words:
        name, subcommand, words = command.resolve_command(context, words)
        if subcommand is None:
            return
        if not isinstance(subcommand, click.Group):
            subcommand.make_context(name or "", words, parent=context)
            return
        command, context = subcommand, click.Context(subcommand, context, name)


WORDS: tuple[Target, ...] = (
    Target(
        "uris",
        lambda: [uri.encode() for uri in _URIS],
        _of_text(parse_metadata_uri, parse_owners_uri, redact, refusals=(UsageError,)),
    ),
    Target(
        "arguments",
        lambda: [line.encode() for line in (*_ARGUMENTS, *COMMAND_HELP_TEXTS)],
        _of_text(_arguments, refusals=(click.ClickException, click.exceptions.Exit, UsageError)),
    ),
    Target(
        "keys",
        lambda: [key.encode() for key in _KEYS],
        _of_text(
            *(lambda text, kind=kind: ledger_tree.classify(kind, text) for kind in LayoutKind),
            *(lambda text, kind=kind: plain_paths.ledger_ids(kind, [text, "a"], 0) for kind in LayoutKind),
            etcd.from_path,
            etcd.java_read_ledger,
            etcd.java_listed_id,
            etcd.node_name,
            ledger_path.ledger_of_path,
            ledger_path.is_inner_scope_id_path,
            ledger_path.classify_mark,
            ledger_path.lock_from_path,
            index_path.from_name,
            index_path.scoped_ledger_from_name,
            lambda text: index_path.ledger_ids([b"/0/0/" + text.encode()]),
            bookie_id.is_accepted,
            bookie_id.legacy_address,
            errors="replace",
        ),
    ),
    Target(
        "owners-path",
        lambda: [key.encode() for key in _KEYS],
        _of_text(pulsar.names_of, refusals=(ValueError,)),
    ),
)

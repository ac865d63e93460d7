"""``bkaudit decode``: prints one file of a known format as JSON.

The code of a format is imported only when a file of this format is decoded.
"""

import base64
import dataclasses
import importlib
import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import click

from auditor.errors import DecodeError, FileSystemError, RuleError, UsageError

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Largest size of an input file, in bytes. The index of a ledger with 30 million entries has this size."""


@dataclass(frozen=True, slots=True)
class FileDecoder:
    """Decoder of one format.

    Attributes:
        function: The decoding function, as ``module:function``. It takes the bytes of a file and returns a
            value. The codec's own function is used if its value can be shown unchanged.
        argument_names: Names of the command's options that the function takes as further arguments.
        reads_parts: Whether the function takes the open file instead of its bytes. It then reads only parts
            of the file.
        key: Key under which the output shows a value that is a plain text or number. None if the value is
            an object, which is shown as it is.
    """

    function: str
    argument_names: tuple[str, ...] = ()
    reads_parts: bool = False
    key: str | None = None

    @property
    def decode(self) -> Callable[..., Any]:
        """Import the module of the decoding function, and return the function."""
        module, _, name = self.function.partition(":")
        decoding_function: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return decoding_function


_REPLICATION_CODEC = "auditor.codecs.store.underreplication"

FILE_KINDS = {
    "ledger-metadata": FileDecoder("auditor.codecs.ledger_metadata.one:decode"),
    "cookie": FileDecoder("auditor.codecs.bookie.cookie:decode"),
    "availability": FileDecoder("auditor.cli.decoders:decode_availability", ("java", "entries")),
    "index": FileDecoder("auditor.cli.decoders:decode_index", ("entries",)),
    "bookie-frame": FileDecoder("auditor.cli.decoders:decode_bookie_frame", ("entries",)),
    "entry-log": FileDecoder("auditor.cli.decoders:decode_entry_log", reads_parts=True),
    "journal": FileDecoder("auditor.cli.decoders:decode_journal", ("entries",), reads_parts=True),
    "entry": FileDecoder("auditor.cli.decoders:decode_entry"),
    "ledger-data": FileDecoder("auditor.codecs.bookie.ledger_data:decode"),
    "last-mark": FileDecoder("auditor.codecs.bookie.last_mark:decode"),
    "layout": FileDecoder("auditor.cli.decoders:decode_layout"),
    "service-info": FileDecoder("auditor.cli.decoders:decode_service_info", ("bookie_id",)),
    "mark": FileDecoder(f"{_REPLICATION_CODEC}:decode_mark"),
    "lock": FileDecoder(f"{_REPLICATION_CODEC}:decode_lock", key="owner"),
    "vote": FileDecoder(f"{_REPLICATION_CODEC}:decode_vote", key="bookie_id"),
    "replication-layout": FileDecoder(f"{_REPLICATION_CODEC}:decode_layout"),
    "check-all-ledgers-time": FileDecoder(f"{_REPLICATION_CODEC}:decode_check_all_ledgers_time", key="time"),
    "placement-policy-check-time": FileDecoder(
        f"{_REPLICATION_CODEC}:decode_placement_policy_check_time", key="time"
    ),
    "replicas-check-time": FileDecoder(f"{_REPLICATION_CODEC}:decode_replicas_check_time", key="time"),
    "pulsar-managed-ledger": FileDecoder("auditor.codecs.pulsar.managed_ledger:decode"),
    "pulsar-cursor": FileDecoder("auditor.cli.decoders:decode_cursor"),
    "pulsar-cursor-position": FileDecoder("auditor.cli.decoders:decode_cursor_position"),
    "pulsar-schema-locator": FileDecoder("auditor.codecs.pulsar.schema_locator:decode"),
    "pulsar-placement-config": FileDecoder("auditor.codecs.pulsar.placement_config:decode"),
    "log-segment": FileDecoder("auditor.codecs.pulsar.log_segment:decode"),
    "log-allocation": FileDecoder("auditor.codecs.pulsar.log_segment:decode_allocation", key="ledger_id"),
}


# A kind is never folded at its hyphen, so that a user can copy it.
_KINDS_TEXT = textwrap.fill(", ".join(FILE_KINDS), 74, break_on_hyphens=False)
_HELP_TEXT = f"""Decode FILE of KIND to JSON; - reads standard input.

\b
Kinds:
{textwrap.indent(_KINDS_TEXT, "  ")}

Bytes that violate their format give exit code 5, and the offset of the first wrong byte is printed. A value
that follows its format but breaks a rule is printed, also with exit code 5. No password or key is shown."""


@click.command(help=_HELP_TEXT)
@click.argument("kind", metavar="KIND", type=click.Choice(list(FILE_KINDS)))
@click.argument("file", type=click.File("rb"))
@click.option(
    "--java", is_flag=True, help="availability: decode like the server's Java class, with the same errors."
)
@click.option(
    "--bookie-id",
    help="service-info: the bookie id of the registration; used if the file has no data.",
)
@click.option("--entries", is_flag=True, help="availability, index, bookie-frame, journal: list the entries.")
def decode(kind: str, file: BinaryIO, **settings: Any) -> None:
    """Decode a file. The text of the command's help is `_HELP_TEXT`."""
    decoder = FILE_KINDS[kind]
    for name, value in settings.items():
        if value and name not in decoder.argument_names:
            raise UsageError(f"--{name.replace('_', '-')}: not valid for {kind}")
    try:
        decoder_input = file if decoder.reads_parts else _read_whole(kind, file)
        value = decoder.decode(decoder_input, **{name: settings[name] for name in decoder.argument_names})
    except RuleError as error:
        click.echo(json.dumps(to_json_value(error.value), indent=2, ensure_ascii=False))
        raise RuleError(f"{input_name(file)}: {error.what}", error.rule, error.reason, error.value) from None
    except DecodeError as error:
        raise DecodeError(f"{input_name(file)}: {error.what}", error.offset, error.reason) from None
    except OSError as error:  # an error of reading, which has no path
        raise FileSystemError(f"{input_name(file)}: {error.strerror or error}") from None
    value_with_key = value if decoder.key is None else {decoder.key: value}
    click.echo(json.dumps(to_json_value(value_with_key), indent=2, ensure_ascii=False))


def input_name(file: BinaryIO) -> str:
    """Return the name of an input file for messages: its path, or "standard input"."""
    name = getattr(file, "name", None)
    return name if isinstance(name, str) and name != "<stdin>" else "standard input"


def _read_whole(kind: str, file: BinaryIO) -> bytes:
    file_content = file.read(MAX_FILE_BYTES + 1)
    if len(file_content) > MAX_FILE_BYTES:
        raise DecodeError(
            kind, MAX_FILE_BYTES, f"larger than {MAX_FILE_BYTES} bytes. Only an audit can read it"
        )
    return file_content


_LEDGER_ID_KEYS = ("ledger_id", "compacted_ledger")
"""Names of fields with ledger ids. They become text, because JSON numbers cannot hold them exactly."""


def to_json_value(value: Any) -> Any:
    """Convert a value into one that JSON can represent.

    Dataclasses become objects, tuples become lists, bytes become ``{"base64": ...}``, and ledger ids become
    text.

    >>> to_json_value({"a": (b"x", None), "ledger_id": 7})
    {'a': [{'base64': 'eA=='}, None], 'ledger_id': '7'}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        value = dict(zip(value._fields, value, strict=True))
    if isinstance(value, Mapping):
        return {
            str(key): str(entry) if key in _LEDGER_ID_KEYS and entry is not None else to_json_value(entry)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [to_json_value(list_element) for list_element in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value

"""Settings of a bookie's garbage collector: the thresholds, intervals and switches in its configuration file.

A setting that is not in the file has the server's default. The server refuses to start if the numbers break
certain rules (GarbageCollectorThread). This module checks the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

DAY_MS = 86_400_000

_TRUE_WORDS = frozenset({"true", "t", "yes", "y", "on"})
_FALSE_WORDS = frozenset({"false", "f", "no", "n", "off"})

_FIELD_BY_KEY = {
    "gcWaitTime": "wait_ms",
    "minorCompactionThreshold": "minor_threshold",
    "minorCompactionInterval": "minor_interval",
    "majorCompactionThreshold": "major_threshold",
    "majorCompactionInterval": "major_interval",
    "gcOverreplicatedLedgerWaitTime": "over_replicated_wait_ms",
    "verifyMetadataOnGC": "verify_metadata",
    "isForceGCAllowWhenNoSpace": "forced_when_full",
    "diskUsageThreshold": "disk_threshold",
    "diskUsageWarnThreshold": "disk_warn_threshold",
    "useTargetEntryLogSizeForGc": "by_target_size",
    "logSizeLimit": "log_size_limit",
    "readBufferSizeBytes": "read_buffer",
    "entryLogPerLedgerEnabled": "log_per_ledger",
}
"""Field of each key of the configuration file."""


@dataclass(frozen=True)
class CollectorSettings:
    """Settings of a garbage collector. The defaults are those of the server.

    ``wait_ms`` and ``over_replicated_wait_ms`` are in milliseconds. All other intervals are in seconds.
    Compaction thresholds are limits on the share of an entry log's bytes that ledgers still need. A
    compaction is off if its threshold or its interval is 0 or less. If ``over_replicated_wait_ms`` is 0 or
    less, the collection of over-replicated ledgers is off. Disk thresholds are limits on the used share of
    a disk. ``read_buffer`` is the number of bytes that the server reads from an entry log at once. With
    ``log_per_ledger``, the server writes each ledger to its own entry log, and so writes several logs at
    the same time. ``source`` is the configuration file, or None if no file was given.

    Raises:
        ValueError: a server would not start with these settings.

    >>> CollectorSettings(minor_threshold=0.9)
    Traceback (most recent call last):
    ValueError: minorCompactionThreshold 0.9 is not below majorCompactionThreshold 0.8
    """

    wait_ms: int = 600_000
    minor_threshold: float = 0.2
    minor_interval: int = 3_600
    major_threshold: float = 0.8
    major_interval: int = 86_400
    over_replicated_wait_ms: int = DAY_MS
    verify_metadata: bool = False
    forced_when_full: bool = False
    disk_threshold: float = 0.95
    disk_warn_threshold: float = 0.9
    by_target_size: bool = False
    log_size_limit: int = 1 << 30
    read_buffer: int = 512
    log_per_ledger: bool = False
    source: str | None = None

    def __post_init__(self) -> None:
        is_enabled_by_kind = {"minor": self.runs_minor_compaction, "major": self.runs_major_compaction}
        for compaction_kind, is_enabled in is_enabled_by_kind.items():
            threshold, interval = (
                getattr(self, f"{compaction_kind}_threshold"),
                getattr(self, f"{compaction_kind}_interval"),
            )
            if is_enabled and threshold > 1:
                raise ValueError(f"{compaction_kind}CompactionThreshold {threshold} is above 1.0")
            if is_enabled and interval * 1000 < self.wait_ms:
                raise ValueError(
                    f"{compaction_kind}CompactionInterval {interval} s is below gcWaitTime {self.wait_ms} ms"
                )
        for limit_name, unit in (("threshold", ""), ("interval", " s")):
            minor_value, major_value = (
                getattr(self, f"minor_{limit_name}"),
                getattr(self, f"major_{limit_name}"),
            )
            if all(is_enabled_by_kind.values()) and minor_value >= major_value:
                key_suffix = limit_name.capitalize()
                raise ValueError(
                    f"minorCompaction{key_suffix} {minor_value}{unit} is not below "
                    f"majorCompaction{key_suffix} {major_value}{unit}"
                )

    @property
    def runs_minor_compaction(self) -> bool:
        """Whether minor compaction is on."""
        return self.minor_threshold > 0 and self.minor_interval > 0

    @property
    def runs_major_compaction(self) -> bool:
        """Whether major compaction is on."""
        return self.major_threshold > 0 and self.major_interval > 0

    @property
    def origin_text(self) -> str:
        """The source of the settings, in words.

        >>> CollectorSettings().origin_text
        'garbage collection forecast uses server defaults; pass --bookie-conf'
        """
        if self.source is None:
            return "garbage collection forecast uses server defaults; pass --bookie-conf"
        return f"garbage collection forecast uses {self.source}"

    @property
    def reads_past_header(self) -> bool:
        """Whether the first read of an entry log goes beyond its header of 1,024 bytes."""
        return self.read_buffer > 1024

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], source: str) -> CollectorSettings:
        """Return the settings in a configuration file. Other keys of the file are ignored.

        Raises:
            ValueError: a value is neither a number nor a switch, or a server would not start with these
                settings.

        >>> properties = {"gcWaitTime": "900000", "journalDirectories": "/j"}
        >>> CollectorSettings.from_properties(properties, "bk.conf").wait_ms
        900000
        """
        type_by_field = {field.name: type(field.default) for field in fields(cls)}
        value_by_field = {
            name: _parse_value(key, properties[key], type_by_field[name])
            for key, name in _FIELD_BY_KEY.items()
            if key in properties
        }
        return cls(**value_by_field, source=source)


def _parse_value(key: str, text: str, value_type: type) -> Any:
    """Parse the value of a setting like the server, but refuse hexadecimal numbers, which the server accepts.

    Raises:
        ValueError: the text is neither a number nor a switch.
    """
    if value_type is bool:
        switch_text = text.strip().lower()
        if switch_text not in _TRUE_WORDS | _FALSE_WORDS:
            raise ValueError(f"{key}: {text!r} is neither true nor false")
        return switch_text in _TRUE_WORDS
    try:
        return value_type(text.strip())
    except ValueError:
        raise ValueError(f"{key}: {text!r} is not a number") from None

"""Settings of a garbage collector, and settings with which no bookie starts."""

from __future__ import annotations

import pytest

from auditor.model.collector_settings import CollectorSettings


def test_omitted_collector_setting_has_the_server_default() -> None:
    settings = CollectorSettings.from_properties(
        {"minorCompactionThreshold": " 0.3 ", "verifyMetadataOnGC": "yes"}, "f"
    )
    assert settings == CollectorSettings(minor_threshold=0.3, verify_metadata=True, source="f")
    assert settings.wait_ms == 600_000
    assert settings.origin_text == "garbage collection forecast uses f"


def test_a_compaction_without_threshold_or_interval_is_off() -> None:
    off = CollectorSettings(minor_threshold=0, major_interval=0)
    assert (off.runs_minor_compaction, off.runs_major_compaction) == (False, False)
    minor_off = CollectorSettings(minor_threshold=-1)
    assert (minor_off.runs_minor_compaction, minor_off.runs_major_compaction) == (False, True)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"gcWaitTime": "soon"}, "gcWaitTime: 'soon' is not a number"),
        ({"gcWaitTime": "1.5"}, "gcWaitTime: '1.5' is not a number"),
        ({"verifyMetadataOnGC": "maybe"}, "verifyMetadataOnGC: 'maybe' is neither true nor false"),
        ({"majorCompactionThreshold": "1.1"}, "majorCompactionThreshold 1.1 is above 1.0"),
        ({"minorCompactionInterval": "60"}, "minorCompactionInterval 60 s is below gcWaitTime 600000 ms"),
        (
            {"minorCompactionInterval": "86400"},
            "minorCompactionInterval 86400 s is not below majorCompactionInterval 86400 s",
        ),
    ],
)
def test_settings_with_which_no_bookie_starts_are_refused(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match="^" + reason.replace(".", r"\.") + "$"):
        CollectorSettings.from_properties(properties, "f")

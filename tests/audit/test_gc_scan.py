"""Garbage collection settings from a bookie's configuration file, and files that are not a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor import Audit
from auditor.audit.space_scan import read_collector_settings
from auditor.errors import UsageError
from auditor.model.collector_settings import CollectorSettings
from auditor.model.options import AuditOptions


def test_without_a_configuration_file_server_defaults_apply() -> None:
    assert read_collector_settings(None) == CollectorSettings()


def test_configuration_file_overrides_only_its_own_settings(tmp_path: Path) -> None:
    conf = tmp_path / "bk_server.conf"
    conf.write_text("bookiePort=3181\ngcWaitTime = 900000\nverifyMetadataOnGC=true\n")
    assert read_collector_settings(str(conf)) == CollectorSettings(
        wait_ms=900_000, verify_metadata=True, source=str(conf)
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "No such file or directory"),
        (b"gcWaitTime=\xff", "properties: is not UTF-8 text (at byte 11)"),
        (b"gcWaitTime=often", "gcWaitTime: 'often' is not a number"),
        (b"gcWaitTime=9000000", "minorCompactionInterval 3600 s is below gcWaitTime 9000000 ms"),
    ],
    ids=["missing", "binary", "no-number", "no-bookie-starts"],
)
def test_invalid_bookie_configuration_raises_a_usage_error(
    tmp_path: Path, data: bytes | None, reason: str
) -> None:
    conf = tmp_path / "bk.conf"
    if data is not None:
        conf.write_bytes(data)
    with pytest.raises(UsageError) as error:
        read_collector_settings(str(conf))
    assert str(error.value) == f"--bookie-conf {conf}: {reason}"
    options = AuditOptions(bookie_conf=str(conf))
    with pytest.raises(UsageError, match="--bookie-conf"):  # before anything is read
        Audit("dump:///none.jsonl", [], str(tmp_path / "run"), options).run()

"""spark-defaults.conf: a submitted audit has the same settings as an audit from a terminal."""

from __future__ import annotations

from pathlib import Path

from auditor.spark.session import JAVA_OPTIONS, SESSION_SETTINGS

CONF = Path(__file__).parents[2] / "conf" / "spark-defaults.conf"


def test_submitted_audit_has_the_settings_of_a_local_audit() -> None:
    lines = [line.split(maxsplit=1) for line in CONF.read_text("utf-8").splitlines() if line[:1] not in "#"]
    submitted = {key: value.strip() for key, value in lines}
    assert {key: submitted.get(key) for key in SESSION_SETTINGS if key != "spark.app.name"} == {
        key: value for key, value in SESSION_SETTINGS.items() if key != "spark.app.name"
    }
    assert submitted["spark.driver.extraJavaOptions"].split() == list(JAVA_OPTIONS)

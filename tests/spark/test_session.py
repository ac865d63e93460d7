"""The sessions that are accepted, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from auditor import Audit
from auditor.cli import main
from auditor.collect.collect import collect
from auditor.errors import UsageError
from auditor.spark.session import build_session

if TYPE_CHECKING:
    Start = Callable[[SparkSession, Path], object]

CONNECT_REFUSAL = "Spark Connect: .* spark-submit or --master"


class ConnectSession:
    """A Spark Connect client that looks like a session to a program that does not check further."""

    __module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    "start",
    [
        lambda session, path: build_session(user_session=session),
        lambda session, path: Audit(f"dump://{path}/m", (), str(path / "run")).run(session),
        lambda session, path: collect([str(path)], str(path / "out"), spark=session),
    ],
    ids=["session", "audit", "collect"],
)
def test_spark_connect_session_is_refused_with_advice(start: Start, tmp_path: Path) -> None:
    (tmp_path / "m").write_text('{"path": "/ledgers", "czxid": 1}\n')
    session: Any = ConnectSession()
    with pytest.raises(UsageError, match=CONNECT_REFUSAL):
        start(session, tmp_path)


@pytest.mark.parametrize(
    ("name", "value"), [("SPARK_REMOTE", "sc://localhost"), ("SPARK_API_MODE", "connect")]
)
def test_spark_connect_environment_is_refused(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("auditor.spark.session.running_session", lambda: None)
    (tmp_path / "m").write_text('{"path": "/ledgers", "czxid": 1}\n')
    result = CliRunner().invoke(
        main, ["scan", "--metadata", f"dump://{tmp_path}/m", "--out", str(tmp_path / "r")]
    )
    assert result.exit_code == 2, result.stderr
    assert "bkaudit: Spark Connect: " in result.stderr

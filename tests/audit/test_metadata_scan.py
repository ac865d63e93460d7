"""A scan of a cluster that needs credentials: its tables, and the secrets that it writes nowhere."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from kazoo.security import make_digest_acl
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from auditor import Audit, AuditOptions
from auditor.errors import StoreError
from auditor.sources.metadata.spark_source import LedgerSource
from tests.clusters.living import wait_until
from tests.servers.zookeeper import ZooKeeperProcess, write, writer

SECRET = "hunter2-hunter2"
ZNODES = {
    "/bk/LAYOUT": b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1",
    "/bk/INSTANCEID": b"d0b0c0a0-0000-4000-8000-000000000001",
    **{f"/bk/00/0000/L{n:04}": b"" for n in range(30)},
}


@pytest.fixture
def credentials(tmp_path: Path) -> str:
    path = tmp_path / "credentials.toml"
    path.touch(mode=0o600)
    path.write_text(f'[zookeeper.digest]\nuser = "ann"\npassword = "{SECRET}"')
    return str(path)


def test_scan_logs_in_with_credentials_and_writes_no_secret_to_the_run(
    spark: SparkSession, tmp_path: Path, credentials: str
) -> None:
    with ZooKeeperProcess(tmp_path / "server") as server:
        with writer(server.hosts) as client:
            write(client, ZNODES)
            for path in ("/bk", "/bk/00", "/bk/00/0000", *ZNODES):
                client.set_acls(path, [make_digest_acl("ann", SECRET, all=True)])
        uri, run = f"zk://{server.hosts}/bk", tmp_path / "run"
        with pytest.raises(StoreError, match=r"not authorised to read /bk .*--credentials"):
            Audit(uri, out=str(tmp_path / "refused")).scan(spark)
        # An audit that ends early lets go of the store; the server takes a moment to notice.
        wait_until(lambda: server.connections() == 0, "no connection is left", 30)
        rows = Audit(uri, out=str(run), options=AuditOptions(credentials=credentials)).scan(spark)
    assert rows["ledgers"] == 30
    files = [path for path in run.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_pickled_reader_has_the_credentials_path_but_no_secret(credentials: str) -> None:
    options = {"metadata": "zk://h:2181/bk", "credentials": credentials}
    pickled_reader = pickle.dumps(LedgerSource(options).reader(StructType()))
    assert credentials.encode() in pickled_reader
    assert SECRET.encode() not in pickled_reader

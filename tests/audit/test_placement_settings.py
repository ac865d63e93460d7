"""What the configurations of brokers and of AutoRecovery say differently."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.audit.placement_scan import check_placement, settings_differences
from auditor.errors import UsageError
from auditor.model.options import AuditOptions
from auditor.model.placement import Policy

PULSAR = "reppDnsResolverClass=org.apache.pulsar.bookie.rackawareness.BookieRackAffinityMapping\n"
ALIKE = "metadataServiceUri=metadata-store:zk:zk1:2181,zk2:2181/pulsar\n" + PULSAR


@pytest.mark.parametrize(
    ("broker", "bookie", "said"),
    [
        ("metadataStoreUrl=zk:zk2:2181,zk1:2181/pulsar\n", ALIKE, []),
        ("metadataStoreUrl=zk1:2181,zk2:2181/pulsar\n", ALIKE, []),
        (
            "metadataStoreUrl=zk:zk9:2181/pulsar\n",
            ALIKE,
            [
                "AutoRecovery reads the mapping from metadata-store:zk:zk1:2181,zk2:2181/pulsar, "
                "and brokers read it from zk:zk9:2181/pulsar"
            ],
        ),
        (
            "metadataStoreUrl=zk:zk1:2181,zk2:2181\n",
            ALIKE,
            [
                "AutoRecovery reads the mapping from metadata-store:zk:zk1:2181,zk2:2181/pulsar, "
                "and brokers read it from zk:zk1:2181,zk2:2181"
            ],
        ),
        ("", "", ["reppDnsResolverClass is not set, so AutoRecovery does not read Pulsar's mapping"]),
        (
            "metadataStoreUrl=zk:zk1:2181\n",
            f"{PULSAR}metadataServiceUri=zk+hierarchical://zk1:2181/ledgers\n",
            [
                "metadataServiceUri is zk+hierarchical://zk1:2181/ledgers, but Pulsar's resolver accepts "
                "only metadata-store: URIs"
            ],
        ),
        (
            "bookkeeperClientRegionawarePolicyEnabled=true\nbookkeeperClientMinNumRacksPerWriteQuorum=3\n",
            PULSAR,
            [
                "AutoRecovery has policy rack, and brokers have region",
                "min_racks is 2 for AutoRecovery, and 3 for brokers",
            ],
        ),
        (
            "metadataStoreUrl=oxia://o1:6648/broker\n",
            PULSAR + "metadataServiceUri=what\n",
            ["metadataServiceUri is"],
        ),
    ],
)
def test_what_differs(tmp_path: Path, broker: str, bookie: str, said: list[str]) -> None:
    (tmp_path / "broker.conf").write_text(broker)
    (tmp_path / "bookkeeper.conf").write_text(bookie)
    options = AuditOptions(
        placement=str(tmp_path / "broker.conf"), bookie_conf=str(tmp_path / "bookkeeper.conf")
    )
    found = settings_differences(options, uses_pulsar_mapping=True)
    assert [each[: len(word)] for each, word in zip(found, said, strict=True)] == said


def test_what_brokers_go_by_goes_before_what_autorecovery_goes_by(tmp_path: Path) -> None:
    broker, bookie = tmp_path / "broker.conf", tmp_path / "bk_server.conf"
    broker.write_text("bookkeeperClientRegionawarePolicyEnabled=true\n")
    bookie.write_text("ensemblePlacementPolicy=x.ZoneawareEnsemblePlacementPolicy\n")
    alone = check_placement(AuditOptions(bookie_conf=str(bookie)))
    assert (alone.policy, alone.origin) == (Policy.ZONE, f"--bookie-conf {bookie}")
    both = check_placement(AuditOptions(bookie_conf=str(bookie), placement=str(broker)))
    assert (both.policy, both.origin) == (Policy.REGION, f"--placement {broker}")


def test_one_configuration_alone_differs_from_nothing(tmp_path: Path) -> None:
    (tmp_path / "bk.conf").write_text("minNumRacksPerWriteQuorum=3\n")
    assert (
        settings_differences(AuditOptions(bookie_conf=str(tmp_path / "bk.conf")), uses_pulsar_mapping=True)
        == ()
    )
    told = AuditOptions(bookie_conf=str(tmp_path / "bk.conf"), placement="rack,minNumRacksPerWriteQuorum=2")
    assert settings_differences(told, uses_pulsar_mapping=True) == ()


def test_a_configuration_with_a_policy_that_nobody_knows_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("")
    (tmp_path / "bk.conf").write_text("ensemblePlacementPolicy=org.mine.Policy\n")
    options = AuditOptions(placement=str(tmp_path / "broker.conf"), bookie_conf=str(tmp_path / "bk.conf"))
    with pytest.raises(
        UsageError, match=r"bk\.conf: ensemblePlacementPolicy: 'org\.mine\.Policy' is not a known class"
    ):
        settings_differences(options, uses_pulsar_mapping=False)

"""Differences between the configurations of brokers and of AutoRecovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.audit.placement_scan import check_placement, settings_differences
from auditor.errors import UsageError
from auditor.model.options import AuditOptions
from auditor.model.placement import Policy

PULSAR = "reppDnsResolverClass=org.apache.pulsar.bookie.rackawareness.BookieRackAffinityMapping\n"
SAME_STORE = "metadataServiceUri=metadata-store:zk:zk1:2181,zk2:2181/pulsar\n" + PULSAR


@pytest.mark.parametrize(
    ("broker", "bookie", "expected"),
    [
        ("metadataStoreUrl=zk:zk2:2181,zk1:2181/pulsar\n", SAME_STORE, []),
        ("metadataStoreUrl=zk1:2181,zk2:2181/pulsar\n", SAME_STORE, []),
        (
            "metadataStoreUrl=zk:zk9:2181/pulsar\n",
            SAME_STORE,
            [
                "AutoRecovery reads the mapping from metadata-store:zk:zk1:2181,zk2:2181/pulsar, "
                "and brokers read it from zk:zk9:2181/pulsar"
            ],
        ),
        (
            "metadataStoreUrl=zk:zk1:2181,zk2:2181\n",
            SAME_STORE,
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
def test_differing_broker_and_autorecovery_settings_are_reported(
    tmp_path: Path, broker: str, bookie: str, expected: list[str]
) -> None:
    (tmp_path / "broker.conf").write_text(broker)
    (tmp_path / "bookkeeper.conf").write_text(bookie)
    options = AuditOptions(
        placement=str(tmp_path / "broker.conf"), bookie_conf=str(tmp_path / "bookkeeper.conf")
    )
    differences = settings_differences(options, uses_pulsar_mapping=True)
    assert [
        difference[: len(word)] for difference, word in zip(differences, expected, strict=True)
    ] == expected


def test_broker_configuration_wins_over_bookie_configuration(tmp_path: Path) -> None:
    broker, bookie = tmp_path / "broker.conf", tmp_path / "bk_server.conf"
    broker.write_text("bookkeeperClientRegionawarePolicyEnabled=true\n")
    bookie.write_text("ensemblePlacementPolicy=x.ZoneawareEnsemblePlacementPolicy\n")
    bookie_only = check_placement(AuditOptions(bookie_conf=str(bookie)))
    assert (bookie_only.policy, bookie_only.origin) == (Policy.ZONE, f"--bookie-conf {bookie}")
    combined = check_placement(AuditOptions(bookie_conf=str(bookie), placement=str(broker)))
    assert (combined.policy, combined.origin) == (Policy.REGION, f"--placement {broker}")


def test_single_configuration_has_no_differences(tmp_path: Path) -> None:
    (tmp_path / "bk.conf").write_text("minNumRacksPerWriteQuorum=3\n")
    assert (
        settings_differences(AuditOptions(bookie_conf=str(tmp_path / "bk.conf")), uses_pulsar_mapping=True)
        == ()
    )
    options = AuditOptions(
        bookie_conf=str(tmp_path / "bk.conf"), placement="rack,minNumRacksPerWriteQuorum=2"
    )
    assert settings_differences(options, uses_pulsar_mapping=True) == ()


def test_unknown_placement_policy_class_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("")
    (tmp_path / "bk.conf").write_text("ensemblePlacementPolicy=org.mine.Policy\n")
    options = AuditOptions(placement=str(tmp_path / "broker.conf"), bookie_conf=str(tmp_path / "bk.conf"))
    with pytest.raises(
        UsageError, match=r"bk\.conf: ensemblePlacementPolicy: 'org\.mine\.Policy' is not a known class"
    ):
        settings_differences(options, uses_pulsar_mapping=False)

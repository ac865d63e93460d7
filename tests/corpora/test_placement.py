"""An audit and the bookies' locations: its input, its output, and the results for a reader of the run."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor import Audit
from auditor.checks import GROUP_BY_ID
from auditor.errors import UsageError
from auditor.model.options import AuditOptions
from auditor.model.placement import Level, Locations, PlacementSettings, Policy
from auditor.model.run_facts import sentence_of
from auditor.model.simulation import YES
from auditor.runs.reader import RunReader, load_placement
from auditor.simulate.simulation import simulate_failure
from tests.corpora.corpora import Corpus
from tests.corpora.shared import Corpora, Runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PULSAR = Path(__file__).parents[1] / "data" / "pulsar-placement-4.2.4"


@pytest.fixture(scope="module")
def corpus(corpora: Corpora) -> Corpus:
    return corpora.get("flat-v1")


def bookie_ids(corpus: Corpus) -> list[str]:
    paths = (json.loads(line)["path"] for line in corpus.dump.read_text().splitlines())
    return sorted(path.rpartition("/")[2] for path in paths if path.startswith("/ledgers/cookies/"))


def audit(
    spark: SparkSession, dump: Path, out: Path, **options: Any
) -> tuple[PlacementSettings, Locations, dict[str, object] | None]:
    report = Audit(f"dump://{dump}", [], str(out), AuditOptions(**options)).run(spark)
    settings, locations = load_placement(RunReader(out))
    facts = report.run.placement
    return settings, locations, None if facts is None else dict(facts)


def with_bookies(corpus: Corpus, path: Path, value: bytes, **ledgers: bytes) -> Path:
    """Write the corpus's dump with other ledgers and Pulsar's key, as a broker that shares the store does."""
    numbers = dict.fromkeys(("czxid", "mzxid", "ctime", "mtime", "version", "ephemeralOwner"), 0)
    nodes = {"/bookies": value, **{f"/ledgers/{name}": data for name, data in ledgers.items()}}
    lines = [
        {"path": node, "data": base64.b64encode(data).decode(), **numbers} for node, data in nodes.items()
    ]
    path.write_text(corpus.dump.read_text() + "".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def ledger_with_config(bookie: str) -> bytes:
    """Return the metadata of a ledger that has its own placement policy."""
    config = json.dumps((PULSAR / "isolated.json").read_text("utf-8"))
    return (
        "BookieMetadataFormatVersion\t2\nquorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\n"
        f'segment {{\n  ensembleMember: "{bookie}"\n  firstEntryId: 0\n}}\nackQuorumSize: 1\n'
        f'customMetadata {{\n  key: "EnsemblePlacementPolicyConfig"\n  value: {config}\n}}\n'
    ).encode()


def test_placement_check_is_skipped_without_a_mapping_and_a_policy(runs: Runs) -> None:
    plain = runs.get("flat-v1")
    settings, locations = load_placement(RunReader(plain.out))
    assert (settings, plain.report.run.placement) == (PlacementSettings(), None)
    assert not locations.has_known_location
    assert "placement-violated" in (plain.report.run.blind or [])


def test_rack_mapping_in_the_store_is_used(spark: SparkSession, corpus: Corpus, tmp_path: Path) -> None:
    first, *_, last = bookie_ids(corpus)
    groups = {"default": {first: {"rack": "east/r1"}}, "fast": {"gone:3181": {"rack": "r9"}}}
    value = json.dumps(groups).encode()
    dump = with_bookies(corpus, tmp_path / "dump.jsonl", value, L0000009999=ledger_with_config(first))
    settings, locations, facts = audit(spark, dump, tmp_path / "run")
    assert settings == PlacementSettings(Policy.RACK, origin="the default policy of bookies and brokers")
    assert locations.domain(first, Level.REGION) == "east"
    assert locations.groups(first) == ("default",)
    assert locations.domain(last, Level.RACK) is None
    assert locations.origin == f"/bookies in dump://{dump}"
    assert facts is not None
    assert (facts["located"], facts["mapping_origin"]) == (1, locations.origin)
    # Pulsar's policy counts bookies that its groups name, gone or not; they are nowhere.
    assert (locations.groups("gone:3181"), locations.path("gone:3181")) == (("fast",), None)
    assert facts["own_groups"] == 1
    run = RunReader(tmp_path / "run")
    assert "1 ledger has its own placement policy: EnsemblePlacementPolicyConfig in custom metadata" in [
        *map(sentence_of, run.report.run.remarks)
    ]
    # Of its groups nobody is there: bookies in no group take it.
    simulation = simulate_failure(run, [(Level.BOOKIE, [first])])
    assert [(write.groups, write.answer) for write in simulation.writes if write.groups] == [
        ("groups fast,grün, then slow", YES)
    ]


def test_rack_file_overrides_the_stores_mapping(spark: SparkSession, corpus: Corpus, tmp_path: Path) -> None:
    first, second, *_ = bookie_ids(corpus)
    dump = with_bookies(corpus, tmp_path / "dump.jsonl", b'{"default": {"x": {"rack": "r9"}}}')
    racks = tmp_path / "racks"
    racks.write_text(f"{first} /r1\n{second} /r2\n")
    policy_option = "rack,minNumRacksPerWriteQuorum=3"
    settings, locations, _ = audit(spark, dump, tmp_path / "run", racks=str(racks), placement=policy_option)
    assert settings == PlacementSettings(Policy.RACK, min_racks=3, origin=f"--placement {policy_option}")
    assert (locations.path(first), locations.path(second)) == ("/r1", "/r2")


def test_damaged_mapping_is_reported_and_ignored(spark: SparkSession, corpus: Corpus, tmp_path: Path) -> None:
    dump = with_bookies(corpus, tmp_path / "dump.jsonl", b'{"default": ')
    report = Audit(f"dump://{dump}", [], str(tmp_path / "run")).run(spark)
    assert report.run.placement is None
    [note] = [note for note in map(sentence_of, report.run.remarks) if "racks" in note]
    assert note == (
        f"the racks of Pulsar could not be read: /bookies in dump://{dump}: Pulsar bookie racks: is "
        "not JSON: Expecting value (at byte 12)"
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"racks": "a", "rack_script": "b"}, "--racks and --rack-script: pass only one of them"),
        ({"racks": "/no/such"}, "--racks /no/such: No such file or directory"),
        (
            {"placement": "racks"},
            "--placement racks: must be one of rack, region, zone, none, or a configuration file",
        ),
        ({"placement": "rack,minRacks=3"}, "unknown setting 'minRacks'; must be one of"),
        ({"placement": "rack,minNumRacksPerWriteQuorum=x"}, "minNumRacksPerWriteQuorum: 'x' is not a number"),
    ],
)
def test_invalid_placement_options_are_refused(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as error:  # before anything is read
        Audit("dump:///none.jsonl", [], str(tmp_path / "run"), AuditOptions(**options)).run()
    assert reason in str(error.value)


def test_placement_findings_are_exactly_the_ledgers_that_violate_the_policy(
    spark: SparkSession, corpus: Corpus, tmp_path: Path
) -> None:
    bookies = bookie_ids(corpus)
    where = {name: f"/r{number % 2}" for number, name in enumerate(bookies)}
    racks = tmp_path / "racks"
    racks.write_text("".join(f"{name} {path}\n" for name, path in where.items()))
    audit(spark, corpus.dump, tmp_path / "run", racks=str(racks))
    run = RunReader(tmp_path / "run")
    registered = {row["bookie_id"] for row in run.table("bookies").to_pylist() if row["registered"]}
    assert registered < {row["bookie_id"] for row in run.table("bookies").to_pylist()}  # one is gone
    expected = set()
    for ledger in run.table("ledgers").to_pylist():
        for segment in ledger["segments"] or () if not ledger["undecidable"] else ():
            ensemble, quorum = segment["ensemble"], ledger["write_quorum"]
            for start in range(len(ensemble)):
                window = [ensemble[(start + place) % len(ensemble)] for place in range(quorum)]
                if len({where[name] for name in window if name in registered}) < min(quorum, 2):
                    expected.add(ledger["ledger_id"])
    violations = [finding for finding in run.findings if finding.id == "placement-violated"]
    assert {finding.ledger_id for finding in violations} == expected
    assert len(violations) == len(expected) > 10
    assert {finding.evidence["state"] for finding in violations} == {"CLOSED", "OPEN", "IN_RECOVERY"}
    assert [finding.message for finding in run.findings if finding.id == "bookie-without-location"] == [
        "1 of 5 bookies has no location, so servers assume that they are in /default-rack: "
        "bookie9.dc1.example:3181"
    ]


def test_policy_without_mapping_gives_one_finding_instead_of_one_per_ledger(
    spark: SparkSession, corpus: Corpus, tmp_path: Path
) -> None:
    audit(spark, corpus.dump, tmp_path / "run", placement="rack")
    run = RunReader(tmp_path / "run")
    finding_ids = [finding.id for finding in run.findings if GROUP_BY_ID[finding.id] == "placement"]
    assert finding_ids == ["bookie-without-location"]
    assert "placement" not in run.table_names()


def test_run_notes_the_placement_policy_and_the_source_of_locations(
    spark: SparkSession, corpus: Corpus, tmp_path: Path
) -> None:
    racks = tmp_path / "racks"
    racks.write_text(f"{bookie_ids(corpus)[0]} /r1\n")
    options = AuditOptions(racks=str(racks), placement="zone")
    report = Audit(f"dump://{corpus.dump}", [], str(tmp_path / "run"), options).run(spark)
    assert "placement-violated" not in (report.run.blind or [])
    assert (
        "placement was checked: policy zone, minNumZonesPerWriteQuorum 2, from --placement zone; "
        f"locations of 1 of 5 bookies come from --racks {racks}" in [*map(sentence_of, report.run.remarks)]
    )

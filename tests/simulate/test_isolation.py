"""Isolation groups of ledgers: their own, those of the configuration, and what is not known of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.codecs.pulsar.placement_config import KEY
from auditor.decommission.rehearse import rehearse
from auditor.model.decommission import Answer, Cause, Rehearsal
from auditor.model.placement import Level, PlacementSettings, Policy
from auditor.model.simulation import NO, UNKNOWN_ANSWER, YES, Simulation
from auditor.reports.decommission import decommission_text
from auditor.reports.schema import simulation_schema
from auditor.reports.simulation import text, to_json
from auditor.runs.reader import RunReader
from auditor.simulate.simulation import simulate_failure
from tests.decommission.made_clusters import CALM, reopened
from tests.made_runs import made_run
from tests.reports.samples import PLACEMENT, report
from tests.simulate.small_clusters import Ledger

CLASS = "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy"
GROUPS = {"a": ["fast"], "b": ["fast"], "c": ["slow"], "d": ["slow"], "e": []}
"""Two bookies in each group, and one in none."""
THREE = Ledger(1, "OPEN", 3, 3, 2, -1, ((0, ("a", "b", "c")),))
TWO = Ledger(2, "CLOSED", 2, 2, 2, 9, ((0, ("a", "b")),))


def config(policy: str = CLASS, **groups: Any) -> bytes:
    names = {"primary": "isolationBookieGroups", "secondary": "secondaryIsolationBookieGroups"}
    properties = {names[name]: value for name, value in groups.items()}
    return json.dumps({"policyClass": policy, "properties": properties}).encode()


Make = Callable[..., RunReader]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A run of ledgers, each with the value of its own config, or None."""

    def made(*ledgers: tuple[Ledger, bytes | None], groups: Any = GROUPS, **said: Any) -> RunReader:
        settings = PlacementSettings(said.pop("policy", Policy.RACK), **said)
        own = sum(value is not None for _, value in ledgers)
        facts: Any = PLACEMENT | {
            "policy": str(settings.policy), "settings": settings.to_json(), "own_groups": own,
        }  # fmt: skip
        sample = report(findings=())
        made_run(
            tmp_path,
            report=replace(sample, run=replace(sample.run, **{**CALM, "placement": facts})),
            ledgers=[
                each.metadata()
                | {"custom_metadata": {"application": b"pulsar"} | ({KEY: value} if value else {})}
                for each, value in ledgers
            ],
            bookies=[
                {"bookie_id": name, "named": True, "read": "read", "registered": "writable"}
                for name in groups
            ],
            bookie_locations=[
                {"bookie_id": name, "location": f"/r{name}", "groups": of} for name, of in groups.items()
            ],
            cluster=[
                {"fact": "auditor", "value": "elsewhere:3181"},
                {"fact": "auditor-candidate", "value": "h:3181"},
            ],
        )
        return reopened(tmp_path)

    return made


def answers(found: Simulation) -> list[tuple[int, str | None, str]]:
    return [(each.ensemble, each.groups, each.answer) for each in found.writes]


def losing(run: RunReader, *bookies: str) -> Simulation:
    return simulate_failure(run, [(Level.BOOKIE, bookies)])


def test_each_ledger_is_written_in_its_groups(make: Make) -> None:
    """Of fast and slow two bookies each, and one in no group, which comes last."""
    run = make((THREE, None), (THREE, config(primary="fast")), (THREE, config(primary="fast,slow")))
    found = losing(run, "e")
    assert answers(found) == [(3, None, YES), (3, "groups fast", NO), (3, "groups fast,slow", YES)]
    jsonschema.validate(json.loads(to_json(found)), simulation_schema())
    assert "no for E3 Qw3 Qa2 in groups fast (1 open): 2 writable bookies in these groups" in words(found)
    assert answers(losing(run, "c")) == [
        (3, None, YES), (3, "groups fast", YES), (3, "groups fast,slow", YES),
    ]  # fmt: skip


def test_many_groups_are_not_all_in_the_text(make: Make) -> None:
    several = [
        (THREE, config(primary=f"nobody{number}" if number % 2 else f"*,{number}")) for number in range(60)
    ]
    found = losing(make(*several), "a", "b", "c", "d")
    assert len(found.writes) == 60
    assert "and 40 more answers; to print all, run: bkaudit simulate RUN --format json" in words(found)
    found = losing(make(*several[::2]), "e")
    assert "yes for E3 Qw3 Qa2 in groups *,0 (1 open)" in words(found)
    assert " and 10 more: 4 writable bookies" in words(found)


def words(found: Simulation) -> str:
    return " ".join(text(found).split())


@pytest.mark.parametrize(
    ("settings", "lost", "answer"),
    [
        ({"isolation_groups": ("slow",), "secondary_groups": ("fast",)}, "e", YES),
        ({"isolation_groups": ("slow",)}, "e", NO),
        ({"isolation_groups": ()}, "a", NO),
        ({"isolation_groups": ("*",)}, "ab", YES),
        ({"isolation_groups": ("fast", "slow"), "enforce_min_racks": True}, "a", YES),
    ],
)
def test_the_groups_of_the_configuration_are_worked_out(
    settings: dict[str, Any], lost: str, answer: str, make: Make
) -> None:
    assert answers(losing(make((THREE, None), **settings), *lost)) == [(3, None, answer)]


@pytest.mark.parametrize("value", [b"?", config("org.example.Own", primary="fast"), config(primary=[7])])
def test_a_config_that_cannot_be_read_makes_its_own_answers_unknown(value: bytes, make: Make) -> None:
    run = make((TWO, None), (replace(TWO, id=3), value))
    found = losing(run, "e")
    assert answers(found) == [(2, None, YES), (2, "groups that cannot be read", UNKNOWN_ANSWER)]
    assert "it is unknown which" in words(found)
    rehearsal = rehearse(run, ["a"])
    assert (rehearsal.answer, rehearsal.exit_code) == (Answer.UNKNOWN, 3)
    assert doubts(rehearsal) == {"ledgers whose isolation groups are not known": 1}
    assert "ledgers whose isolation groups are not known: 1" in decommission_text(rehearsal)


def doubts(rehearsal: Rehearsal) -> dict[str, int]:
    return {each.what: each.number for each in rehearsal.together.doubts}


def test_groups_of_which_nobody_said_who_is_in_them_are_unknown(make: Make) -> None:
    nobody: dict[str, list[str]] = {name: [] for name in GROUPS}
    run = make((TWO, None), (TWO, config(primary="fast")), (TWO, config(primary="*")), groups=nobody)
    assert answers(losing(run, "e")) == [
        (2, None, YES),
        (2, "groups fast", UNKNOWN_ANSWER),
        (2, "groups *", YES),
    ]
    by_configuration = make((TWO, None), groups=nobody, isolation_groups=("fast",))
    assert answers(losing(by_configuration, "e")) == [(2, None, UNKNOWN_ANSWER)]
    assert rehearse(by_configuration, ["a"]).answer is Answer.UNKNOWN


def test_policies_that_know_no_groups_go_by_the_configuration(make: Make) -> None:
    rack_aware = config("org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy", primary="none")
    assert answers(losing(make((THREE, rack_aware)), "e")) == [(3, None, YES)]


def test_a_spare_comes_from_the_ledgers_own_groups(make: Make) -> None:
    isolating: dict[str, Any] = {"isolation_groups": ("slow",)}
    fast = GROUPS | {"f": ["fast"]}
    found = rehearse(make((TWO, config(primary="fast")), groups=fast, **isolating), ["a"])
    assert (found.answer, found.together.candidates.least) == (Answer.NOW, 1)
    assert [each.bookie_id for each in found.together.loads if each.entries_written] == ["f"]
    # One of the group is left, which is a member: too few, so that bookies in no group come in.
    found = rehearse(make((TWO, config(primary="fast")), **isolating), ["a"])
    assert [each.bookie_id for each in found.together.loads if each.entries_written] == ["e"]
    by_configuration = rehearse(make((TWO, None), groups=fast, **isolating), ["a"])
    assert [each.bookie_id for each in by_configuration.together.loads if each.entries_written] == ["c", "d"]


def test_no_spare_in_groups_that_the_policy_goes_by_is_a_blocker(make: Make) -> None:
    nobody_else = {name: of for name, of in GROUPS.items() if name != "e"}
    run = make((TWO, config(primary="fast")), groups=nobody_else, isolation_groups=("slow",))
    found = rehearse(run, ["a"])
    assert [each.cause for each in found.together.blockers] == [Cause.NO_ALLOWED_SPARE]
    # A policy that goes by no groups takes any bookie; which AutoRecovery has is not known.
    found = rehearse(make((TWO, config(primary="fast")), groups=nobody_else), ["a"])
    assert (found.answer, found.together.blockers) == (Answer.UNKNOWN, ())
    assert list(doubts(found)) == [
        "ledgers with no spare bookie in their own isolation groups (only Pulsar's policy uses such groups)"
    ]

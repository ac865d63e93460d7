"""Tests of isolation groups of ledgers: their own, those of the configuration, and unknown ones."""

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
from tests.decommission.made_clusters import CLEAN_FACTS, reopen_run
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
    """Return a function that makes a run of ledgers, each with its own value of the config, or None."""

    def made(*ledgers: tuple[Ledger, bytes | None], groups: Any = GROUPS, **options: Any) -> RunReader:
        settings = PlacementSettings(options.pop("policy", Policy.RACK), **options)
        own = sum(value is not None for _, value in ledgers)
        facts: Any = PLACEMENT | {
            "policy": str(settings.policy), "settings": settings.to_json(), "own_groups": own,
        }  # fmt: skip
        sample = report(findings=())
        made_run(
            tmp_path,
            report=replace(sample, run=replace(sample.run, **{**CLEAN_FACTS, "placement": facts})),
            ledgers=[
                ledger.metadata()
                | {"custom_metadata": {"application": b"pulsar"} | ({KEY: value} if value else {})}
                for ledger, value in ledgers
            ],
            bookies=[
                {"bookie_id": name, "named": True, "read": "read", "registered": "writable"}
                for name in groups
            ],
            bookie_locations=[
                {"bookie_id": name, "location": f"/r{name}", "groups": names}
                for name, names in groups.items()
            ],
            cluster=[
                {"fact": "auditor", "value": "elsewhere:3181"},
                {"fact": "auditor-candidate", "value": "h:3181"},
            ],
        )
        return reopen_run(tmp_path)

    return made


def answers(simulation: Simulation) -> list[tuple[int, str | None, str]]:
    return [(write.ensemble, write.groups, write.answer) for write in simulation.writes]


def simulate_loss(run: RunReader, *bookies: str) -> Simulation:
    return simulate_failure(run, [(Level.BOOKIE, bookies)])


def test_each_ledger_is_written_in_its_isolation_groups(make: Make) -> None:
    """The groups fast and slow have two bookies each. The last bookie is in no group."""
    run = make((THREE, None), (THREE, config(primary="fast")), (THREE, config(primary="fast,slow")))
    result = simulate_loss(run, "e")
    assert answers(result) == [(3, None, YES), (3, "groups fast", NO), (3, "groups fast,slow", YES)]
    jsonschema.validate(json.loads(to_json(result)), simulation_schema())
    assert "no for E3 Qw3 Qa2 in groups fast (1 open): 2 writable bookies in these groups" in words(result)
    assert answers(simulate_loss(run, "c")) == [
        (3, None, YES), (3, "groups fast", YES), (3, "groups fast,slow", YES),
    ]  # fmt: skip


def test_text_lists_only_the_first_of_many_isolation_groups(make: Make) -> None:
    several = [
        (THREE, config(primary=f"nobody{number}" if number % 2 else f"*,{number}")) for number in range(60)
    ]
    simulation = simulate_loss(make(*several), "a", "b", "c", "d")
    assert len(simulation.writes) == 60
    assert "and 40 more answers; to print all, run: bkaudit simulate RUN --format json" in words(simulation)
    simulation = simulate_loss(make(*several[::2]), "e")
    assert "yes for E3 Qw3 Qa2 in groups *,0 (1 open)" in words(simulation)
    assert " and 10 more: 4 writable bookies" in words(simulation)


def words(simulation: Simulation) -> str:
    return " ".join(text(simulation).split())


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
def test_isolation_groups_of_the_configuration_decide_the_answer(
    settings: dict[str, Any], lost: str, answer: str, make: Make
) -> None:
    assert answers(simulate_loss(make((THREE, None), **settings), *lost)) == [(3, None, answer)]


@pytest.mark.parametrize("value", [b"?", config("org.example.Own", primary="fast"), config(primary=[7])])
def test_unreadable_placement_config_makes_its_answers_unknown(value: bytes, make: Make) -> None:
    run = make((TWO, None), (replace(TWO, id=3), value))
    simulation = simulate_loss(run, "e")
    assert answers(simulation) == [(2, None, YES), (2, "groups that cannot be read", UNKNOWN_ANSWER)]
    assert "it is unknown which" in words(simulation)
    rehearsal = rehearse(run, ["a"])
    assert (rehearsal.answer, rehearsal.exit_code) == (Answer.UNKNOWN, 3)
    assert doubts(rehearsal) == {"ledgers whose isolation groups are not known": 1}
    assert "ledgers whose isolation groups are not known: 1" in decommission_text(rehearsal)


def doubts(rehearsal: Rehearsal) -> dict[str, int]:
    return {doubt.what: doubt.number for doubt in rehearsal.together.doubts}


def test_isolation_groups_without_known_members_are_unknown(make: Make) -> None:
    nobody: dict[str, list[str]] = {name: [] for name in GROUPS}
    run = make((TWO, None), (TWO, config(primary="fast")), (TWO, config(primary="*")), groups=nobody)
    assert answers(simulate_loss(run, "e")) == [
        (2, None, YES),
        (2, "groups fast", UNKNOWN_ANSWER),
        (2, "groups *", YES),
    ]
    by_configuration = make((TWO, None), groups=nobody, isolation_groups=("fast",))
    assert answers(simulate_loss(by_configuration, "e")) == [(2, None, UNKNOWN_ANSWER)]
    assert rehearse(by_configuration, ["a"]).answer is Answer.UNKNOWN


def test_policy_without_isolation_groups_uses_the_configuration(make: Make) -> None:
    rack_aware = config("org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy", primary="none")
    assert answers(simulate_loss(make((THREE, rack_aware)), "e")) == [(3, None, YES)]


def test_spare_bookie_comes_from_the_isolation_groups_of_the_ledger(make: Make) -> None:
    isolating: dict[str, Any] = {"isolation_groups": ("slow",)}
    fast = GROUPS | {"f": ["fast"]}
    rehearsal = rehearse(make((TWO, config(primary="fast")), groups=fast, **isolating), ["a"])
    assert (rehearsal.answer, rehearsal.together.candidates.least) == (Answer.NOW, 1)
    assert [load.bookie_id for load in rehearsal.together.loads if load.entries_written] == ["f"]
    # One of the group is left, which is a member: too few, so that bookies in no group come in.
    rehearsal = rehearse(make((TWO, config(primary="fast")), **isolating), ["a"])
    assert [load.bookie_id for load in rehearsal.together.loads if load.entries_written] == ["e"]
    by_configuration = rehearse(make((TWO, None), groups=fast, **isolating), ["a"])
    assert [load.bookie_id for load in by_configuration.together.loads if load.entries_written] == ["c", "d"]


def test_no_spare_in_the_isolation_groups_is_a_blocker(make: Make) -> None:
    nobody_else = {name: group_names for name, group_names in GROUPS.items() if name != "e"}
    run = make((TWO, config(primary="fast")), groups=nobody_else, isolation_groups=("slow",))
    rehearsal = rehearse(run, ["a"])
    assert [blocker.cause for blocker in rehearsal.together.blockers] == [Cause.NO_ALLOWED_SPARE]
    # A policy that goes by no groups takes any bookie; which AutoRecovery has is not known.
    rehearsal = rehearse(make((TWO, config(primary="fast")), groups=nobody_else), ["a"])
    assert (rehearsal.answer, rehearsal.together.blockers) == (Answer.UNKNOWN, ())
    assert list(doubts(rehearsal)) == [
        "ledgers with no spare bookie in their own isolation groups (only Pulsar's policy uses such groups)"
    ]

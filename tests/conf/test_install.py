"""The image, the chart and the units: they use existing commands, files and settings correctly."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.command_lines import parse_command_line
from tests.conf.test_collectors import verify
from tests.image import DOCKERFILE, stages

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
CHART = CONF / "chart"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
UNITS = ("bkaudit-audit.service", "bkaudit-audit.timer", "bkaudit-watch.service")


def test_systemd_accepts_the_audit_units() -> None:
    outcome = verify(*(CONF / unit for unit in UNITS))
    assert (outcome.returncode, outcome.stderr) == (0, "")


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.endswith("service")])
def test_units_call_existing_commands(unit: str) -> None:
    text = (CONF / unit).read_text("utf-8")
    lines = re.findall("(?m)^Exec[A-Za-z]+=/bin/sh -c 'exec bkaudit (.*)'$", text)
    assert len(lines) == text.count("\nExec") > 0
    for line in lines:
        parse_command_line(shlex.split(line))
    # Java's process is told nothing: it ends with the command, which ends its round first.
    assert "KillMode=mixed\n" in text


def test_image_is_built_from_existing_files() -> None:
    text = DOCKERFILE.read_text("utf-8")
    build, image = stages(text)
    assert (build.name, image.name) == ("build", None)
    copied = [line.text.split()[:-1] for line in build.instructions if line.word == "COPY"]
    names = {name for names in copied for name in names}
    assert all((ROOT / name).exists() for name in names)
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert names >= {
        *wheel["packages"],
        *wheel["force-include"],
        "pyproject.toml",
        PROJECT["project"]["readme"],
    }
    [entry] = [json.loads(line.text) for line in image.instructions if line.word == "ENTRYPOINT"]
    assert entry[0] in PROJECT["project"]["scripts"]
    words = [line.word for line in image.instructions]
    assert words.index("USER") > max(index for index, word in enumerate(words) if word == "RUN")


def test_image_user_equals_the_user_of_the_pods() -> None:
    [user] = [
        line.text for line in stages(DOCKERFILE.read_text("utf-8"))[1].instructions if line.word == "USER"
    ]
    for name in ("kubernetes-cronjob.yaml", "kubernetes-collector.yaml"):
        assert re.findall("(?m)runAsUser: ([0-9]+)", (CONF / name).read_text("utf-8")) == [user]


def values() -> dict[str, Any]:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))


def test_chart_has_the_project_version_and_valid_default_values() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == PROJECT["project"]["version"]
    assert values()["image"].endswith(f":{chart['appVersion']}")
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(values())
    olds = {"credentialsSecret": "secret", "options": "samples = 3\n", "suppressions": "", "bookies": "rpc:"}
    jsonschema.Draft7Validator(schema).validate(values() | olds | {"nightly": {"keep": "--keep-last 3"}})
    refused: tuple[dict[str, Any], ...] = (
        {"bookies": ["it's"]},
        {"options": {"clusters": {}}},
        {"imgae": "x"},
        {"watch": {"interval": "5 min"}},
        {"collector": {"mode": "pod"}},
    )
    for wrong in refused:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(schema).validate(values() | wrong)


def test_templates_use_existing_values_and_files() -> None:
    text = "".join(path.read_text("utf-8") for path in sorted((CHART / "templates").iterdir()))
    value_paths = set(re.findall(r"\.Values\.([a-zA-Z.]+)", text))
    assert len(value_paths) > 20
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    [structured] = [form for form in schema["properties"]["image"]["anyOf"] if form["type"] == "object"]
    for path in value_paths:
        place: Any = values() | {"image": structured["properties"]}
        for key in path.split("."):
            assert key in place, path
            place = place[key]
    files = re.findall(r'\.Files\.Get "(\S+)"', text)
    assert {(CHART / file).resolve().parent for file in files} == {CONF}
    assert all((CHART / file).is_file() for file in files)

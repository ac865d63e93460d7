"""What installs the program: the image, the chart, the units. They call what there is, as it is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.command_lines import taken
from tests.conf.test_collectors import verify
from tests.image import DOCKERFILE, stages

ROOT = Path(__file__).parents[2]
CONF = ROOT / "conf"
CHART = CONF / "chart"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
UNITS = ("bkaudit-audit.service", "bkaudit-audit.timer", "bkaudit-watch.service")


def test_systemd_takes_the_units_of_audits() -> None:
    done = verify(*(CONF / unit for unit in UNITS))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit.endswith("service")])
def test_units_call_commands_as_they_are(unit: str) -> None:
    text = (CONF / unit).read_text("utf-8")
    lines = re.findall("(?m)^Exec[A-Za-z]+=/bin/sh -c 'exec bkaudit (.*)'$", text)
    assert len(lines) == text.count("\nExec") > 0
    for line in lines:
        taken(shlex.split(line))
    # Java's process is told nothing: it ends with the command, which ends its round first.
    assert "KillMode=mixed\n" in text


def test_the_image_is_made_of_what_is_there() -> None:
    text = DOCKERFILE.read_text("utf-8")
    build, image = stages(text)
    assert (build.name, image.name) == ("build", None)
    copied = [each.text.split()[:-1] for each in build.instructions if each.word == "COPY"]
    names = {name for names in copied for name in names}
    assert all((ROOT / name).exists() for name in names)
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert names >= {
        *wheel["packages"],
        *wheel["force-include"],
        "pyproject.toml",
        PROJECT["project"]["readme"],
    }
    [entry] = [json.loads(each.text) for each in image.instructions if each.word == "ENTRYPOINT"]
    assert entry[0] in PROJECT["project"]["scripts"]
    words = [each.word for each in image.instructions]
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN")


def test_the_image_runs_as_the_user_of_the_pods() -> None:
    [user] = [
        each.text for each in stages(DOCKERFILE.read_text("utf-8"))[1].instructions if each.word == "USER"
    ]
    for name in ("kubernetes-cronjob.yaml", "kubernetes-collector.yaml"):
        assert re.findall("(?m)runAsUser: ([0-9]+)", (CONF / name).read_text("utf-8")) == [user]


def values() -> dict[str, Any]:
    return dict(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))


def test_the_chart_is_of_this_version_and_its_values_follow_their_schema() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == PROJECT["project"]["version"]
    assert values()["image"].endswith(f":{chart['appVersion']}")
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(values())
    for wrong in ({"imgae": "x"}, {"watch": {"interval": "5 min"}}, {"collector": {"mode": "pod"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft7Validator(schema).validate(values() | wrong)


def test_templates_ask_for_values_and_files_that_there_are() -> None:
    text = "".join(path.read_text("utf-8") for path in sorted((CHART / "templates").iterdir()))
    asked = set(re.findall(r"\.Values\.([a-zA-Z.]+)", text))
    assert len(asked) > 20
    for path in asked:
        place: Any = values()
        for key in path.split("."):
            assert key in place, path
            place = place[key]
    files = re.findall(r'\.Files\.Get "(\S+)"', text)
    assert {(CHART / file).resolve().parent for file in files} == {CONF}
    assert all((CHART / file).is_file() for file in files)


def closed(schema: Any) -> Any:
    """A schema of Kubernetes as its API server holds objects to it: no field but those that it names."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(each) for name, each in schema.items()}
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)  # anyOf has both
    return {"additionalProperties": False, **made} if "properties" in made else made


if shutil.which("helm") is not None:  # CONTRIBUTING.md says how it is made; it takes minutes

    def rendered(*settings: str) -> dict[tuple[str, str], Any]:
        """What the chart makes, by kind and name."""
        command = ["helm", "template", "eu", str(CHART), *(f"--set={each}" for each in settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        made = [each for each in yaml.safe_load_all(done.stdout) if each]
        return {(each["kind"], each["metadata"]["name"]): each for each in made}

    EVERYTHING = (
        "monitoring.serviceMonitor=true",
        "monitoring.prometheusRule=true",
        "networkPolicy.enabled=true",
    )

    def test_helm_has_nothing_to_say_against_the_chart() -> None:
        done = subprocess.run(
            ["helm", "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        done = subprocess.run(
            ["helm", "template", "eu", str(CHART), "--set", "watch.keep=0"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "keep" in done.stderr

    @pytest.mark.parametrize("version", ["1.31", "1.37"])
    @pytest.mark.parametrize("mode", ["daemonset", "sidecar", "none"])
    def test_kubernetes_takes_what_the_chart_makes(mode: str, version: str) -> None:
        made = rendered(*EVERYTHING, f"collector.mode={mode}")
        for (kind, _), manifest in made.items():
            if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
                kubernetes_validate.validate(manifest, version, strict=True)
            assert kind
        kinds = sorted(kind for kind, _ in made)
        besides = {"daemonset": ["DaemonSet"], "sidecar": ["ConfigMap"], "none": []}[mode]
        assert kinds == sorted(
            [
                "ConfigMap",
                "CronJob",
                "Deployment",
                "NetworkPolicy",
                "PersistentVolumeClaim",
                "PersistentVolumeClaim",
                "PrometheusRule",
                "Service",
                "ServiceMonitor",
                *besides,
            ]
        )

    if CRDS := os.environ.get("OPERATOR_CRDS", ""):  # CONTRIBUTING.md says where they are from

        @pytest.mark.parametrize("kind", ["PrometheusRule", "ServiceMonitor"])
        def test_the_operator_takes_what_the_chart_makes_for_it(kind: str) -> None:
            manifest = rendered(*EVERYTHING)[kind, "eu"]
            file = Path(CRDS, f"monitoring.coreos.com_{kind.lower()}s.yaml")
            [version] = yaml.safe_load(file.read_text("utf-8"))["spec"]["versions"]
            schema = closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
            jsonschema.Draft7Validator(schema).validate(manifest["spec"])
            with pytest.raises(jsonschema.ValidationError, match="'speck' was unexpected"):
                jsonschema.Draft7Validator(schema).validate(manifest["spec"] | {"speck": 1})

    def test_what_the_chart_makes_has_the_names_of_its_release_and_fits_together() -> None:
        made = rendered(*EVERYTHING)
        assert all(name.startswith("eu") for _, name in made)
        claims = {name for kind, name in made if kind == "PersistentVolumeClaim"}
        config = made["ConfigMap", "eu"]["data"]
        cron = made["CronJob", "eu"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        watch = made["Deployment", "eu-watch"]["spec"]["template"]["spec"]
        collector = made["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]
        named = {
            volume["persistentVolumeClaim"]["claimName"]
            for pod in (cron, watch, collector)
            for volume in pod["volumes"]
            if "persistentVolumeClaim" in volume
        }
        assert named == claims
        for pod in (cron, watch):
            [container] = pod["containers"]
            keys = [
                each["valueFrom"]["configMapKeyRef"]
                for each in container["env"]
                if "configMapKeyRef" in each.get("valueFrom", {})
            ]
            assert keys
            assert {each["name"] for each in keys} == {"eu"}
            assert {each["key"] for each in keys} <= config.keys()
            assert {mount["name"] for mount in container["volumeMounts"]} == {
                each["name"] for each in pod["volumes"]
            }
        [container] = watch["containers"]
        assert container["command"] == ["bkaudit"]
        taken(container["args"])
        assert "pushgateway" not in json.dumps(watch)
        monitor, service = made["ServiceMonitor", "eu"]["spec"], made["Service", "eu-watch"]
        assert service["metadata"]["labels"] == monitor["selector"]["matchLabels"]
        assert [each["port"] for each in monitor["endpoints"]] == [
            each["name"] for each in service["spec"]["ports"]
        ]
        labels = made["Deployment", "eu-watch"]["spec"]["template"]["metadata"]["labels"].items()
        for selector in (
            service["spec"]["selector"],
            made["NetworkPolicy", "eu"]["spec"]["podSelector"]["matchLabels"],
            made["Deployment", "eu-watch"]["spec"]["selector"]["matchLabels"],
        ):
            assert selector.items() <= labels

    def test_the_rules_are_those_of_the_file_at_another_address() -> None:
        docs = "https://wiki.example/bkaudit"
        made = rendered("monitoring.prometheusRule=true", f"monitoring.docs={docs}")["PrometheusRule", "eu"][
            "spec"
        ]
        text = (CONF / "alerts.yml").read_text("utf-8")
        assert made == yaml.safe_load(text.replace(values()["monitoring"]["docs"], docs))

    def test_the_sidecar_is_the_collector_with_the_bookies_own_volume() -> None:
        made = rendered("collector.mode=sidecar", "collector.volume=data")
        patch = yaml.safe_load(made["ConfigMap", "eu-collector-sidecar"]["data"]["patch.yaml"])
        pod = patch["spec"]["template"]["spec"]
        [container] = pod["containers"]
        [daemon] = rendered()["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]["containers"]
        assert (container["args"], container["image"]) == (daemon["args"], daemon["image"])
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounts["/bookies"] == "data"
        assert set(mounts.values()) - {"data"} == {volume["name"] for volume in pod["volumes"]}

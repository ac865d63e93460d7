"""What the chart makes of realistic values, held to Helm and to Kubernetes' schemas."""

from __future__ import annotations

import json
import os
import re
import shlex
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from auditor.cli.options import options_from_flags
from auditor.findings.suppress import read_suppressions
from tests.command_lines import taken
from tests.servers import helm

CONF = Path(__file__).parents[2] / "conf"
CHART = CONF / "chart"
VALUES = Path(__file__).parent / "values"
FILES = sorted(path.stem for path in VALUES.glob("*.yaml"))
Made = dict[tuple[str, str], Any]


@cache
def rendered(name: str) -> Made:
    """What the chart makes of a file of values, by kind and name."""
    done = helm.template("eu", CHART, [VALUES / f"{name}.yaml"])
    assert done.returncode == 0, done.stderr
    made = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert len({(each["kind"], each["metadata"]["name"]) for each in made}) == len(made)
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def refused(tmp_path: Path, text: str) -> str:
    """What Helm says against values."""
    (tmp_path / "values.yaml").write_text(text)
    done = helm.template("eu", CHART, [VALUES / "two_nodes.yaml", tmp_path / "values.yaml"])
    assert done.returncode != 0
    return done.stderr


def pods(made: Made) -> dict[str, Any]:
    """The specification of each pod, by the object that makes it."""
    found = {}
    for (kind, name), each in made.items():
        spec = each.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            found[f"{kind}/{name}"] = template["spec"]
    return found


def claims_of(pod: Any) -> dict[str, str]:
    """The claims of a pod's volumes, by the volume."""
    return {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }


def sources(made: Made) -> dict[str, list[str]]:
    """What each audit reads of the bookies, by its pod."""
    found = {}
    for name, pod in pods(made).items():
        [container] = pod["containers"]
        if name.startswith("CronJob"):
            [script] = container["args"]
            [line] = re.findall(r"bkaudit (audit .*?) &\n", script, re.DOTALL)
            words = shlex.split(line.replace("\\\n", " "))
        elif name.startswith("Deployment"):
            words = container["args"]
        else:
            continue
        taken(words)
        found[name] = [words[place + 1] for place, word in enumerate(words) if word == "--bookies"]
    return found


def test_there_are_five_files_of_values() -> None:
    assert FILES == ["pulsar_private", "rpc_etcd", "s3_workload_identity", "shared_runs", "two_nodes"]


def test_helm_has_nothing_to_say_against_the_chart() -> None:
    done = helm.lint(CHART)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("name", FILES)
def test_kubernetes_takes_what_the_chart_makes(name: str, version: str) -> None:
    for manifest in rendered(name).values():
        if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", FILES)
def test_what_the_chart_makes_fits_together(name: str) -> None:
    made = rendered(name)
    assert all(object_name.startswith("eu") for _, object_name in made)
    given = yaml.safe_load((VALUES / f"{name}.yaml").read_text("utf-8"))
    existing = {given.get(key, {}).get("existingClaim") for key in ("runs", "collected")} - {None}
    claims = {object_name for kind, object_name in made if kind == "PersistentVolumeClaim"}
    used: set[str] = set()
    config = made["ConfigMap", "eu"]["data"]
    for owner, pod in pods(made).items():
        used |= {*claims_of(pod).values()}
        [container] = pod["containers"]
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {each["name"] for each in pod["volumes"]}, owner
        keys = [
            each["valueFrom"]["configMapKeyRef"]
            for each in container["env"]
            if "configMapKeyRef" in each.get("valueFrom", {})
        ]
        assert {(each["name"], each["key"]) for each in keys} <= {("eu", key) for key in config}
    sidecar = made.get(("ConfigMap", "eu-collector-sidecar"))
    if sidecar:
        used |= {
            *claims_of(yaml.safe_load(sidecar["data"]["patch.yaml"])["spec"]["template"]["spec"]).values()
        }
    assert used == claims | existing


@pytest.mark.parametrize("name", FILES)
def test_the_options_and_suppressions_are_those_of_the_values(name: str, tmp_path: Path) -> None:
    config = rendered(name)["ConfigMap", "eu"]["data"]
    for file in ("audit.toml", "suppressions.toml"):
        (tmp_path / file).write_text(config[file])
    options = options_from_flags(tmp_path / "audit.toml", {})
    given = yaml.safe_load((VALUES / f"{name}.yaml").read_text("utf-8")).get("options", {})
    if isinstance(given, dict):
        said = {option: getattr(options, option) for option in given}
        assert said == given | ({"owners": tuple(given["owners"])} if "owners" in given else {})
    suppressed = tomllib.loads(config["suppressions.toml"]).get("suppress", [])
    assert len(read_suppressions(tmp_path / "suppressions.toml")) == len(suppressed)
    assert bool(suppressed) == (name in ("rpc_etcd", "pulsar_private"))
    taken(["prune", "/runs", *shlex.split(config["keep"])])


def test_two_pods_on_two_nodes_write_no_volume_of_one_node() -> None:
    made = rendered("two_nodes")
    writers: dict[str, list[str]] = {}
    for owner, pod in pods(made).items():
        for volume, claim in claims_of(pod).items():
            [container] = pod["containers"]
            writers.setdefault(claim, []).extend(
                owner for mount in container["volumeMounts"] if mount["name"] == volume
            )
    assert sorted(claim for claim, owners in writers.items() if len(owners) > 1) == ["eu-collected"]
    modes = {
        name: each["spec"]["accessModes"]
        for (kind, name), each in made.items()
        if kind == "PersistentVolumeClaim"
    }
    assert modes == {
        "eu-runs": ["ReadWriteOnce"],
        "eu-watch-runs": ["ReadWriteOnce"],
        "eu-collected": ["ReadWriteMany"],
    }


def test_runs_that_are_shared_are_on_a_volume_of_many_nodes(tmp_path: Path) -> None:
    assert "ReadWriteMany" in refused(tmp_path, "runs: {shared: true}")
    pod_claims = {
        owner: claims_of(pod)["runs"]
        for owner, pod in pods(rendered("shared_runs")).items()
        if "runs" in claims_of(pod)
    }
    assert pod_claims == {"CronJob/eu": "audits-nfs", "Deployment/eu-watch": "audits-nfs"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("two_nodes", ["/collected"]),
        ("rpc_etcd", ["rpc:"]),
        ("pulsar_private", ["/collected"]),
        ("s3_workload_identity", ["s3://bookkeeper-collections/eu", "rpc:"]),
        ("shared_runs", ["/collected", "rpc:"]),
    ],
)
def test_audits_read_the_sources_of_the_values(name: str, wanted: list[str]) -> None:
    found = sources(rendered(name))
    assert found
    assert all(each == wanted for each in found.values())
    collects = "/collected" in wanted
    for owner, pod in pods(rendered(name)).items():
        assert ("collected" in claims_of(pod)) == collects, owner


def test_nothing_is_collected_that_nobody_reads() -> None:
    kinds = {kind for kind, _ in rendered("rpc_etcd")}
    assert "DaemonSet" not in kinds
    assert "Deployment" not in kinds


def test_pods_have_what_the_values_ask_for() -> None:
    made = rendered("pulsar_private")
    given = yaml.safe_load((VALUES / "pulsar_private.yaml").read_text("utf-8"))
    for pod in pods(made).values():
        for key in ("imagePullSecrets", "tolerations", "nodeSelector", "affinity", "priorityClassName"):
            assert pod[key] == given[key]
        assert pod["containers"][0]["resources"] == given["resources"]
        assert pod["containers"][0]["image"].endswith("@" + given["image"]["digest"])
    for (kind, _), each in made.items():
        if kind in ("CronJob", "Deployment"):
            assert each["metadata"]["annotations"] == given["annotations"]
            spec = each["spec"].get("jobTemplate", each)["spec"]
            assert given["podAnnotations"].items() <= spec["template"]["metadata"]["annotations"].items()
            assert given["podLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_variables_and_accounts_of_the_values_reach_the_audits() -> None:
    made = rendered("s3_workload_identity")
    given = yaml.safe_load((VALUES / "s3_workload_identity.yaml").read_text("utf-8"))
    account = made["ServiceAccount", "eu"]
    assert account["metadata"]["annotations"] == given["serviceAccount"]["annotations"]
    assert len(pods(made)) == 2
    for pod in pods(made).values():
        [container] = pod["containers"]
        assert container["env"][-2:] == given["env"]
        assert container["envFrom"] == given["envFrom"]
        assert pod["serviceAccountName"] == "eu"
        assert pod["automountServiceAccountToken"] is False
        assert "BKAUDIT_CREDENTIALS" not in json.dumps(pod)
    assert {pod["serviceAccountName"] for pod in pods(rendered("shared_runs")).values()} == {"auditor"}


def test_a_secret_of_credentials_is_mounted_where_there_is_one() -> None:
    [pod] = pods(rendered("rpc_etcd")).values()
    [volume] = [each for each in pod["volumes"] if each["name"] == "credentials"]
    assert volume["secret"]["secretName"] == "etcd-client"
    assert "BKAUDIT_CREDENTIALS" in {each["name"] for each in pod["containers"][0]["env"]}


def test_values_that_nothing_takes_are_refused(tmp_path: Path) -> None:
    assert "keep" in refused(tmp_path, "watch: {keep: 0}")
    assert "bookies" in refused(tmp_path, 'bookies: ["it\'s"]')


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


if CRDS := os.environ.get("OPERATOR_CRDS", ""):  # CONTRIBUTING.md says where they are from

    @pytest.mark.parametrize("kind", ["PrometheusRule", "ServiceMonitor"])
    def test_the_operator_takes_what_the_chart_makes_for_it(kind: str) -> None:
        manifest = rendered("shared_runs")[kind, "eu"]
        file = Path(CRDS, f"monitoring.coreos.com_{kind.lower()}s.yaml")
        [version] = yaml.safe_load(file.read_text("utf-8"))["spec"]["versions"]
        schema = closed(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
        jsonschema.Draft7Validator(schema).validate(manifest["spec"])
        with pytest.raises(jsonschema.ValidationError, match="'speck' was unexpected"):
            jsonschema.Draft7Validator(schema).validate(manifest["spec"] | {"speck": 1})


def test_metrics_are_scraped_from_the_watch() -> None:
    made = rendered("shared_runs")
    watch = made["Deployment", "eu-watch"]["spec"]
    assert "pushgateway" not in json.dumps(watch)
    monitor, service = made["ServiceMonitor", "eu"]["spec"], made["Service", "eu-watch"]
    assert service["metadata"]["labels"] == monitor["selector"]["matchLabels"]
    assert [each["port"] for each in monitor["endpoints"]] == [
        each["name"] for each in service["spec"]["ports"]
    ]
    labels = watch["template"]["metadata"]["labels"].items()
    for selector in (
        service["spec"]["selector"],
        made["NetworkPolicy", "eu"]["spec"]["podSelector"]["matchLabels"],
        watch["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels


def test_the_rules_are_those_of_the_file_at_another_address(tmp_path: Path) -> None:
    docs = "https://wiki.example/bkaudit"
    (tmp_path / "values.yaml").write_text(f"monitoring: {{prometheusRule: true, docs: {docs}}}")
    done = helm.template("eu", CHART, [VALUES / "two_nodes.yaml", tmp_path / "values.yaml"])
    [made] = [
        each["spec"] for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "PrometheusRule"
    ]
    default = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["monitoring"]["docs"]
    text = (CONF / "alerts.yml").read_text("utf-8")
    assert made == yaml.safe_load(text.replace(default, docs))


def test_the_sidecar_is_the_collector_with_the_bookies_own_volume() -> None:
    made = rendered("pulsar_private")
    patch = yaml.safe_load(made["ConfigMap", "eu-collector-sidecar"]["data"]["patch.yaml"])
    pod = patch["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [daemon] = rendered("two_nodes")["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == daemon["args"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts["/bookies"] == "ledgers"
    assert set(mounts.values()) - {"ledgers"} == {volume["name"] for volume in pod["volumes"]}


def test_the_collector_has_its_own_places_and_sizes() -> None:
    collector = rendered("shared_runs")["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]
    given = yaml.safe_load((VALUES / "shared_runs.yaml").read_text("utf-8"))["collector"]
    assert collector["nodeSelector"] == given["nodeSelector"]
    assert collector["tolerations"] == given["tolerations"]
    assert collector["containers"][0]["resources"] == given["resources"]

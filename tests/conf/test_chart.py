"""The chart rendered with realistic values, checked with Helm and the Kubernetes schemas."""

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
from tests.command_lines import parse_command_line
from tests.servers import helm

CONF = Path(__file__).parents[2] / "conf"
CHART = CONF / "chart"
VALUES = Path(__file__).parent / "values"
FILES = sorted(path.stem for path in VALUES.glob("*.yaml"))
Manifests = dict[tuple[str, str], Any]


@cache
def render(name: str) -> Manifests:
    """Return the manifests that the chart renders from a values file, by kind and name."""
    outcome = helm.template("eu", CHART, [VALUES / f"{name}.yaml"])
    assert outcome.returncode == 0, outcome.stderr
    manifests = [manifest for manifest in yaml.safe_load_all(outcome.stdout) if manifest]
    assert len({(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}) == len(manifests)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}


def helm_error(tmp_path: Path, text: str) -> str:
    """Return Helm's error message for these values."""
    (tmp_path / "values.yaml").write_text(text)
    outcome = helm.template("eu", CHART, [VALUES / "two_nodes.yaml", tmp_path / "values.yaml"])
    assert outcome.returncode != 0
    return outcome.stderr


def pods(manifests: Manifests) -> dict[str, Any]:
    """Return the specification of each pod, by the object that creates it."""
    pod_specs = {}
    for (kind, name), manifest in manifests.items():
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            pod_specs[f"{kind}/{name}"] = template["spec"]
    return pod_specs


def claims_of(pod: Any) -> dict[str, str]:
    """Return the persistent volume claims of a pod, by volume."""
    return {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }


def sources(manifests: Manifests) -> dict[str, list[str]]:
    """Return the bookie sources that each audit reads, by its pod."""
    sources_by_pod = {}
    for name, pod in pods(manifests).items():
        [container] = pod["containers"]
        if name.startswith("CronJob"):
            [script] = container["args"]
            [line] = re.findall(r"bkaudit (audit .*?) &\n", script, re.DOTALL)
            words = shlex.split(line.replace("\\\n", " "))
        elif name.startswith("Deployment"):
            words = container["args"]
        else:
            continue
        parse_command_line(words)
        sources_by_pod[name] = [words[place + 1] for place, word in enumerate(words) if word == "--bookies"]
    return sources_by_pod


def test_chart_has_five_value_files() -> None:
    assert FILES == ["pulsar_private", "rpc_etcd", "s3_workload_identity", "shared_runs", "two_nodes"]


def test_helm_lint_accepts_the_chart() -> None:
    outcome = helm.lint(CHART)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.parametrize("version", ["1.31", "1.37"])
@pytest.mark.parametrize("name", FILES)
def test_kubernetes_accepts_the_manifests_of_the_chart(name: str, version: str) -> None:
    for manifest in render(name).values():
        if not manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", FILES)
def test_manifests_of_the_chart_are_consistent(name: str) -> None:
    manifests = render(name)
    assert all(object_name.startswith("eu") for _, object_name in manifests)
    values = yaml.safe_load((VALUES / f"{name}.yaml").read_text("utf-8"))
    existing = {values.get(key, {}).get("existingClaim") for key in ("runs", "collected")} - {None}
    claims = {object_name for kind, object_name in manifests if kind == "PersistentVolumeClaim"}
    used: set[str] = set()
    config = manifests["ConfigMap", "eu"]["data"]
    for owner, pod in pods(manifests).items():
        used |= {*claims_of(pod).values()}
        [container] = pod["containers"]
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts == {entry["name"] for entry in pod["volumes"]}, owner
        keys = [
            entry["valueFrom"]["configMapKeyRef"]
            for entry in container["env"]
            if "configMapKeyRef" in entry.get("valueFrom", {})
        ]
        assert {(entry["name"], entry["key"]) for entry in keys} <= {("eu", key) for key in config}
    sidecar = manifests.get(("ConfigMap", "eu-collector-sidecar"))
    if sidecar:
        used |= {
            *claims_of(yaml.safe_load(sidecar["data"]["patch.yaml"])["spec"]["template"]["spec"]).values()
        }
    assert used == claims | existing


@pytest.mark.parametrize("name", FILES)
def test_rendered_options_and_suppressions_match_the_values(name: str, tmp_path: Path) -> None:
    config = render(name)["ConfigMap", "eu"]["data"]
    for file in ("audit.toml", "suppressions.toml"):
        (tmp_path / file).write_text(config[file])
    options = options_from_flags(tmp_path / "audit.toml", {})
    values = yaml.safe_load((VALUES / f"{name}.yaml").read_text("utf-8")).get("options", {})
    if isinstance(values, dict):
        parsed = {option: getattr(options, option) for option in values}
        assert parsed == values | ({"owners": tuple(values["owners"])} if "owners" in values else {})
    suppressed = tomllib.loads(config["suppressions.toml"]).get("suppress", [])
    assert len(read_suppressions(tmp_path / "suppressions.toml")) == len(suppressed)
    assert bool(suppressed) == (name in ("rpc_etcd", "pulsar_private"))
    parse_command_line(["prune", "/runs", *shlex.split(config["keep"])])


def test_only_the_volume_with_several_writers_is_read_write_many() -> None:
    manifests = render("two_nodes")
    writers: dict[str, list[str]] = {}
    for owner, pod in pods(manifests).items():
        for volume, claim in claims_of(pod).items():
            [container] = pod["containers"]
            writers.setdefault(claim, []).extend(
                owner for mount in container["volumeMounts"] if mount["name"] == volume
            )
    assert sorted(claim for claim, owners in writers.items() if len(owners) > 1) == ["eu-collected"]
    modes = {
        name: manifest["spec"]["accessModes"]
        for (kind, name), manifest in manifests.items()
        if kind == "PersistentVolumeClaim"
    }
    assert modes == {
        "eu-runs": ["ReadWriteOnce"],
        "eu-watch-runs": ["ReadWriteOnce"],
        "eu-collected": ["ReadWriteMany"],
    }


def test_shared_runs_need_a_read_write_many_volume(tmp_path: Path) -> None:
    assert "ReadWriteMany" in helm_error(tmp_path, "runs: {shared: true}")
    pod_claims = {
        owner: claims_of(pod)["runs"]
        for owner, pod in pods(render("shared_runs")).items()
        if "runs" in claims_of(pod)
    }
    assert pod_claims == {"CronJob/eu": "audits-nfs", "Deployment/eu-watch": "audits-nfs"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two_nodes", ["/collected"]),
        ("rpc_etcd", ["rpc:"]),
        ("pulsar_private", ["/collected"]),
        ("s3_workload_identity", ["s3://bookkeeper-collections/eu", "rpc:"]),
        ("shared_runs", ["/collected", "rpc:"]),
    ],
)
def test_audits_read_the_sources_of_the_values(name: str, expected: list[str]) -> None:
    sources_by_pod = sources(render(name))
    assert sources_by_pod
    assert all(pod_sources == expected for pod_sources in sources_by_pod.values())
    collects = "/collected" in expected
    for owner, pod in pods(render(name)).items():
        assert ("collected" in claims_of(pod)) == collects, owner


def test_rpc_values_create_no_collector() -> None:
    kinds = {kind for kind, _ in render("rpc_etcd")}
    assert "DaemonSet" not in kinds
    assert "Deployment" not in kinds


def test_pods_have_the_settings_of_the_values() -> None:
    manifests = render("pulsar_private")
    values = yaml.safe_load((VALUES / "pulsar_private.yaml").read_text("utf-8"))
    for pod in pods(manifests).values():
        for key in ("imagePullSecrets", "tolerations", "nodeSelector", "affinity", "priorityClassName"):
            assert pod[key] == values[key]
        assert pod["containers"][0]["resources"] == values["resources"]
        assert pod["containers"][0]["image"].endswith("@" + values["image"]["digest"])
    for (kind, _), manifest in manifests.items():
        if kind in ("CronJob", "Deployment"):
            assert manifest["metadata"]["annotations"] == values["annotations"]
            spec = manifest["spec"].get("jobTemplate", manifest)["spec"]
            assert values["podAnnotations"].items() <= spec["template"]["metadata"]["annotations"].items()
            assert values["podLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_environment_and_service_account_of_the_values_are_in_the_pods() -> None:
    manifests = render("s3_workload_identity")
    values = yaml.safe_load((VALUES / "s3_workload_identity.yaml").read_text("utf-8"))
    account = manifests["ServiceAccount", "eu"]
    assert account["metadata"]["annotations"] == values["serviceAccount"]["annotations"]
    assert len(pods(manifests)) == 2
    for pod in pods(manifests).values():
        [container] = pod["containers"]
        assert container["env"][-2:] == values["env"]
        assert container["envFrom"] == values["envFrom"]
        assert pod["serviceAccountName"] == "eu"
        assert pod["automountServiceAccountToken"] is False
        assert "BKAUDIT_CREDENTIALS" not in json.dumps(pod)
    assert {pod["serviceAccountName"] for pod in pods(render("shared_runs")).values()} == {"auditor"}


def test_credentials_secret_is_mounted() -> None:
    [pod] = pods(render("rpc_etcd")).values()
    [volume] = [entry for entry in pod["volumes"] if entry["name"] == "credentials"]
    assert volume["secret"]["secretName"] == "etcd-client"
    assert "BKAUDIT_CREDENTIALS" in {entry["name"] for entry in pod["containers"][0]["env"]}


def test_invalid_values_are_refused(tmp_path: Path) -> None:
    assert "keep" in helm_error(tmp_path, "watch: {keep: 0}")
    assert "bookies" in helm_error(tmp_path, 'bookies: ["it\'s"]')


def forbid_unknown_fields(schema: Any) -> Any:
    """Return a Kubernetes schema that, like the API server, allows only the fields that it names."""
    if isinstance(schema, list):
        return [forbid_unknown_fields(subschema) for subschema in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: forbid_unknown_fields(subschema) for name, subschema in schema.items()}
    if strict.pop("x-kubernetes-int-or-string", False):
        strict.pop("type", None)  # anyOf has both
    return {"additionalProperties": False, **strict} if "properties" in strict else strict


if CRDS := os.environ.get("OPERATOR_CRDS", ""):  # CONTRIBUTING.md says where they are from

    @pytest.mark.parametrize("kind", ["PrometheusRule", "ServiceMonitor"])
    def test_prometheus_operator_accepts_its_manifests(kind: str) -> None:
        manifest = render("shared_runs")[kind, "eu"]
        file = Path(CRDS, f"monitoring.coreos.com_{kind.lower()}s.yaml")
        [version] = yaml.safe_load(file.read_text("utf-8"))["spec"]["versions"]
        schema = forbid_unknown_fields(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
        jsonschema.Draft7Validator(schema).validate(manifest["spec"])
        with pytest.raises(jsonschema.ValidationError, match="'speck' was unexpected"):
            jsonschema.Draft7Validator(schema).validate(manifest["spec"] | {"speck": 1})


def test_metrics_are_scraped_from_the_watch() -> None:
    manifests = render("shared_runs")
    watch = manifests["Deployment", "eu-watch"]["spec"]
    assert "pushgateway" not in json.dumps(watch)
    monitor, service = manifests["ServiceMonitor", "eu"]["spec"], manifests["Service", "eu-watch"]
    assert service["metadata"]["labels"] == monitor["selector"]["matchLabels"]
    assert [port["port"] for port in monitor["endpoints"]] == [
        port["name"] for port in service["spec"]["ports"]
    ]
    labels = watch["template"]["metadata"]["labels"].items()
    for selector in (
        service["spec"]["selector"],
        manifests["NetworkPolicy", "eu"]["spec"]["podSelector"]["matchLabels"],
        watch["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels


def test_rendered_rules_equal_the_alert_file_with_another_docs_address(tmp_path: Path) -> None:
    docs = "https://wiki.example/bkaudit"
    (tmp_path / "values.yaml").write_text(f"monitoring: {{prometheusRule: true, docs: {docs}}}")
    outcome = helm.template("eu", CHART, [VALUES / "two_nodes.yaml", tmp_path / "values.yaml"])
    [rules] = [
        doc["spec"] for doc in yaml.safe_load_all(outcome.stdout) if doc and doc["kind"] == "PrometheusRule"
    ]
    default = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["monitoring"]["docs"]
    text = (CONF / "alerts.yml").read_text("utf-8")
    assert rules == yaml.safe_load(text.replace(default, docs))


def test_sidecar_runs_the_collector_on_the_volume_of_the_bookie() -> None:
    manifests = render("pulsar_private")
    patch = yaml.safe_load(manifests["ConfigMap", "eu-collector-sidecar"]["data"]["patch.yaml"])
    pod = patch["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [daemon] = render("two_nodes")["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == daemon["args"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert mounts["/bookies"] == "ledgers"
    assert set(mounts.values()) - {"ledgers"} == {volume["name"] for volume in pod["volumes"]}


def test_collector_has_its_own_node_selector_and_resources() -> None:
    collector = render("shared_runs")["DaemonSet", "eu-collector"]["spec"]["template"]["spec"]
    values = yaml.safe_load((VALUES / "shared_runs.yaml").read_text("utf-8"))["collector"]
    assert collector["nodeSelector"] == values["nodeSelector"]
    assert collector["tolerations"] == values["tolerations"]
    assert collector["containers"][0]["resources"] == values["resources"]

"""Defaults for flags, from the environment and from clusters in the file of options.

    BKAUDIT_METADATA, BKAUDIT_BOOKIES                   values of --metadata and --bookies
    BKAUDIT_RUNS                                        directory of runs
    BKAUDIT_CONF                                        value of --conf

    [clusters.prod-eu]                                  in the file that --conf or BKAUDIT_CONF names
    metadata = "zk://zk1:2181;zk2:2181/ledgers"
    bookies = ["/mnt/bookies"]                          a list, or one string
    runs = "/var/lib/bkaudit/prod-eu"                   directory of its runs

``--cluster`` selects a cluster. A flag overrides the value of the cluster, and this value overrides the
environment. If none of them names a directory of runs, it is ./runs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from auditor.errors import UsageError
from auditor.model.options import CLUSTERS_TABLE
from auditor.runs.newest import newest_report
from auditor.sources.file_systems import child_of
from auditor.sources.regular_file import read_toml

METADATA_VARIABLE, BOOKIES_VARIABLE, RUNS_VARIABLE, CONF_VARIABLE = (
    "BKAUDIT_METADATA",
    "BKAUDIT_BOOKIES",
    "BKAUDIT_RUNS",
    "BKAUDIT_CONF",
)
_CLUSTER_KEYS = ("metadata", "bookies", "runs")


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of an audit, combined from flags, the selected cluster and the environment.

    ``metadata`` is empty if none of these three gives a URI. ``runs`` is the directory in which a run is
    made if --out is not given.
    """

    metadata: str
    bookies: tuple[str, ...]
    runs: str


def runs_directory(cluster: str | None = None, conf: Path | None = None) -> str:
    """Return the path or URI of the directory of runs.

    This is the directory of the cluster, or else $BKAUDIT_RUNS, or else ./runs.

    Args:
        cluster: Name of a cluster in the file ``conf``. None: no cluster is selected.
        conf: The file of options. None: there is no such file.

    Raises:
        UsageError: the values of the cluster cannot be read (`named_cluster`).
    """
    cluster_values = named_cluster(cluster, conf) if cluster is not None else {}
    return str(cluster_values.get("runs") or os.environ.get(RUNS_VARIABLE) or "runs")


def defaults(
    metadata: str | None, bookies: tuple[str, ...], cluster: str | None, conf: Path | None
) -> Sources:
    """Return the sources that flags, the selected cluster and the environment name.

    The metadata URI of the result may be empty.

    Raises:
        UsageError: the values of the cluster cannot be read (`named_cluster`).
    """
    cluster_values = named_cluster(cluster, conf) if cluster is not None else {}
    bookie_sources = bookies or cluster_values.get("bookies")
    if bookie_sources is None or (not bookie_sources and not cluster_values):
        bookie_sources = tuple(filter(None, [os.environ.get(BOOKIES_VARIABLE)]))
    metadata_uri = metadata or cluster_values.get("metadata") or os.environ.get(METADATA_VARIABLE) or ""
    return Sources(metadata_uri, tuple(bookie_sources), runs_directory(cluster, conf))


def sources(
    metadata: str | None, bookies: tuple[str, ...], cluster: str | None, conf: Path | None
) -> Sources:
    """Return the sources as `defaults` does, for a command that needs a metadata URI.

    Raises:
        UsageError: no metadata URI is given, or the values of the cluster cannot be read (`named_cluster`).
    """
    combined_sources = defaults(metadata, bookies, cluster, conf)
    if not combined_sources.metadata:
        raise UsageError(f"--metadata: missing. Pass it or --cluster NAME, or set {METADATA_VARIABLE}")
    return combined_sources


def named_cluster(name: str, conf: Path | None) -> Mapping[str, Any]:
    """Return the values of ``metadata``, ``runs`` and ``bookies`` of a cluster in the file ``conf``.

    ``bookies`` is a tuple of strings. The other values are strings. The result lacks each key that the file
    leaves out.

    Raises:
        UsageError: ``conf`` is None, the file has no such cluster, or a key or value is invalid.
    """
    if conf is None:
        raise UsageError(
            f"--cluster {name}: no file with clusters was given. Pass it with --conf, or set {CONF_VARIABLE}"
        )
    clusters = read_toml(conf).get(CLUSTERS_TABLE, {})
    if not isinstance(clusters, dict) or not isinstance(clusters.get(name), dict):
        names = ", ".join(clusters) if isinstance(clusters, dict) and clusters else "none"
        raise UsageError(f"{conf}: no table [{CLUSTERS_TABLE}.{name}]. Clusters in the file: {names}")
    cluster_settings = dict(clusters[name])
    setting_path = f"{conf}: {CLUSTERS_TABLE}.{name}"
    for setting_name, setting_value in cluster_settings.items():
        if setting_name not in _CLUSTER_KEYS:
            raise UsageError(
                f"{setting_path}: {setting_name}: no such key. Valid keys: {', '.join(_CLUSTER_KEYS)}"
            )
        texts = (
            setting_value
            if setting_name == "bookies" and isinstance(setting_value, list)
            else [setting_value]
        )
        if not all(isinstance(text, str) and text for text in texts):
            raise UsageError(f"{setting_path}: {setting_name}: {setting_value!r} is not a string")
        if setting_name == "bookies":
            cluster_settings[setting_name] = tuple(texts)
    return cluster_settings


def cluster_names(conf: Path | None) -> list[str]:
    """Return the names of the clusters in a file. Empty if ``conf`` is None or the file cannot be read."""
    try:
        clusters = read_toml(conf).get(CLUSTERS_TABLE, {}) if conf is not None else {}
    except UsageError:
        return []
    return sorted(clusters) if isinstance(clusters, dict) else []


def new_run(runs: str | None = None) -> str:
    """Return a path for a new run below ``runs``, named by the current time.

    If ``runs`` is None, the default directory of runs is used.
    """
    return child_of(runs or runs_directory(), datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))


def newest_run(runs: str | None = None) -> str:
    """Return the path of the newest finished run below ``runs``.

    If ``runs`` is None, the default directory of runs is used.

    Raises:
        UsageError: there is no finished run.
    """
    return str(newest_report(runs or runs_directory()).parent)

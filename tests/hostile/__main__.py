"""The hostile trial: ``python -m tests.hostile --minutes 60 --seed 7``.

Each round runs a command with sensible arguments and one or two faults. A fault affects its inputs, its
outputs, its servers or its streams, or is a signal. A wrong outcome is printed as a line with the seed that
reproduces it. A summary by command and kind of fault follows. The exit code is 1 if an outcome was wrong.

If started as root, the trial drops root's privileges, because root may do everything.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.hostile import children, faulty_files
from tests.hostile.trial import SLOW_SHARE
from tests.servers.nobody import NOBODY, reach_checkout

_ROOT_VARIABLE = "HOSTILE_ROOT"
_SMALL, _READ_ONLY = "small", "read-only"
_SMALL_BYTES = 128 * 1024


def main() -> int:
    """Prepare the machine, and run the trial in a process that has loaded the fault library."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=7, help="of the first round; each later one has the next")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="at most so many rounds")
    parser.add_argument("--slow", type=float, default=SLOW_SHARE, help="share of commands that take Spark")
    parser.add_argument("--verbose", action="store_true", help="print all output of a wrong call")
    parser.add_argument("--only", help="only commands whose name has this in it")
    parser.add_argument(
        "--keep", type=Path, help="a directory for what calls read, which a later trial takes"
    )
    parser.add_argument(
        "--forks", action="store_true", help="start no new Python processes with Sparks of their own"
    )
    chosen = parser.parse_args()
    if _ROOT_VARIABLE in os.environ:
        return _play(Path(os.environ[_ROOT_VARIABLE]), chosen)
    with ExitStack() as places:
        name = str(chosen.keep or places.enter_context(tempfile.TemporaryDirectory(prefix="hostile-")))
        root = Path(name)
        root.mkdir(exist_ok=True)
        root.chmod(0o755)
        environment = faulty_files.build(root)
        home = root / "home"
        home.mkdir(exist_ok=True)
        (root / "tmp").mkdir(exist_ok=True)
        environment |= {
            _ROOT_VARIABLE: name,
            "HOME": str(home),
            "TMPDIR": str(root / "tmp"),
            "COLUMNS": "80",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }
        identity: dict[str, int | list[int]] = {}
        with ExitStack() as mounts:
            if os.geteuid() == 0:
                _mount(mounts, root)
                for path in (root, *root.rglob("*")):
                    os.chown(path, NOBODY, NOBODY)
                reach_checkout()
                identity = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
                if (root / _READ_ONLY).exists():
                    _remount(root / _READ_ONLY)
            command = [sys.executable, "-m", "tests.hostile", *sys.argv[1:]]
            return subprocess.run(command, env=os.environ | environment, check=False, **identity).returncode  # type: ignore[call-overload, no-any-return]


def _mount(mounts: ExitStack, root: Path) -> None:
    """Mount a tiny file system and one to be made read-only, if this process has the permission."""
    for name in (_SMALL, _READ_ONLY):
        place = root / name
        place.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "none", str(place)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            place.rmdir()
            continue
        mounts.callback(subprocess.run, ["umount", "-l", str(place)], check=False)


def _remount(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


def _play(root: Path, chosen: argparse.Namespace) -> int:
    """Create all data that the calls read, and run the rounds."""
    from auditor.embedded.zookeeper import EmbeddedZooKeeper
    from tests.hostile.faults import Bench
    from tests.hostile.ground import TrialData, load_zookeeper, make_files, make_runs
    from tests.hostile.servers import FaultyServers
    from tests.hostile.trial import Trial, play_rounds
    from tests.servers import shared_spark

    began = time.monotonic()
    # What this process has started ends with it, also when it is asked to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(root)
    trial_data = TrialData(root)
    sources_file = root / "made"
    spark = root / "spark"
    shutil.rmtree(spark, ignore_errors=True)
    spark.mkdir()
    if chosen.slow or not sources_file.exists():
        shared_spark.launch(spark, 1)
        say("Spark has started")
    if sources_file.exists():
        trial_data.sources.update(pickle.loads(sources_file.read_bytes()))
    else:
        make_files(trial_data)
        say("files are made")
        make_in_child(lambda: make_runs(trial_data, shared_spark.attach(spark)))
        sources_file.write_bytes(pickle.dumps(trial_data.sources))
    trial_data.add_run_sources()
    zookeeper_files = root / "zookeeper"
    shutil.rmtree(zookeeper_files, ignore_errors=True)
    with EmbeddedZooKeeper(zookeeper_files) as zookeeper:
        servers = FaultyServers(root, {"zookeeper": zookeeper.hosts})
        try:
            make_in_child(lambda: load_zookeeper(zookeeper))
            trial_data.add_live_source(servers.port("zookeeper"))
            places = [place if (place := root / name).is_dir() else None for name in (_SMALL, _READ_ONLY)]
            bench = Bench(trial_data.place, faulty_files.FaultyFiles(), servers, *places)
            trial = Trial(trial_data, bench, spark, say, only=chosen.only, slow_share=chosen.slow)
            trial.shows_output = chosen.verbose
            trial.has_new_python = not chosen.forks
            children.preload()
            say(f"ready after {time.monotonic() - began:.0f} s")
            totals = play_rounds(trial, chosen.seed, time.monotonic() + 60 * chosen.minutes, chosen.rounds)
        finally:
            servers.end()
    print(totals.text(), flush=True)
    return 1 if totals.wrong else 0


def make_in_child(work: object) -> None:
    """Run a function in a forked child, so that this process gets no threads or connections from it.

    Raises:
        RuntimeError: the function failed. Its traceback is on standard error.
    """
    assert callable(work)
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError("what calls read could not be made")


def say(line: str) -> None:
    """Print a line with the UTC time."""
    print(time.strftime("%H:%M:%S", time.gmtime()), line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

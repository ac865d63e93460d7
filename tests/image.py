"""A build of conf/Dockerfile without Docker, in directories that contain a Debian root file system.

    python -m tests.image --root ROOT --work DIR

ROOT stands for the base image, as debootstrap makes it (CONTRIBUTING.md has the command). Each stage is a
copy of ROOT below DIR. Every COPY and RUN is executed there with chroot, as root or as the user that USER
names. Then the entry point runs: it prints its help and its version, and audits the demonstration's
cluster. This needs root and pip's registry.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "conf" / "Dockerfile"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PIP_VARIABLES = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "SSL_CERT_FILE")
"""What says where a registry is here; not what the image says."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its keyword, and the rest of its line."""

    word: str
    text: str


@dataclass(slots=True)
class Stage:
    """The part between two FROM. ``name`` is the name in COPY --from, None for the final image."""

    base: str
    name: str | None
    instructions: list[Instruction] = field(default_factory=list)


def stages(text: str) -> list[Stage]:
    r"""Return the stages of a Dockerfile.

    >>> [stage] = stages("FROM debian AS one\n# no\nRUN a && \\\n    b\n")
    >>> stage.name, stage.instructions
    ('one', [Instruction(word='RUN', text='a &&     b')])
    """
    result: list[Stage] = []
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        word, _, operands = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = operands.partition(" AS ")
            result.append(Stage(base, name or None))
        elif word:
            result[-1].instructions.append(Instruction(word, operands))
    return result


class StageBuild:
    """A stage that is being built in a directory."""

    def __init__(self, place: Path, stage_roots: dict[str, Path]) -> None:
        self.place, self.others = place, stage_roots
        self.directory, self.user, self.environment = "/", "0", {"PATH": _PATH}

    def do(self, instruction: Instruction) -> None:
        """Execute an instruction.

        Raises:
            CalledProcessError: a command failed.
        """
        words = instruction.text.split()
        match instruction.word:
            case "WORKDIR":
                self.directory = instruction.text
                self.inside(self.directory).mkdir(parents=True, exist_ok=True)
            case "USER":
                self.user = instruction.text
            case "ARG" | "ENV":
                name, _, value = instruction.text.partition("=")
                self.environment[name] = value
            case "RUN":
                self.run(["/bin/sh", "-c", instruction.text])
            case "COPY":
                source = ROOT
                if words[0].startswith("--from="):
                    source = self.others[words.pop(0).removeprefix("--from=")]
                self.copy([source / path.lstrip("/") for path in words[:-1]], words[-1])
            case "ENTRYPOINT" | "CMD":
                self.environment[instruction.word] = instruction.text
            case _:
                raise ValueError(f"{instruction.word} is not known here")

    def inside(self, path: str) -> Path:
        return self.place / Path(self.directory, path).as_posix().lstrip("/")

    def copy(self, sources: list[Path], target: str) -> None:
        to = self.inside(target)
        for source in sources:
            if source.is_dir():
                shutil.copytree(source, to, dirs_exist_ok=True)
            else:
                to.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, to / source.name)

    def run(self, command: list[str]) -> None:
        """Run a command in the stage, as its user."""
        print(f"{self.place.name}: {' '.join(command)}", file=sys.stderr)
        pip_environment = {name: os.environ[name] for name in _PIP_VARIABLES if name in os.environ}
        inner = f'cd {self.directory} && exec "$@"'
        subprocess.run(
            [
                "/usr/sbin/chroot",
                f"--userspec={self.user}:{self.user}",
                str(self.place),
                "/bin/sh",
                "-c",
                inner,
                "sh",
                *command,
            ],
            env={**pip_environment, **self.environment, "HOME": self.directory},
            check=True,
        )


@click.command(help=__doc__)
@click.option("--root", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True)
def main(root: Path, work: Path) -> None:
    """Build all stages, then run the image."""
    work.mkdir(parents=True)
    stage_roots: dict[str, Path] = {}
    for stage in stages(DOCKERFILE.read_text("utf-8")):
        place = work / (stage.name or "image")
        subprocess.run(["cp", "-a", str(root), str(place)], check=True)
        for file in ("/etc/resolv.conf", "/etc/hosts", os.environ.get("PIP_CERT", "/etc/hosts")):
            shutil.copy(file, place / file.lstrip("/"))
        subprocess.run(["mount", "--bind", "/proc", str(place / "proc")], check=True)
        try:
            built = StageBuild(place, stage_roots)
            for instruction in stage.instructions:
                built.do(instruction)
            if stage.name is not None:
                stage_roots[stage.name] = place
                continue
            entry = json.loads(built.environment["ENTRYPOINT"])
            built.run([*entry, *json.loads(built.environment["CMD"])])
            built.run([*entry, "--version"])
            built.run([*entry, "demo", "--out", "/tmp/demo"])
        finally:
            subprocess.run(["umount", str(place / "proc")], check=True)


if __name__ == "__main__":
    main()

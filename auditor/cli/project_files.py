"""Files of the project besides its code: a wheel has them in auditor/shipped, a checkout by the package."""

from __future__ import annotations

from pathlib import Path

FOLDERS = ("conf", "schemas", "jobs", "docs")

_PACKAGE = Path(__file__).parents[1]


def project_files() -> dict[str, Path]:
    """Every file by name: those of conf/ by their own, others with their folder in front."""
    found = {}
    for folder in FOLDERS:
        places = [_PACKAGE / "shipped" / folder, _PACKAGE.parent / folder]
        place = next((each for each in places if each.is_dir()), None)
        if place is None:
            continue
        for file in sorted(place.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(place).as_posix()
                found[name if folder == "conf" else f"{folder}/{name}"] = file
    return found

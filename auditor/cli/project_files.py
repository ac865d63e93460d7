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
        for file in sorted(place.iterdir()) if place is not None else []:
            if file.is_file():
                found[file.name if folder == "conf" else f"{folder}/{file.name}"] = file
    return found

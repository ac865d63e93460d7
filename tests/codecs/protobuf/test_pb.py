"""The generated modules are what the proto files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCHEMAS = Path(__file__).parents[3] / "schemas"
GENERATED = Path(__file__).parents[3] / "auditor" / "codecs" / "protobuf" / "pb"


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    protos = sorted(str(proto) for proto in SCHEMAS.glob("*.proto"))
    into = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", *into, *protos], check=True)
    made = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text("utf-8") for path in GENERATED.glob("*_pb2.py*")}
    assert made
    assert made == kept

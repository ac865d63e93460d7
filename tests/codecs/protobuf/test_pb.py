"""The generated modules match the proto files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCHEMAS = Path(__file__).parents[3] / "schemas"
GENERATED = Path(__file__).parents[3] / "auditor" / "codecs" / "protobuf" / "pb"


def test_generating_the_protobuf_modules_again_changes_nothing(tmp_path: Path) -> None:
    protos = sorted(str(proto) for proto in SCHEMAS.glob("*.proto"))
    options = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{SCHEMAS}", *options, *protos], check=True)
    generated_texts = {path.name: path.read_text("utf-8") for path in tmp_path.iterdir()}
    committed_texts = {path.name: path.read_text("utf-8") for path in GENERATED.glob("*_pb2.py*")}
    assert generated_texts
    assert generated_texts == committed_texts

"""Convert the keys of an etcd, as etcdctl prints them, to a dump as JSON lines.

    etcdctl get --prefix /ledgers -w json | python etcd_dump.py > metadata.jsonl

It needs no package besides Python's own.
"""

import base64
import json
import sys

keys = json.load(sys.stdin).get("kvs", [])
print(json.dumps({"begin": {}}))
for pair in keys:
    record = {"path": base64.b64decode(pair["key"]).decode(), "key": pair["key"]}
    record["data"] = pair.get("value", "")
    record["createRevision"] = pair["create_revision"]
    record["modRevision"] = pair["mod_revision"]
    record["version"] = pair["version"]
    record["lease"] = pair.get("lease", 0)
    print(json.dumps(record))
print(json.dumps({"end": {"nodes": len(keys)}}))

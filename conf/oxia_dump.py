"""Dump the metadata of an Oxia namespace as JSON lines, with Oxia's client 0.2.1 and without bkaudit.

    pip install oxia 'betterproto2<0.10' 'xxhash<4'
    python oxia_dump.py oxia:6648 bookkeeper /ledgers > bookkeeper.jsonl
    python oxia_dump.py oxia:6648 broker /managed-ledgers /schemas /pulsar > broker.jsonl

The client needs these older versions. The script misses records below a parent that has no record; Pulsar's
driver makes every parent.
"""

import base64
import json
import sys

import oxia

address, namespace, *roots = sys.argv[1:]
print(json.dumps({"begin": {}}))
nodes = 0
with oxia.Client(address, namespace=namespace) as client:
    for root in roots:
        waiting = [root]
        while waiting:
            path = waiting.pop()
            # Oxia sorts keys by their slashes first: this is what lies right below the path.
            waiting += reversed(client.list(f"{path}/", f"{path}//"))
            try:
                key, data, version = client.get(path)
            except oxia.ex.KeyNotFound:
                continue  # deleted meanwhile
            record = {"path": path, "data": base64.b64encode(data or b"").decode(), "czxid": 0}
            record["version"] = record["mzxid"] = version.version_id()
            record["ctime"] = round(version.created_timestamp().timestamp() * 1000)
            record["mtime"] = round(version.modified_timestamp().timestamp() * 1000)
            record["modifications"] = version.modifications_count()
            record["session"] = version.session_id() if version.is_ephemeral() else None
            print(json.dumps(record))
            nodes += 1
print(json.dumps({"end": {"nodes": nodes}}))

"""Dump the metadata of a ZooKeeper as JSON lines, with kazoo and without bkaudit.

    python zookeeper_dump.py zk1:2181 /ledgers > metadata.jsonl

It needs the right to read everything below the root; otherwise it fails, and the dump has no last line.
"""

import base64
import json
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

hosts, root = sys.argv[1:]
client = KazooClient(hosts, read_only=True)
client.start()
nodes, waiting = 0, [root]
print(json.dumps({"begin": {}}))
while waiting:
    path = waiting.pop()
    try:
        data, stat = client.get(path)
        children = client.get_children(path)
    except NoNodeError:
        continue  # deleted meanwhile
    record = {"path": path, "data": base64.b64encode(data or b"").decode()}
    for name in ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "ephemeralOwner"):
        record[name] = getattr(stat, name)
    print(json.dumps(record))
    nodes += 1
    waiting += [f"{path}/{child}" for child in sorted(children, reverse=True)]
print(json.dumps({"end": {"nodes": nodes}}))
client.stop()

"""Sources of a cluster's metadata: running stores, saved files of such stores, and dumps."""

import os

# gRPC reads this variable at its import. Otherwise it writes every failed handshake to standard error; this
# program raises an error instead.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

"""Where a cluster's metadata comes from: running stores, their files, and dumps."""

import os

# gRPC reads it at its import, and would write every failed handshake to standard error; here each becomes an
# error in words.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

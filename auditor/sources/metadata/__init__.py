"""Where a cluster's metadata comes from: running stores, their files, and dumps."""

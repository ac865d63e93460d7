"""BookKeeper's metadata in a running Oxia."""

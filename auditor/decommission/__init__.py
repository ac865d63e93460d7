"""May a bookie go: a rehearsal of ``decommissionbookie`` from a finished run, without Spark."""

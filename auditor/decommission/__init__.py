"""Rehearsal of ``decommissionbookie`` from a finished run, without Spark."""

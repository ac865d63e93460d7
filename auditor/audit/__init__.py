"""Stages of an audit. This package and those named in the house test run Spark actions."""

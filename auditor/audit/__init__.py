"""Stages of an audit. Only this package and those in tests/test_spark_actions.py run Spark actions."""

"""Stages of an audit.

Only the packages listed in tests/test_spark_actions.py run Spark actions. This package is one of them.
"""

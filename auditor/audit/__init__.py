"""Stages of an audit.

Only this package and the packages that tests/test_spark_actions.py names run Spark actions.
"""

"""Stages of an audit. They run Spark actions, as do the packages that tests/test_house.py names."""

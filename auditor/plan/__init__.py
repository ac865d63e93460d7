"""Plans that repair the findings of a finished run.

Plans are made, written as TOML, read and checked without Spark.
"""

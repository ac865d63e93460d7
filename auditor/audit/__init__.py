"""The conductor of an audit: it and the packages named in the house test run Spark actions."""

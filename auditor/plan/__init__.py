"""A plan of repair from a finished run, without Spark: made, written as TOML, read again, asked again."""

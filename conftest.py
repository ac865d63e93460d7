"""What the tests below tests/, the short forms below proofs/ and the doctests have in common: a plugin."""

pytest_plugins = ("tests.plugin",)

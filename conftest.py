"""The pytest plugin that the tests in tests/, the short forms in proofs/ and the doctests share."""

pytest_plugins = ("tests.plugin",)

"""The checks: one module each, its docstring its manual page."""

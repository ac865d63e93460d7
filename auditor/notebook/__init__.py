"""A finished run in a notebook: frames, pictures, displays and SQL views."""

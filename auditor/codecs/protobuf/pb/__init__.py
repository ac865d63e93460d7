"""Generated from the proto files in schemas/; a test makes them again and compares."""

"""Encoders and decoders that convert between bytes and values. They do no I/O."""

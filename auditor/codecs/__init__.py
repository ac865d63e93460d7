"""Encoders and decoders between bytes and values, without I/O."""

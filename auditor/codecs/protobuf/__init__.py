"""Protobuf: generated messages, and readers that report the byte at which a message is damaged."""

"""Protobuf: generated messages, and readers that say at which byte a message is damaged."""

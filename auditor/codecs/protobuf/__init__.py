"""Generated protobuf messages, and readers that report the byte at which a message is damaged."""

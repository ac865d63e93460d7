"""What an incremental audit takes from an earlier run instead of reading it."""

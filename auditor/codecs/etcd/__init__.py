"""Decoders of etcd's own storage file: its pages, and the changes of keys in them."""

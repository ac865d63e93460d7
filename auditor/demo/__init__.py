"""A sample cluster in a real ZooKeeper, audited end to end."""

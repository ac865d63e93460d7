"""What Apache Pulsar writes of its topics, cursors and schemas: which ledgers they refer to."""

"""Apache Pulsar's records of topics, cursors and schemas, and the ledgers that they refer to."""

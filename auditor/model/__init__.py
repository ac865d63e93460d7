"""Data types of the domain, such as ledgers, bookies and findings. They do no I/O and do not use Spark."""

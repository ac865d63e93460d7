"""Values of the domain: ledgers, bookies, findings. No input or output, no Spark."""

"""The words of the house: ledgers, bookies, findings. No input or output, no Spark."""

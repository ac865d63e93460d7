"""What a failure would cost: what a finished run would lose with some of its bookies; without Spark."""

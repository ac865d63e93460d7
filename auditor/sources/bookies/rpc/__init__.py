"""Running bookies, asked over the network."""

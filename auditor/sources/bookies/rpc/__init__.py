"""Running bookies, which the program asks over the network."""

"""Two metadata stores, thing by thing: was everything copied."""

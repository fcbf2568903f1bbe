"""Which randomisation to choose: a keep probability, a frontier, an optimal matrix."""

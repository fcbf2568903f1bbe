"""Maximum-likelihood tables, which stay in the simplex."""

"""From true codes to released ones: where random words come from, draws from them, and the loop over records."""

"""From true codes to released ones: keystreams, keyed draws, compiled draws, and frames put back together."""

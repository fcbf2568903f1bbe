"""Parameters by name that need no formula: means, shares, tables, ratios, correlations, quantiles, inequality."""

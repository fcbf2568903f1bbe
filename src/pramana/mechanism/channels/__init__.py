"""Known randomisations of a column: transition matrices, alone or by stratum."""

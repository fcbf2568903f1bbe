"""Known randomisations of a column: transition matrices, alone or by stratum, with their arithmetic and checks."""

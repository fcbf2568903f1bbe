"""One adapter a rival: `solve(case, start, draws, seed) -> estimates (draws, d)`, weights drawn inside."""

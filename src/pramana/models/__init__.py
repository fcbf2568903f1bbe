"""Models with a formula: plan and equation of one model in one file."""

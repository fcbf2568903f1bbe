"""Arrays in, arrays out: totals, batched Newton, weight draws."""

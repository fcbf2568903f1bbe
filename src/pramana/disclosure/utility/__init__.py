"""What the randomisation costs the analysts."""

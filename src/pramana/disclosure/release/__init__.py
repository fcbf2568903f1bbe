"""Perturb a file and publish it with its description, card and ledger."""

"""What is written at a release: the perturbed file, its description, its card, and the custodian's ledger."""

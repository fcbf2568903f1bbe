"""Maximum likelihood for generalised linear models with perturbed columns, and the test of its model."""

"""What analysts lose by a release: variance of their estimates, changes of tables."""

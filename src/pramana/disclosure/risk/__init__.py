"""What an attacker gains from a release: posteriors of true values, links to persons."""

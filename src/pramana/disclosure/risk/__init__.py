"""What an attacker gains from a release."""

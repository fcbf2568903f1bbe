"""The custodian's side: release a file with its description, and audit a release."""

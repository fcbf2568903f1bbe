"""The formula language: text taken apart, and the design that it gives for any node."""

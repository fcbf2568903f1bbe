"""Locally private encodings: reports that support some of the levels, each drawn on the person's own device."""

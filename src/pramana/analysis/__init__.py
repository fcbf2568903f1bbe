"""The one place where a call is read and checked: question, sampling, task."""

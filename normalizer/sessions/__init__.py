"""Formats of session files: one module each, with a record `FORMAT`."""

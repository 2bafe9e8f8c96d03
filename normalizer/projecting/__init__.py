"""Transcript -> request: what every API shares. No API's name stands here."""

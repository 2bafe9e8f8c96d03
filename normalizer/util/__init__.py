"""Text, redaction, ids and speed: helpers that know nothing of transcripts."""

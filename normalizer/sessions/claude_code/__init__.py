"""Claude Code session files."""

from normalizer.sessions.claude_code.format import FORMAT

__all__ = ["FORMAT"]

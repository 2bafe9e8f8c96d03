"""Input -> facts: which reader an input is for, and what every reader shares."""

from normalizer.findings import Finding, FindingKind, Fragment, Leftover, Reading

__all__ = ["Finding", "FindingKind", "Fragment", "Leftover", "Reading"]

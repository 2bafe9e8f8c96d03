"""Anthropic Messages."""

from normalizer.provider import Provider
from normalizer.providers.anthropic import detection, project, read, rules, stream, wire

PROVIDER = Provider(
    name=wire.API,
    sniff=detection.sniff,
    read=read.read,
    assembler=stream.Assembler,
    project=project.project,
    rules=rules.RULES,
    yielding=wire.YIELDING,
    borrow=read.borrow,
)

"""Anthropic Messages."""

from normalizer.provider import Provider
from normalizer.providers.anthropic import project, read, rules, sniffing, stream, wire

PROVIDER = Provider(
    name=wire.API,
    sniff=sniffing.sniff,
    read=read.read,
    assembler=stream.Assembler,
    project=project.project,
    rules=rules.RULES,
    yielding=wire.YIELDING,
    borrow=read.borrow,
)

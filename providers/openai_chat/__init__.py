"""OpenAI Chat Completions, and servers that are compatible with it."""

from normalizer.provider import Provider
from normalizer.providers.openai_chat import detection, project, read, rules, stream, wire

PROVIDER = Provider(
    name=wire.API,
    sniff=detection.sniff,
    read=read.read,
    assembler=stream.Assembler,
    project=project.project,
    rules=rules.RULES,
    profiles=tuple(wire.PROFILES),
)

"""OpenAI Responses."""

from normalizer.provider import Provider
from normalizer.providers.openai_responses import detection, project, read, rules, stream, wire

PROVIDER = Provider(
    name=wire.API,
    sniff=detection.sniff,
    read=read.read,
    assembler=stream.Assembler,
    project=project.project,
    rules=rules.RULES,
    profiles=project.DIALECT.profiles,
)

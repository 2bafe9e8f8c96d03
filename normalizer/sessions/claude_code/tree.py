"""Which lines of a Claude Code session are the live conversation, and in which order they tell it.

Lines form a tree by `uuid` and `parentUuid`. The live path runs from the leaf to the root, but a plain walk loses
what hangs beside it: parallel calls fork the tree, and a hook's line can stand where the reply should. A line whose
parent was never written goes on with the line before it in the file, so that nothing is cut off.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from normalizer.reading.fact_builder import Recorder
    from normalizer.sessions.claude_code.nodes import Node


@dataclass(slots=True)
class Step:
    """What is told at one place: the lines of one reply, or one other line."""

    nodes: list[Node]
    group: bool = False
    calls: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Story:
    """The live conversation in order, the lines beside it, and the calls that a stop surely hit."""

    steps: list[Step]
    beside: list[Node]
    stopped: frozenset[str]


def story(nodes: list[Node], leaf_uuid: str | None, hits: frozenset[str], recorder: Recorder) -> Story:
    """The live conversation of these lines (each uuid once, in order of the file).

    `leaf_uuid` is the leaf that the file names, `hits` the ids of the replies that a stop of the user hit.
    """
    main = [node for node in nodes if not node.side] or nodes
    return _Telling(main, recorder).story(nodes, leaf_uuid, hits)


class _Telling:
    """One run: the lines by uuid and by what hangs on them."""

    def __init__(self, main: list[Node], recorder: Recorder) -> None:
        self.main = main
        self.recorder = recorder
        self.by_uuid = {node.uuid: node for node in main}
        self.place = {node.uuid: number for number, node in enumerate(main)}
        self.missing: set[str] = set()
        for number, node in enumerate(main):
            node.up = self._above(node, number)
        self._untangle()
        self.below: dict[str, list[Node]] = {}
        for node in main:
            if node.up is not None:
                self.below.setdefault(node.up.uuid, []).append(node)
        self.used: set[str] = set()

    def _above(self, node: Node, number: int) -> Node | None:
        if node.boundary or (node.summary and node.parent is None):
            found = self.by_uuid.get(node.logical or "")
            return found if found is not None and found is not node else self._before(number)
        if node.parent is None:
            return None
        found = self.by_uuid.get(node.parent)
        if found is not None and found is not node:
            return found
        if number or node.parent:
            self.missing.add(node.uuid)
        return self._before(number)

    def _before(self, number: int) -> Node | None:
        """The line before this place in the file."""
        return self.main[number - 1] if number else None

    def _untangle(self) -> None:
        """Open every ring, so that each walk up ends.

        A compaction can hang the kept lines behind its summary, which hangs on the last of them: there the ring
        is opened at the boundary.
        """
        safe: set[str] = set()
        for start in self.main:
            trail: dict[str, Node] = {}
            node: Node | None = start
            while node is not None and node.uuid not in safe:
                if node.uuid not in trail:
                    trail[node.uuid] = node
                    node = node.up
                    continue
                uuids = list(trail)
                ring = {uuid: trail[uuid] for uuid in uuids[uuids.index(node.uuid) :]}
                cut = next((n for n in ring.values() if n.boundary), None) or min(
                    ring.values(), key=lambda n: n.index
                )
                cut.up = self._clear_of(set(ring), cut, safe)
                if not cut.boundary:
                    self.missing.add(cut.uuid)
                trail, node = {}, start
            safe.update(trail)

    def _clear_of(self, ring: set[str], cut: Node, safe: set[str]) -> Node | None:
        """The nearest line before `cut` that does not lead into the ring."""
        leads = set(ring)
        for number in range(self.place[cut.uuid] - 1, -1, -1):
            trail: set[str] = set()
            node: Node | None = self.main[number]
            while node is not None and not (node.uuid in leads or node.uuid in safe or node.uuid in trail):
                trail.add(node.uuid)
                node = node.up
            if node is None or node.uuid in safe:
                return self.main[number]
            leads |= trail
        return None

    def story(self, nodes: list[Node], leaf_uuid: str | None, hits: frozenset[str]) -> Story:
        leaf = self._leaf(leaf_uuid)
        if leaf is None:
            return Story([], nodes, frozenset())
        path = self._with_lost_replies(self._path(leaf))
        self.used = {node.uuid for node in path}
        steps = self._with_results(_with_preserved(self._grouped(path), self.by_uuid))
        beside = [node for node in nodes if node.uuid not in self.used]
        return Story(steps, beside, _stopped(steps, hits))

    # ------------------------------------------------------------ leaf and path

    def _leaf(self, leaf_uuid: str | None) -> Node | None:
        named = self.by_uuid.get(leaf_uuid or "")
        if named is not None:
            newest = max(
                self._descendants(self._with_siblings(named)), key=lambda node: node.index, default=named
            )
            return newest if newest.index > named.index else named
        inner: set[str] = set()
        for node in self.main:
            if node.is_message:
                above = _message_above(node)
                if above is not None:
                    inner.add(above.uuid)
        ends = [node for node in self.main if node.is_message and node.uuid not in inner]
        return ends[-1] if ends else next((n for n in reversed(self.main) if n.is_message), None)

    def _with_siblings(self, node: Node) -> list[Node]:
        """The lines of the same reply and the results of its calls: the next reply may hang on any of them."""
        reply = node if node.type == "assistant" else _message_above(node) if node.results else None
        if reply is None or reply.type != "assistant" or reply.message_id is None:
            return [node]
        lines = [
            n for n in self.main if n.message_id == reply.message_id and n.request_id == reply.request_id
        ]
        calls = {call for line in lines for call in line.calls}
        uuids = {line.uuid for line in lines}
        results = [
            n for line in lines for n in self.below.get(line.uuid, ()) if calls.intersection(n.results)
        ]
        return [node, *lines, *(n for n in results if n.uuid not in uuids)]

    def _descendants(self, roots: list[Node]) -> Iterator[Node]:
        """All messages below these lines."""
        seen = {node.uuid for node in roots}
        waiting = list(roots)
        while waiting:
            for node in self.below.get(waiting.pop().uuid, ()):
                if node.uuid not in seen:
                    seen.add(node.uuid)
                    waiting.append(node)
                    if node.is_message:
                        yield node

    def _path(self, leaf: Node) -> list[Node]:
        """From the root to the leaf."""
        path: list[Node] = []
        node: Node | None = leaf
        while node is not None:
            path.append(node)
            if node.uuid in self.missing:
                self.recorder.finding(
                    "parent_missing",
                    f"the line names the parent {node.parent!r}, which is not in the file;"
                    " the line before it in the file is read as its parent",
                    node.record.place,
                )
            node = node.up
        path.reverse()
        return path

    def _with_lost_replies(self, path: list[Node]) -> list[Node]:
        """The path with the replies that hang beside it because the next prompt was hung on a hook's line."""
        on_path = {node.uuid for node in path}
        told: list[Node] = []
        pending: list[Node] = []
        for node in path:
            if node.is_message:
                if node.prompt and len(pending) > 1:
                    told[-len(pending) + 1 :] = [*self._lost(pending, on_path, node.index), *pending[1:]]
                pending = [node]
            elif pending:
                pending.append(node)
            told.append(node)
        return told

    def _lost(self, pending: list[Node], on_path: set[str], before: int) -> list[Node]:
        """Replies and results below these lines, written before the prompt that follows."""
        for node in pending:
            for child in self.below.get(node.uuid, ()):
                if child.uuid in on_path or not child.is_message or child.prompt or child.index > before:
                    continue
                newest = max(
                    (n for n in self._descendants([child]) if n.index < before),
                    key=lambda n: n.index,
                    default=child,
                )
                lost = [newest]
                while lost[-1] is not child and lost[-1].up is not None:
                    lost.append(lost[-1].up)
                lost.reverse()
                on_path.update(n.uuid for n in lost)
                return lost
        return []

    # ------------------------------------------------------------ replies and results

    def _grouped(self, path: list[Node]) -> list[Step]:
        """The path as steps: the lines of one reply stand together, also those that hang beside the path."""
        by_message: dict[str, list[Node]] = {}
        for node in self.main:
            if node.message_id is not None and node.uuid not in self.used:
                by_message.setdefault(node.message_id, []).append(node)
        steps: list[Step] = []
        current: Step | None = None
        for node in path:
            if node.type != "assistant":
                if node.prompt:
                    current = None
                steps.append(Step([node]))
            elif current is not None and _same_reply(current.nodes[-1], node):
                current.nodes.append(node)
            else:
                current = Step([node], group=True)
                steps.append(current)
        for step in steps:
            if step.group:
                self._add_beside(step, by_message.get(step.nodes[0].message_id or "", []))
                step.nodes.sort(key=_block_order(step.nodes))
                step.calls = {call for node in step.nodes for call in node.calls}
        return steps

    def _add_beside(self, step: Step, candidates: list[Node]) -> None:
        """Add the lines of the same reply that hang on it, or whose parent was lost."""
        first = _message_above(step.nodes[0])
        anchors = {node.uuid for node in step.nodes} | ({first.uuid} if first is not None else set())
        waiting = [node for node in candidates if _same_reply(step.nodes[0], node)]
        grew = True
        while grew:
            grew = False
            for node in waiting:
                above = _message_above(node)
                fits = node.uuid in self.missing or above is None or above.uuid in anchors or (
                    above.up is not None and bool(above.results) and above.up.uuid in anchors
                )  # fmt: skip
                if fits and node.uuid not in self.used:
                    self.used.add(node.uuid)
                    anchors.add(node.uuid)
                    step.nodes.append(node)
                    grew = True

    def _with_results(self, steps: list[Step]) -> list[Step]:
        """The steps with the results that hang beside the path, each as near as the file tells to its call."""
        owners: dict[str, int] = {}
        for step in steps:
            for call in step.calls:
                owners[call] = owners.get(call, 0) + 1
        # an id that one reply alone used: the same result, written again
        told = {
            found
            for step in steps
            for node in step.nodes
            for found in zip(node.results, node.digests, strict=True)
            if owners.get(found[0]) == 1
        }
        beside: dict[str, list[Node]] = {}
        for node in self.main:
            if node.results and node.uuid not in self.used:
                written_again = told.issuperset(zip(node.results, node.digests, strict=True))
                for call in () if written_again else node.results:
                    beside.setdefault(call, []).append(node)
        ordered: list[Step] = []
        pending: list[Node] = []
        for step in steps:
            is_result = not step.group and bool(step.nodes[0].results)
            flushed = [n for n in pending if not is_result or n.index < step.nodes[0].index]
            ordered.extend(Step([node]) for node in flushed)
            pending = [n for n in pending if n not in flushed]
            ordered.append(step)
            if step.group:
                pending.extend(self._results_of(step, beside, owners))
                pending.sort(key=lambda node: node.index)
        ordered.extend(Step([node]) for node in pending)
        return ordered

    def _results_of(
        self, step: Step, beside: dict[str, list[Node]], owners: dict[str, int]
    ) -> Iterator[Node]:
        lines = {node.uuid for node in step.nodes}
        for call in sorted(step.calls):
            for node in beside.get(call, ()):
                ours = (
                    owners[call] == 1
                    or node.source in lines
                    or (node.up is not None and node.up.uuid in lines)
                )
                if ours and node.uuid not in self.used:
                    self.used.add(node.uuid)
                    yield node


def _message_above(node: Node) -> Node | None:
    """The nearest message above a line."""
    above = node.up
    while above is not None and not above.is_message:
        above = above.up
    return above


def _block_order(nodes: list[Node]) -> Callable[[Node], int]:
    """The order of a reply's lines: as the client numbered its blocks, else as the file has them."""
    if all(node.number is not None for node in nodes):
        return lambda node: node.number or 0
    return lambda node: node.index


def _same_reply(one: Node, other: Node) -> bool:
    """Whether two lines are blocks of one reply. Some gateways give every reply the same id; requests differ."""
    if one.message_id is None or one.message_id != other.message_id:
        return False
    return one.request_id is None or other.request_id is None or one.request_id == other.request_id


def _with_preserved(steps: list[Step], by_uuid: dict[str, Node]) -> list[Step]:
    """What a compaction kept stands behind its summary, with the results of the calls in it."""
    kept: set[str] = set()
    told: list[Step] = []
    for step in steps:
        node = step.nodes[0]
        told.append(step)
        if node.boundary:
            kept = _piece(node.kept, by_uuid)
        elif node.summary:
            moved: list[Step] = []
            calls: set[str] = set()
            for earlier in told[:-1]:
                if any(n.uuid in kept for n in earlier.nodes) or calls.intersection(earlier.nodes[0].results):
                    moved.append(earlier)
                    calls |= earlier.calls
            if moved:
                gone = {id(earlier) for earlier in moved}
                told = [*(earlier for earlier in told if id(earlier) not in gone), *moved]
            kept = set()
    return told


def _piece(kept: tuple[str, ...], by_uuid: dict[str, Node]) -> set[str]:
    """The uuids of the kept lines."""
    if kept[:1] != ("",):
        return set(kept)
    _, head, tail = kept
    found: set[str] = set()
    node = by_uuid.get(tail)
    while node is not None and node.uuid not in found:
        found.add(node.uuid)
        if node.uuid == head:
            return found
        node = node.up
    return {head, tail}


def _stopped(steps: list[Step], hits: frozenset[str]) -> frozenset[str]:
    """The calls that the user's stop hit: the only call of the reply that has no result of its own."""
    rejected: set[str] = set()
    answered: set[str] = set()
    for step in steps:
        for node in step.nodes:
            rejected.update(node.rejected)
            answered.update(set(node.results).difference(node.rejected))
    found: set[str] = set()
    for step in steps:
        if step.group and step.nodes[0].message_id in hits:
            open_calls = step.calls - answered
            if len(open_calls) == 1 and open_calls <= rejected:
                found |= open_calls
    return frozenset(found)

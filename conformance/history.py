"""Whether one order of events explains what several clients read and wrote: linearizability of blocks, from their history.

Every write has a value of its own, so that each value has a cluster: its write and the reads that gave it. Where something in it
ended before something else began, the block had the value between the two (a forward zone); else everything in it overlaps, and
the block had the value at some moment of the overlap (a backward zone). The history is linearizable exactly where no two forward
zones overlap, no backward zone lies within a forward one, and no read ends before its write begins (Gibbons and Korach, "Testing
shared memories", 1997).
"""

import collections
import dataclasses
import math

NEVER = math.inf


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that a client did between two moments; a write of which nobody knows whether it was done ends never."""

    client: str
    block: tuple
    value: int
    is_write: bool
    began: float
    ended: float

    def told(self):
        return f"{self.began:.3f}..{self.ended:.3f} {self.client} {'writes' if self.is_write else 'reads'} {self.value}"


def fault(events, grace=0.0):
    """What no order explains, or None. Blocks begin with the value 0. What was done counts as done `grace` seconds later."""
    blocks = collections.defaultdict(list)
    for event in events:
        blocks[event.block].append(dataclasses.replace(event, ended=event.ended + grace))
    for block, of_block in sorted(blocks.items()):
        found = fault_of_block(of_block)
        if found:
            return f"block {block}: {found}"
    return None


def fault_of_block(events):
    clusters = collections.defaultdict(list)
    clusters[0].append(Event("", (), 0, True, -NEVER, -NEVER))
    for event in events:
        clusters[event.value].append(event)
    forward, backward = [], []
    for value, cluster in clusters.items():
        write = next((event for event in cluster if event.is_write), None)
        if write is None:
            return f"{value} was never written"
        if any(event.ended < write.began for event in cluster):
            return f"{value} was read before it was written"
        first_end, last_beginning = min(event.ended for event in cluster), max(event.began for event in cluster)
        if first_end < last_beginning:
            forward.append((first_end, last_beginning, value))
        elif first_end < NEVER:
            backward.append((last_beginning, first_end, value))
    return crossing(sorted(forward), backward, clusters)


def crossing(forward, backward, clusters):
    for one, other in zip(forward, forward[1:]):
        if other[0] < one[1]:
            return told(clusters, one[2], other[2])
    for start, end, value in backward:
        for one in forward:
            if one[0] < start and end < one[1]:
                return told(clusters, one[2], value)
    return None


def told(clusters, *values):
    concerned = sorted((event for value in values for event in clusters[value]), key=lambda event: event.began)
    return f"{values[0]} and {values[1]} took turns\n" + "\n".join(event.told() for event in concerned)


def delay(events, steps=(0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)):
    """How much later than it was answered a change was seen everywhere, in seconds, rounded up to one of `steps`; or NEVER."""
    return next((step for step in steps if fault(events, step) is None), NEVER)


def works():
    """Whether made-up histories are judged rightly."""
    def write(value, began, ended):
        return Event("a", (0, 0), value, True, began, ended)

    def read(value, began, ended):
        return Event("b", (0, 0), value, False, began, ended)
    good = [write(1, 1, 4), read(0, 2, 3), read(1, 2, 9), write(2, 5, NEVER), read(1, 10, 11)]
    bad = [
        [write(1, 1, 2), read(0, 3, 4)],
        [write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)],
        [write(1, 1, 9), read(1, 2, 3), read(0, 4, 5)],
        [read(3, 1, 2)],
        [read(1, 1, 2), write(1, 3, 4)],
        [write(1, 1, 10), write(2, 1, 10), read(1, 11, 12), read(2, 13, 14)],
    ]
    return fault(good) is None and all(fault(each) for each in bad) and delay(bad[0]) == 1

"""Reading the log of a server at debug level: stations of requests, phases of steps, all on one clock."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

STAMP = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z"
STATION = re.compile(rf'^{STAMP} .*request_id="?([\w:.-]+?)"? station="(\w+)"')
PHASE = re.compile(rf"^{STAMP} .* step (\d+) (scheduling|execution|output processing): (.*)$")


def seconds(stamp: str) -> float:
    """A time stamp of the log as seconds."""
    return datetime.fromisoformat(stamp + "+00:00").timestamp()


@dataclass
class Trace:
    """What a log says."""

    stations: dict[str, list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))
    """Request id (the client's) → (station, time), in the order of the lines' times."""
    phases: list[tuple[int, str, float, str]] = field(default_factory=list)
    """(step, phase, time at its end, what it says)."""

    def executions(self, request_id: str) -> list[tuple[float, float]]:
        """(start, end) of every execution that a request had a row in."""
        spans, started = [], {}
        for step, phase, at_s, text in self.phases:
            if phase == "scheduling" and request_id in text:
                started[step] = at_s
            elif phase == "execution" and step in started:
                spans.append((started[step], at_s))
        return spans


def read_trace(log: Path) -> Trace:
    """Everything up to now."""
    trace = Trace()
    for line in log.read_text().splitlines():
        if match := STATION.match(line):
            # The engine's name for a request is the client's with a suffix of its own.
            request_id = re.sub(r"-[0-9a-f]{8}$", "", match[2])
            trace.stations[request_id].append((match[3], seconds(match[1])))
        elif match := PHASE.match(line):
            trace.phases.append((int(match[2]), match[3], seconds(match[1]), match[4]))
    for stations in trace.stations.values():
        stations.sort(key=lambda station: station[1])
    return trace

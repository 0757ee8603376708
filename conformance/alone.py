"""A suite as a program of its own, for as long as it is told to work."""

import signal
import sys

from conformance import known, multilane
from conformance.report import Report, Skip
from conformance.server import end_with_everything


def main(name, run):
    """Calls `run` with a report on our own server, prints the sum and ends with its exit code. `name` is the suite's."""
    signal.signal(signal.SIGTERM, end_with_everything)
    signal.signal(signal.SIGINT, end_with_everything)
    report = Report(known.read(multilane.Multilane))
    try:
        run(report)
    except Skip as reason:
        report.add(name, "the suite", "skip", detail=str(reason))
    print(report.summary())
    sys.exit(report.exit_code())

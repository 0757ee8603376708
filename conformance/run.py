"""Runs the conformance suites: `python3 -m conformance.run --help`."""

import argparse
import contextlib
import importlib
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from conformance import known, multilane, samba  # noqa: E402
from conformance.report import Report, Skip  # noqa: E402
from conformance.server import end_with_everything  # noqa: E402

SERVERS = {"multilane": multilane.Multilane, "samba": samba.Samba}
# Modules of the suites. Each lane runs its own in turn, quick ones first, so that a broken server is known early; what a run waits for is the longest,
# and at its end it tells how long each was. smbtorture's tests mostly wait for timers; the second lane's clients ask what is right and never how soon;
# so do the third's, by REST, and the kernel's in a guest; the last one's look at times, too, or need a guest each.
LANES = {
    "torture": ("torture", "failover"),
    "clients": ("py_smbprotocol", "go_smb2", "counted", "rust_smb", "smbclient", "time_machine", "people", "backups", "names", "access", "prometheus", "otlp", "page", "az", "rest_page_az"),
    "rest": ("announced", "rest", "rest_shares", "rest_hostile", "rest_schema", "rest_snapshots", "management", "rest_js", "rest_go", "rest_trees", "rest_page", "kernel"),
    "times": ("hostile", "pacing", "coherence", "frozen", "hanging", "power", "kernel_fsx", "kernel_channels"),
}
# These measure, or make the machine busy, and want it to themselves.
ALONE = ("soak", "channels", "cores", "limits", "why", "metadata_cache", "compare")
SUITES = tuple(name for suites in (*LANES.values(), ALONE) for name in suites)
# These run only where they are named: what they build, or an emulated machine, takes minutes.
NAMED = ("package", "project", "rest_python_tests", "rest_go_tests")


def main():
    signal.signal(signal.SIGTERM, end_with_everything)
    signal.signal(signal.SIGINT, end_with_everything)
    arguments = parsed()
    kind = SERVERS[arguments.server]
    if arguments.metadata_caching == "off":
        kind.metadata_caching = False
    report = Report(known.read(kind), lines=sys.stderr if arguments.json else sys.stdout)
    if arguments.server == "multilane" and not multilane.binary().exists():
        sys.exit(f"{multilane.binary()} is not built: cargo build --release, or set MULTILANE_BINARY")
    chosen = arguments.only or SUITES

    seconds = {"lanes": {}, "suites": {}}

    def run_those(lane, suites):
        for name in (name for name in suites if name in chosen):
            with timed(seconds["suites"], name), timed(seconds["lanes"], lane):
                run_suite(name, kind, report, arguments)

    lanes = [threading.Thread(target=run_those, args=lane) for lane in LANES.items()]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    run_those("alone", (*ALONE, *NAMED))
    if arguments.json:
        print(report.json())
    for what, parts in seconds.items():
        report.note(f"{what}: {', '.join(f'{name} {taken:.0f} s' for name, taken in parts.items())}")
    if report.count("known"):
        print(f"{report.count('known')} known failures, each with its reason in {known.LISTS[kind.kind].name}")
    if report.failures():
        print(report.failures())
    print(report.summary())
    return report.exit_code()


@contextlib.contextmanager
def timed(seconds, name):
    """Adds the time that the body takes to that of the name."""
    began = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0) + time.monotonic() - began


def run_suite(name, kind, report, options):
    """Runs one suite; what stops it before its end is a failed, or skipped, check of its own."""
    suite = importlib.import_module(f"conformance.{name}")
    try:
        suite.run(kind, report, options)
    except Skip as reason:
        report.add(suite.NAME, "the suite", "skip", detail=str(reason))
    except Exception as error:
        report.add(suite.NAME, "the suite", "fail", detail=f"{type(error).__name__}: {error}")


def parsed():
    parser = argparse.ArgumentParser(prog="conformance.run", description=__doc__)
    parser.add_argument("--server", choices=SERVERS, default="multilane", help="which server to run against")
    parser.add_argument("--only", nargs="+", choices=(*SUITES, *NAMED), metavar="SUITE",
                        help=f"of {', '.join(SUITES)}; only where they are named, {', '.join(NAMED)}")
    parser.add_argument("--metadata-caching", choices=("on", "off"), default="on", help="of our own server's account (on)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of lines")
    parser.add_argument("--access-cases", type=int, default=4000, metavar="N", help="cases of the suite access (4000)")
    parser.add_argument("--schema-seconds", type=int, default=0, metavar="N", help="how long the suite rest_schema goes on; once through all operations (0)")
    parser.add_argument("--schema-seed", type=int, default=1, metavar="N", help="what its requests begin from (1)")
    parser.add_argument("--page-pictures", metavar="FOLDER", help="keep pictures of what the suite page has seen")
    group = parser.add_argument_group("torture")
    group.add_argument("--torture-tests", default=".", metavar="REGEX", help="run only the tests that match")
    group.add_argument("--torture-parallel", type=int, default=6, metavar="N", help="tests side by side (6)")
    group.add_argument("--torture-timeout", type=int, default=60, metavar="SECONDS", help="for one test (60)")
    group.add_argument("--update", action="store_true", help="rewrite the list of known failures, or the table of docs/REST.md, from this run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

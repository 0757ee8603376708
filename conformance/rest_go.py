"""Azure Files' REST interface by azfile, Microsoft's module for Go as it is published; its checks are in rest-go/checks."""

from conformance import packages, rest_table
from conformance.report import Skip
from conformance.rest import Keeping
from conformance.server import Wanted, serving

NAME = "rest_go"
CHECK_SECONDS = 300


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    program = packages.go_program("rest-go", "checks")
    with serving(Keeping, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        report.absorb(NAME, [program], CHECK_SECONDS, env=server.rest_environment())
        rest_table.compare(report, NAME, rest_table.asked_of(server), "Go", options)
        report.server_is_well(NAME, server)

"""Azure Files' REST interface by @azure/storage-file-share, Microsoft's client for JavaScript as it is published; its checks are in rest-js/checks.mjs."""

from conformance import packages, rest_table
from conformance.report import Skip
from conformance.rest import Keeping
from conformance.server import Wanted, serving

NAME = "rest_js"
CHECK_SECONDS = 300


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    folder = packages.node_program("rest-js")
    with serving(Keeping, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        report.absorb(NAME, ["node", "checks.mjs"], CHECK_SECONDS, env=server.rest_environment(), cwd=folder)
        rest_table.compare(report, NAME, rest_table.asked_of(server), "JavaScript", options)
        report.server_is_well(NAME, server)

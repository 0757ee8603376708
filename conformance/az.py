"""The command line of Azure, `az`, as it is published, against the management interface and the data plane, by HTTPS; its checks are in az_checks.py and
az_files_checks.py. Installing it takes a minute and three quarters of a gigabyte, each of its commands half a second."""

import json

from conformance import packages, rest_table
from conformance.management import Managed
from conformance.report import Skip
from conformance.rest_page import AZ as REQUIREMENTS
from conformance.server import HOST, Wanted, serving

NAME = "az"
CHECK_SECONDS = 1800
CHECKS = ("az_checks", "az_files_checks")


class ByHttps(Managed):
    """Our server with a certificate for its REST interface."""

    def command(self):
        return [*super().command(), "--rest-tls"]

    def az_environment(self):
        return dict(self.management_environment(), ARM_URL=f"https://{HOST}:{self.rest_port}", REST_URL=f"https://{HOST}:{self.rest_port}/{self.keeper}",
                    ARM_CONTRIBUTOR=json.dumps(self.principals["both"]), REST_CA=str(self.folder / "data" / "rest-tls" / "ca.pem"))


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no management interface")
    python = packages.python_with(*REQUIREMENTS, folder="venv-az")
    with serving(ByHttps, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        for checks in CHECKS:
            report.absorb(NAME, [python, "-m", f"conformance.{checks}"], CHECK_SECONDS, env=server.az_environment(), cwd=packages.ROOT)
        rest_table.compare(report, NAME, rest_table.asked_of(server), "az", options)
        report.server_is_well(NAME, server)

"""The service and its shares by Azure Files' REST interface, by Microsoft's own client for Python as it is published, beside SMB clients; its checks are in
rest_share_checks.py."""

import json

from conformance import packages, rest, rest_table
from conformance.report import Skip
from conformance.server import Wanted, serving

NAME = "rest_shares"
CHECK_SECONDS = 300
# Accounts by what the checks call them, with what each is made with.
ACCOUNTS = {"KEPT": ("keepsdeleted", ()), "V1": ("premiumvone", ("--sku", "Premium_LRS")), "V2": ("premiumvtwo", ("--sku", "PremiumV2_LRS")),
            "STANDARD": ("standardone", ("--sku", "Standard_LRS"))}


class WithAccounts(rest.WithRest):
    """Our server with accounts of all kinds, one of which keeps deleted shares for a week."""

    def prepare(self):
        super().prepare()
        for name, words in ACCOUNTS.values():
            self._run("account", "create", name, *words)
        self._run("account", "update", ACCOUNTS["KEPT"][0], "--share-retention", "7")

    def rest_environment(self):
        keys = {f"REST_KEY_{name}": json.loads(self._run("account", "keys", name, "--json"))["key1"] for name, _ in ACCOUNTS.values()}
        return super().rest_environment() | {f"REST_{role}": name for role, (name, _) in ACCOUNTS.items()} | keys


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")
    python = packages.python_with(*rest.REQUIREMENTS, folder="venv-azure")
    with serving(WithAccounts, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        report.absorb(NAME, [python, "-m", "conformance.rest_share_checks"], CHECK_SECONDS, env=server.rest_environment(), cwd=packages.ROOT)
        rest_table.compare(report, NAME, rest_table.asked_of(server), "Python", options, rest_table.OF_SHARES)
        report.server_is_well(NAME, server)

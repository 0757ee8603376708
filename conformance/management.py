"""The management interface, by Microsoft's own client for Python as it is published, beside SMB clients of the same accounts; its checks are in
management_checks.py."""

import json

from conformance import packages
from conformance.report import Skip, expect
from conformance.rest import WithRest
from conformance.rest import REQUIREMENTS as REST_REQUIREMENTS
from conformance.server import HOST, Wanted, serving

NAME = "management"
REQUIREMENTS = ("azure-mgmt-storage==25.3.0", *REST_REQUIREMENTS)
CHECK_SECONDS = 300


class Managed(WithRest):
    """Our server with service principals."""

    def prepare(self):
        super().prepare()
        self.principals = {role: self._principal(role) for role in ("contributor", "file-reader")}
        self.principals["both"] = json.loads(self._run("principal", "create", "its everything", "--json"))

    def _principal(self, role):
        return json.loads(self._run("principal", "create", f"its {role}", "--role", role, "--json"))

    def management_environment(self):
        return dict(self.rest_environment(), ARM_URL=f"http://{HOST}:{self.rest_port}", ARM_CONTRIBUTOR=json.dumps(self.principals["contributor"]),
                    ARM_READER=json.dumps(self.principals["file-reader"]), ARM_DATA=self._data(), ARM_PROGRAM=str(self.program))


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no management interface")
    python = packages.python_with(*REQUIREMENTS, folder="venv-management")
    with serving(Managed, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        report.absorb(NAME, [python, "-m", "conformance.management_checks"], CHECK_SECONDS, env=server.management_environment(), cwd=packages.ROOT)
        with report.check(NAME, "the log tells who changed what, who was told of keys, and from where"):
            told_who(server)
        report.server_is_well(NAME, server)


def told_who(server):
    for event, what in (("catalog_changed", "key replaced"), ("catalog_changed", "share deleted"), ("secret_told", "keys"),
                        ("secret_told", "shared access signature")):
        found = server.logged(event, what)
        by_principal = [one for one in found if one["operator"] == "principal:its contributor" and one["from"].startswith(f"{HOST}:")]
        expect(by_principal, (event, what, found[:3]))

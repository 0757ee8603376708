"""Azure Files' REST interface, by Microsoft's own client for Python as it is published, beside SMB clients of the same share; its checks are in
rest_checks.py and the others named here."""

import json
import os
import pathlib
import subprocess

from conformance import multilane, packages, rest_table
from conformance.py_smbprotocol import REQUIREMENTS as SMB_REQUIREMENTS
from conformance.report import Skip, expect
from conformance.server import HOST, Wanted, free_port, serving

NAME = "rest"
REQUIREMENTS = ("azure-storage-file-share==12.27.1", *SMB_REQUIREMENTS)
CHECK_SECONDS = 300
CHECKS = ("rest_checks", "rest_file_checks", "rest_auth_checks")
# What is checked by HTTPS as well.
TLS_CHECKS = ("rest_auth_checks", "rest_tls_checks", "rest_token_checks")

# What is answered to who lists a share from an address, with a signature that allows it.
FROM = """
import datetime, http.client, os, sys, urllib.parse
from azure.storage.fileshare import AccountSasPermissions, ResourceTypes, generate_account_sas
url, until = urllib.parse.urlsplit(os.environ["REST_URL"]), datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
signature = generate_account_sas(os.environ["REST_ACCOUNT"], os.environ["REST_KEY"], ResourceTypes(service=True, container=True, object=True),
                                 AccountSasPermissions(read=True, list=True, write=True, create=True, delete=True), until)
def ask(method, query, **headers):
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60, source_address=(sys.argv[1], 0))
    connection.request(method, f"{url.path}{query}&{signature}", headers={"Content-Length": "0", "x-ms-version": "2025-05-05"} | headers)
    answer = connection.getresponse()
    return answer.status, answer.headers.get("x-ms-error-code", ""), answer.read()
lease = {"x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1"}
asked = [("GET", "/other?restype=directory&comp=list", {}), ("PUT", "/other?restype=share&comp=metadata", {"x-ms-meta-a": "b"}),
         ("PUT", "/other?restype=share&comp=lease", lease), ("DELETE", "/other?restype=share", {})]
# Who may use the share does not delete it here.
told = [ask(method, query, **headers)[:2] for method, query, headers in asked[:None if sys.argv[2:] else 3]]
print(*sorted({f"{status} {code}".strip() for status, code in told}), b"<Name>other</Name>" in ask("GET", "/?comp=list")[2], sep=",")
"""
# The operations that the client has requests for.
BUILT = """
from azure.storage.fileshare._generated.operations import _operations
print(*(name.removeprefix("build_").removesuffix("_request") for name in dir(_operations) if name.startswith("build_") and name.endswith("_request")))
"""


class WithRest(multilane.Multilane):
    """Our server with its REST interface."""

    scheme = "http"

    def __init__(self, wanted):
        super().__init__(wanted)
        self.rest_port = free_port()

    def command(self):
        return [*super().command(), "--rest", str(self.rest_port), *rest_table.LOGGED]

    def rest_environment(self):
        return dict(self.environment(), REST_URL=f"{self.scheme}://{HOST}:{self.rest_port}/{self.keeper}", REST_ACCOUNT=self.keeper,
                    REST_KEY=self.keeper_password(), LOCAL_FOLDER=str(self.share_path()))


class Keeping(WithRest):
    """The same, which keeps deleted shares for a week."""

    def prepare(self):
        super().prepare()
        self._run("account", "update", self.keeper, "--share-retention", "7")


class WithTls(WithRest):
    """The same by HTTPS, with a certificate that it makes."""

    scheme = "https"

    def prepare(self):
        super().prepare()
        self.principals = {role: self._run("principal", "create", role, "--role", role, "--json")
                           for role in ("file-reader", "file-contributor", "contributor")}

    def command(self):
        return [*super().command(), "--rest-tls"]

    def rest_environment(self):
        return dict(super().rest_environment(), REQUESTS_CA_BUNDLE=str(pathlib.Path(self._data()) / "rest-tls" / "ca.pem"),
                    REST_PRINCIPALS=json.dumps(self.principals), MULTILANE=str(self.program), MULTILANE_DATA=self._data())


def only_ours(kind):
    if kind.kind != "multilane":
        raise Skip("other servers have no REST interface")


def run(kind, report, options):
    only_ours(kind)
    python = packages.python_with(*REQUIREMENTS, folder="venv-azure")
    with serving(WithRest, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        for checks in CHECKS:
            report.absorb(NAME, [python, "-m", f"conformance.{checks}"], CHECK_SECONDS, env=server.rest_environment(), cwd=packages.ROOT)
        report.server_is_well(NAME, server)
        asked = rest_table.asked_of(server)
        with report.check(NAME, "a share is there for the hosts that may use it, and for no others"):
            server._run("share", "update", "other", "--hosts-allow", "127.0.0.1,127.0.0.3")
            for source, wanted in (("127.0.0.2 whatever", "403 AuthorizationFailure,False"), ("127.0.0.3", "200,201,True")):
                told = subprocess.run([python, "-c", FROM, *source.split()], env=server.rest_environment(), capture_output=True, text=True, timeout=CHECK_SECONDS)
                expect(told.stdout.strip() == wanted, (source, told.stdout, told.stderr))
    with serving(WithTls, Wanted(shares=("conf", "other"), on_tmpfs=True)) as server:
        for checks in TLS_CHECKS:
            report.absorb(NAME, [python, "-m", f"conformance.{checks}"], CHECK_SECONDS, env=server.rest_environment(), cwd=packages.ROOT)
        report.server_is_well(NAME, server)
        asked += rest_table.asked_of(server)
    rest_table.compare(report, NAME, asked, "Python", options, set(rest_table.OPERATIONS) - rest_table.OF_SHARES - rest_table.OF_SNAPSHOTS)
    built = subprocess.run([python, "-c", BUILT], capture_output=True, text=True, timeout=CHECK_SECONDS, check=True)
    rest_table.whole(report, NAME, built.stdout.split())
    for checks in ("rest_dev_checks", "rest_counted_checks", "rest_fault_checks", "rest_refusal_checks"):
        report.absorb(NAME, [python, "-m", f"conformance.{checks}"], CHECK_SECONDS, env=dict(os.environ, MULTILANE=str(multilane.binary())),
                      cwd=packages.ROOT)

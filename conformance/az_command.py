"""How the checks run `az`: with settings of its own, and against the server that is in ARM_* and REST_* variables."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from conformance.report import Failure, expect

URL, ACCOUNT = os.environ["ARM_URL"], os.environ["REST_ACCOUNT"]
CONTRIBUTOR = json.loads(os.environ["ARM_CONTRIBUTOR"])
SHARE, FOLDER = os.environ["SMB_SHARE"], pathlib.Path(os.environ["LOCAL_FOLDER"])
GROUP = "multilane"
place = tempfile.TemporaryDirectory(prefix="conformance-az-")
PLACE = pathlib.Path(place.name)
ENVIRONMENT = dict(os.environ, AZURE_CONFIG_DIR=str(PLACE / "config"), REQUESTS_CA_BUNDLE=os.environ["REST_CA"], AZURE_CORE_COLLECT_TELEMETRY="no",
                   AZURE_CORE_INSTANCE_DISCOVERY="false", AZURE_CORE_NO_COLOR="yes", AZURE_CORE_ONLY_SHOW_ERRORS="yes", AZ_INSTALLER="PIP")
program = subprocess.Popen([sys.executable, "-m", "conformance.az_program"], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
# Who asks for files by a key names the account so, once.
BY_KEY = {"AZURE_STORAGE_CONNECTION_STRING":
          f"DefaultEndpointsProtocol=https;AccountName={ACCOUNT};AccountKey={os.environ['REST_KEY']};FileEndpoint={URL}/{ACCOUNT}"}


def az(*words, parsed=True, **variables):
    """What a command prints."""
    words = (*words, *(["-o", "json"] if parsed else []))
    command = {"words": words, "variables": variables, "out": str(PLACE / "out"), "err": str(PLACE / "err")}
    program.stdin.write(json.dumps(command) + "\n")
    program.stdin.flush()
    code, printed = int(program.stdout.readline()), (PLACE / "out").read_text()
    if code != 0:
        raise Failure(f"az {' '.join(words)}: exit {code}\n{(PLACE / 'err').read_text()}")
    return json.loads(printed) if parsed and printed.strip() else printed


def refused(part, *words, **variables):
    try:
        az(*words, **variables)
    except Failure as failure:
        expect(part in str(failure), failure)
        return
    raise Failure(f"az {' '.join(words)} is not refused")


def register():
    """Tells az of the server, as of a cloud."""
    az("cloud", "register", "--name", "multilane", "--skip-endpoint-discovery", "--endpoint-resource-manager", URL, "--endpoint-management", URL,
       "--endpoint-active-directory", URL, "--endpoint-active-directory-resource-id", f"{URL}/", "--endpoint-active-directory-graph-resource-id", f"{URL}/",
       "--endpoint-microsoft-graph-resource-id", URL, "--suffix-storage-endpoint", f"core.localhost:{URL.rsplit(':', 1)[1]}", parsed=False)
    az("cloud", "set", "--name", "multilane", parsed=False)


def log_in(secret=CONTRIBUTOR["password"]):
    return az("login", "--service-principal", "--username", CONTRIBUTOR["appId"], "--password", secret, "--tenant", CONTRIBUTOR["tenant"])

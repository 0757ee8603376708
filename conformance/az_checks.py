"""The checks made with `az`. Runs inside the environment that has it; the server is in ARM_*, REST_* and SMB_* variables."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from conformance.offered import offers_multichannel
from conformance.report import Failure, Lines

URL, ACCOUNT = os.environ["ARM_URL"], os.environ["REST_ACCOUNT"]
CONTRIBUTOR = json.loads(os.environ["ARM_CONTRIBUTOR"])
SHARE, FOLDER = os.environ["SMB_SHARE"], pathlib.Path(os.environ["LOCAL_FOLDER"])
GROUP = "multilane"
AZ = str(pathlib.Path(sys.executable).parent / "az")
place = tempfile.TemporaryDirectory(prefix="conformance-az-")
PLACE = pathlib.Path(place.name)
ENVIRONMENT = dict(os.environ, AZURE_CONFIG_DIR=str(PLACE / "config"), REQUESTS_CA_BUNDLE=os.environ["REST_CA"], AZURE_CORE_COLLECT_TELEMETRY="no",
                   AZURE_CORE_INSTANCE_DISCOVERY="false", AZURE_CORE_NO_COLOR="yes", AZURE_CORE_ONLY_SHOW_ERRORS="yes")
lines = Lines()


def expect(is_so, seen):
    if not is_so:
        raise Failure(str(seen))


def main():
    for check in (sign_in, accounts, keys, file_service, shares, metrics, features, data_plane, by_token):
        with lines.check(f"az: {check.__doc__}"):
            check()


def az(*words, parsed=True):
    """What a command prints."""
    done = subprocess.run([AZ, *words, *(["-o", "json"] if parsed else [])], env=ENVIRONMENT, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"az {' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout) if parsed and done.stdout.strip() else done.stdout


def refused(part, *words):
    try:
        az(*words)
    except Failure as failure:
        expect(part in str(failure), failure)
        return
    raise Failure(f"az {' '.join(words)} is not refused")


def of_account(name=ACCOUNT):
    return ("--account-name", name, "--resource-group", GROUP)


def sign_in():
    """a cloud is registered, and a service principal signs in"""
    az("cloud", "register", "--name", "multilane", "--skip-endpoint-discovery", "--endpoint-resource-manager", URL, "--endpoint-management", URL,
       "--endpoint-active-directory", URL, "--endpoint-active-directory-resource-id", f"{URL}/", "--endpoint-active-directory-graph-resource-id", f"{URL}/",
       "--endpoint-microsoft-graph-resource-id", URL, "--suffix-storage-endpoint", f"core.localhost:{URL.rsplit(':', 1)[1]}", parsed=False)
    az("cloud", "set", "--name", "multilane", parsed=False)
    refused("AADSTS7000215", "login", "--service-principal", "--username", CONTRIBUTOR["appId"], "--password", "wrong", "--tenant", CONTRIBUTOR["tenant"])
    signed_in = az("login", "--service-principal", "--username", CONTRIBUTOR["appId"], "--password", CONTRIBUTOR["password"], "--tenant", CONTRIBUTOR["tenant"])
    expect([one["state"] for one in signed_in] == ["Enabled"], signed_in)
    expect([one["name"] for one in az("group", "list")] == [GROUP], "other groups")


def accounts():
    """accounts are made, shown, listed and deleted"""
    made = az("storage", "account", "create", "--name", "fresh", "--resource-group", GROUP, "--sku", "PremiumV2_LRS", "--kind", "FileStorage")
    expect((made["sku"]["name"], made["provisioningState"]) == ("PremiumV2_LRS", "Succeeded"), made)
    expect(az("storage", "account", "show", "--name", "fresh", "--resource-group", GROUP)["id"] == made["id"], "another account")
    expect(sorted(one["name"] for one in az("storage", "account", "list")) == ["fresh", ACCOUNT], "others are listed")
    expect(az("storage", "account", "check-name", "--name", "fresh")["nameAvailable"] is False, "the name is free")
    az("storage", "account", "delete", "--name", "fresh", "--yes", "--resource-group", GROUP, parsed=False)
    refused("ResourceNotFound", "storage", "account", "show", "--name", "fresh", "--resource-group", GROUP)


def keys():
    """keys are listed and replaced, and stand in the connection string"""
    before = az("storage", "account", "keys", "list", *of_account())
    expect([key["value"] for key in before][0] == os.environ["REST_KEY"], "another key")
    after = az("storage", "account", "keys", "renew", *of_account(), "--key", "secondary")
    expect(after[0] == before[0] and after[1]["value"] != before[1]["value"], "the other one was replaced")
    string = az("storage", "account", "show-connection-string", "--name", ACCOUNT, "--resource-group", GROUP)["connectionString"]
    expect(f"AccountKey={os.environ['REST_KEY']}" in string and f"FileEndpoint={URL}/{ACCOUNT}/" in string, "another connection string")


def file_service():
    """multichannel is switched, for SMB clients at once"""
    group = ("storage", "account", "file-service-properties")
    for wanted in (True, False):
        told = az(*group, "update", *of_account(), "--enable-smb-multichannel", str(wanted).lower())
        expect(told["protocolSettings"]["smb"]["multichannel"]["enabled"] is wanted, told)
        expect(offers_multichannel() is wanted, f"SMB clients are offered it: {not wanted}")
    told = az(*group, "show", *of_account())["protocolSettings"]["smb"]
    expect((told["multichannel"]["enabled"], told["versions"]) == (False, "SMB2.1;SMB3.0;SMB3.1.1"), told)
    refused("smb.versions", *group, "update", *of_account(), "--versions", "SMB3.1.1")


def shares():
    """shares are made, shown, listed, given a quota, deleted and restored"""
    share_rm = ("storage", "share-rm")
    of = ("--storage-account", ACCOUNT, "--resource-group", GROUP)
    expect([one["name"] for one in az(*share_rm, "list", *of)] == ["conf", "other"], "others are listed")
    expect(az(*share_rm, "exists", *of, "--name", "nothing") == {"exists": False}, "it is there")
    expect(az(*share_rm, "update", *of, "--name", "other", "--quota", "9")["shareQuota"] == 9, "another quota")
    expect(isinstance(az(*share_rm, "stats", *of, "--name", "other"), int), "it does not tell how full it is")
    made = az(*share_rm, "create", *of, "--name", "made", "--quota", "5", "--metadata", "name=value")
    expect((made["shareQuota"], made["metadata"]) == (5, {"name": "value"}), made)
    az("storage", "account", "file-service-properties", "update", *of_account(), "--enable-delete-retention", "true", "--delete-retention-days", "7")
    az(*share_rm, "delete", *of, "--name", "made", "--yes", parsed=False)
    deleted = [one for one in az(*share_rm, "list", *of, "--include-deleted") if one.get("deleted")]
    expect([(one["name"], one["remainingRetentionDays"]) for one in deleted] == [("made", 7)], deleted)
    az(*share_rm, "restore", *of, "--name", "made", "--deleted-version", deleted[0]["version"], parsed=False)
    expect(az(*share_rm, "show", *of, "--name", "made")["shareQuota"] == 5, "another quota")
    az("storage", "account", "file-service-properties", "update", *of_account(), "--enable-delete-retention", "false")
    az(*share_rm, "delete", *of, "--name", "made", "--yes", parsed=False)


def metrics():
    """metrics are listed by the shares they are of"""
    resource = az("storage", "account", "show", "--name", ACCOUNT, "--resource-group", GROUP)["id"] + "/fileServices/default"
    names = [one["name"]["value"] for one in az("monitor", "metrics", "list-definitions", "--resource", resource)]
    expect("Transactions" in names and "FileShareMaxUsedIOPS" in names, names)
    told = az("monitor", "metrics", "list", "--resource", resource, "--metrics", "Ingress", "Egress", "--aggregation", "Total", "--interval", "PT1M", "--filter", "ApiName eq '*'")
    expect([one["name"]["value"] for one in told["value"]] == ["Ingress", "Egress"], told)


def features():
    """features are listed and registered"""
    of = ("--namespace", "Microsoft.Storage")
    names = [one["name"] for one in az("feature", "list", *of)]
    expect("Microsoft.Storage/HigherHandlesCountOnSmb" in names, names)
    told = az("feature", "register", *of, "--name", "HigherHandlesCountOnSmb")
    expect(told["properties"]["state"] == "Registered", told)
    told = az("feature", "unregister", *of, "--name", "HigherHandlesCountOnSmb")
    expect(told["properties"]["state"] == "NotRegistered", told)


def data_plane():
    """files go up and come down by a key, and lie where SMB clients have them"""
    by_key = ("--account-name", ACCOUNT, "--account-key", os.environ["REST_KEY"], "--file-endpoint", f"{URL}/{ACCOUNT}")
    expect(SHARE in [one["name"] for one in az("storage", "share", "list", *by_key)], "the share is not listed")
    (PLACE / "up").write_bytes(os.urandom(5 << 20))
    az("storage", "directory", "create", "--share-name", SHARE, "--name", "from-az", *by_key)
    az("storage", "file", "upload", "--share-name", SHARE, "--path", "from-az/up.bin", "--source", str(PLACE / "up"), *by_key, parsed=False)
    expect((FOLDER / "from-az" / "up.bin").read_bytes() == (PLACE / "up").read_bytes(), "another text is on the disk")
    listed = az("storage", "file", "list", "--share-name", SHARE, "--path", "from-az", *by_key)
    expect([one["name"] for one in listed] == ["up.bin"], listed)
    az("storage", "file", "download", "--share-name", SHARE, "--path", "from-az/up.bin", "--dest", str(PLACE / "down"), *by_key, parsed=False)
    expect((PLACE / "down").read_bytes() == (PLACE / "up").read_bytes(), "another text comes down")
    az("storage", "file", "delete", "--share-name", SHARE, "--path", "from-az/up.bin", *by_key)
    az("storage", "directory", "delete", "--share-name", SHARE, "--name", "from-az", *by_key)
    expect(not (FOLDER / "from-az").exists(), "it is still there")


def by_token():
    """who has signed in and means to back up needs no key"""
    as_signed_in = ("--account-name", ACCOUNT, "--file-endpoint", f"{URL}/{ACCOUNT}", "--auth-mode", "login", "--backup-intent", "--share-name", SHARE)
    az("storage", "directory", "create", "--name", "by-token", *as_signed_in)
    expect((FOLDER / "by-token").is_dir(), "it is not on the disk")
    expect("by-token" in [one["name"] for one in az("storage", "file", "list", *as_signed_in)], "it is not listed")
    az("storage", "directory", "delete", "--name", "by-token", *as_signed_in)


if __name__ == "__main__":
    main()

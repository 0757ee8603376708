"""The checks of the management interface made with `az`. Runs inside the environment that has it; the server is in ARM_*, REST_* and SMB_* variables."""

import os

from conformance.az_command import ACCOUNT, CONTRIBUTOR, GROUP, URL, az, log_in, refused, register
from conformance.offered import offers_multichannel
from conformance.report import Lines, expect

IN_GROUP = ("--resource-group", GROUP)
lines = Lines()


def main():
    for check in (sign_in, above_accounts, accounts, promises, keys, signatures, file_service, shares, metrics, features):
        with lines.check(f"az: {check.__doc__}"):
            check()


def of_account(name=ACCOUNT):
    return ("--account-name", name, *IN_GROUP)


def sign_in():
    """a cloud is registered, and a service principal signs in"""
    register()
    refused("AADSTS7000215", "login", "--service-principal", "--username", CONTRIBUTOR["appId"], "--password", "wrong", "--tenant", CONTRIBUTOR["tenant"])
    expect([one["state"] for one in log_in()] == ["Enabled"], "another subscription")
    shown = az("account", "show")
    expect((shown["name"], shown["user"]["name"]) == ("Multilane", CONTRIBUTOR["appId"]), shown)
    expect(az("account", "get-access-token")["tokenType"] == "Bearer", "no token")


def above_accounts():
    """the resource group, locations, providers and resources are told"""
    expect([one["name"] for one in az("group", "list")] == [GROUP], "other groups")
    expect(az("group", "show", "--name", GROUP)["location"] == "local", "another place")
    expect(az("group", "exists", "--name", "other") is False, "another group is there")
    expect(az("group", "create", "--name", GROUP, "--location", "local")["name"] == GROUP, "it is not made where it is")
    expect([one["name"] for one in az("account", "list-locations")] == ["local"], "other locations")
    expect(az("provider", "show", "--namespace", "Microsoft.Storage")["registrationState"] == "Registered", "it is not registered")
    storage, web = ("--resource-type", "Microsoft.Storage/storageAccounts"), ("--resource-type", "Microsoft.Web/sites")
    for words, wanted in (((), [ACCOUNT]), (storage, [ACCOUNT]), (IN_GROUP, [ACCOUNT]), (("--name", ACCOUNT, *storage), [ACCOUNT]), (web, []),
                          (("--tag", "a"), [])):
        expect([one["name"] for one in az("resource", "list", *words)] == wanted, f"other resources by {words}")
    shown = az("resource", "show", "--name", ACCOUNT, *IN_GROUP, *storage)
    expect((shown["kind"], shown["properties"]["provisioningState"]) == ("FileStorage", "Succeeded"), shown)


def accounts():
    """accounts are made, shown, listed, updated and deleted"""
    made = az("storage", "account", "create", "--name", "fresh", *IN_GROUP, "--sku", "PremiumV2_LRS", "--kind", "FileStorage")
    expect((made["sku"]["name"], made["provisioningState"]) == ("PremiumV2_LRS", "Succeeded"), made)
    other = az("storage", "account", "create", "--name", "plain", *IN_GROUP, "--location", "westeurope")
    expect((other["kind"], other["location"]) == ("StorageV2", "westeurope"), other)
    expect(az("storage", "account", "show", "--name", "fresh", *IN_GROUP)["id"] == made["id"], "another account")
    expect(az("storage", "account", "show", "--ids", made["id"])["name"] == "fresh", "another account by its id")
    expect(sorted(one["name"] for one in az("storage", "account", "list")) == ["fresh", "plain", ACCOUNT], "others are listed")
    checked = az("storage", "account", "check-name", "--name", "fresh")
    expect((checked["nameAvailable"], checked["reason"]) == (False, "AlreadyExists"), checked)
    expect(az("storage", "account", "check-name", "--name", "another")["nameAvailable"] is True, "the name is taken")
    usage = az("storage", "account", "show-usage", "--location", "westeurope")
    expect((usage["currentValue"], usage["limit"]) == (3, 250), usage)
    for name in ("fresh", "plain"):
        az("storage", "account", "delete", "--name", name, "--yes", *IN_GROUP, parsed=False)
    refused("ResourceNotFound", "storage", "account", "show", "--name", "fresh", *IN_GROUP)
    refused("has 2 shares", "storage", "account", "delete", "--name", ACCOUNT, "--yes", *IN_GROUP)
    refused("ResourceGroupNotFound", "storage", "account", "create", "--name", "fresh", "--resource-group", "other")
    refused("AccountNameInvalid", "storage", "account", "create", "--name", "Not_A_Name", *IN_GROUP)


def promises():
    """an account is updated to what it is, and what it cannot be is refused"""
    update = ("storage", "account", "update", "--name", ACCOUNT, *IN_GROUP)
    expect(az(*update, "--https-only", "true")["enableHttpsTrafficOnly"] is True, "it is not by HTTPS alone")
    expect(az(*update, "--min-tls-version", "TLS1_2", "--default-action", "Allow")["minimumTlsVersion"] == "TLS1_2", "another version of TLS")
    expect(az("storage", "account", "network-rule", "list", *of_account())["ipRules"] == [], "there are rules")
    refused("--hosts-allow", *update, "--default-action", "Deny")
    refused("allowSharedKeyAccess", *update, "--allow-shared-key-access", "false")
    refused("publicNetworkAccess", *update, "--public-network-access", "Disabled")
    refused("do not change", *update, "--sku", "Standard_GRS")
    refused("isHnsEnabled", "storage", "account", "create", "--name", "fresh", *IN_GROUP, "--hns", "true")
    refused("InvalidResourceType", "storage", "account", "management-policy", "show", *of_account())


def keys():
    """keys are listed and replaced, and stand in the connection string"""
    before = az("storage", "account", "keys", "list", *of_account())
    expect([key["value"] for key in before][0] == os.environ["REST_KEY"], "another key")
    after = az("storage", "account", "keys", "renew", *of_account(), "--key", "secondary")
    expect(after[0] == before[0] and after[1]["value"] != before[1]["value"], "the other one was replaced")
    string = az("storage", "account", "show-connection-string", "--name", ACCOUNT, *IN_GROUP)["connectionString"]
    expect(f"AccountKey={os.environ['REST_KEY']}" in string and f"FileEndpoint={URL}/{ACCOUNT}/" in string, "another connection string")


def signatures():
    """a signature of the account lists its shares, and one for other services does not"""
    sign = ("storage", "account", "generate-sas", "--account-name", ACCOUNT, "--expiry", "2099-01-01T00:00Z", "--resource-types", "sco", "--permissions", "rl")
    shares = ("storage", "share", "list", "--account-name", ACCOUNT, "--file-endpoint", f"{URL}/{ACCOUNT}", "--sas-token")
    expect([one["name"] for one in az(*shares, az(*sign, "--services", "f"))] == ["conf", "other"], "others are listed")
    refused("AuthorizationServiceMismatch", *shares, az(*sign, "--services", "b"))


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
    expect(az("storage", "account", "file-service-usage", *of_account())["properties"]["storageAccountUsage"]["liveShares"]["fileShareCount"] == 2, "other shares")


def shares():
    """shares are made, shown, listed, given a quota, deleted and restored"""
    share_rm = ("storage", "share-rm")
    of = ("--storage-account", ACCOUNT, *IN_GROUP)
    expect([one["name"] for one in az(*share_rm, "list", *of)] == ["conf", "other"], "others are listed")
    expect(az(*share_rm, "exists", *of, "--name", "nothing") == {"exists": False}, "it is there")
    expect(az(*share_rm, "exists", *of, "--name", "other") == {"exists": True}, "it is not there")
    expect(az(*share_rm, "update", *of, "--name", "other", "--quota", "9")["shareQuota"] == 9, "another quota")
    expect(isinstance(az(*share_rm, "stats", *of, "--name", "other"), int), "it does not tell how full it is")
    made = az(*share_rm, "create", *of, "--name", "made", "--quota", "5", "--metadata", "name=value")
    expect((made["shareQuota"], made["metadata"]) == (5, {"name": "value"}), made)
    az("storage", "account", "file-service-properties", "update", *of_account(), "--enable-delete-retention", "true", "--delete-retention-days", "7")
    az(*share_rm, "delete", *of, "--name", "made", "--yes", parsed=False)
    refused("ShareNotFound", *share_rm, "show", *of, "--name", "made")
    deleted = [one for one in az(*share_rm, "list", *of, "--include-deleted") if one.get("deleted")]
    expect([(one["name"], one["remainingRetentionDays"]) for one in deleted] == [("made", 7)], deleted)
    az(*share_rm, "restore", *of, "--name", "made", "--deleted-version", deleted[0]["version"], parsed=False)
    expect(az(*share_rm, "show", *of, "--name", "made")["shareQuota"] == 5, "another quota")
    az("storage", "account", "file-service-properties", "update", *of_account(), "--enable-delete-retention", "false")
    az(*share_rm, "delete", *of, "--name", "made", "--yes", parsed=False)
    provisioned_v1(share_rm)
    refused("enabledProtocols", *share_rm, "create", *of, "--name", "of-nfs", "--enabled-protocols", "NFS", "--quota", "5")
    refused("InvalidResourceName", *share_rm, "create", *of, "--name", "Not_A_Name", "--quota", "5")


def provisioned_v1(share_rm):
    """A premium share takes what az sends of it: all that it was told, with what is to change."""
    az("storage", "account", "create", "--name", "premium", *IN_GROUP, "--sku", "Premium_LRS", "--kind", "FileStorage")
    share = ("--storage-account", "premium", *IN_GROUP, "--name", "renders")
    made = az(*share_rm, "create", *share, "--quota", "1024")
    expect((made["provisionedIops"], made["provisionedBandwidthMibps"]) == (4024, 203), made)
    told = az(*share_rm, "update", *share, "--metadata", "name=value")
    expect((told["metadata"], told["shareQuota"], told["provisionedIops"]) == ({"name": "value"}, 1024, 4024), told)
    told = az(*share_rm, "update", *share, "--quota", "2048")
    expect((told["shareQuota"], told["provisionedIops"], told["provisionedBandwidthMibps"]) == (2048, 5048, 305), told)
    refused("follow its size", *share_rm, "update", *share, "--provisioned-iops", "9000")
    az("storage", "account", "file-service-properties", "update", *of_account("premium"), "--enable-delete-retention", "false")
    az(*share_rm, "delete", *share, "--yes", parsed=False)
    az("storage", "account", "delete", "--name", "premium", "--yes", *IN_GROUP, parsed=False)


def metrics():
    """metrics are listed by the shares they are of"""
    resource = az("storage", "account", "show", "--name", ACCOUNT, *IN_GROUP)["id"] + "/fileServices/default"
    of = ("monitor", "metrics", "list", "--resource", resource)
    names = [one["name"]["value"] for one in az("monitor", "metrics", "list-definitions", "--resource", resource)]
    expect("Transactions" in names and "FileShareMaxUsedIOPS" in names, names)
    expect([one["name"] for one in az("monitor", "metrics", "list-namespaces", "--resource-uri", resource)]
           == ["Microsoft.Storage/storageAccounts/fileServices"], "other namespaces")
    told = az(*of, "--metrics", "Ingress", "Egress", "--aggregation", "Total", "--interval", "PT1M", "--filter", "ApiName eq '*'")
    expect([one["name"]["value"] for one in told["value"]] == ["Ingress", "Egress"], told)
    told = az(*of, "--metric", "Transactions", "--offset", "2h", "--interval", "1h", "--dimension", "ApiName", "--top", "2", "--namespace",
              "Microsoft.Storage/storageAccounts/fileServices")
    expect([one["name"]["value"] for one in told["value"]] == ["Transactions"], told)
    told = az("monitor", "metrics", "list", "--resource", ACCOUNT, "--resource-type", "Microsoft.Storage/storageAccounts", *IN_GROUP,
              "--metric", "Availability")
    expect([one["unit"] for one in told["value"]] == ["Percent"], told)
    refused("Valid metrics", *of, "--metric", "UsedCapacity")
    refused("interval", *of, "--metric", "Transactions", "--interval", "2m")


def features():
    """features are listed and registered"""
    of = ("--namespace", "Microsoft.Storage")
    names = [one["name"] for one in az("feature", "list", *of)]
    expect("Microsoft.Storage/HigherHandlesCountOnSmb" in names, names)
    told = az("feature", "register", *of, "--name", "HigherHandlesCountOnSmb")
    expect(told["properties"]["state"] == "Registered", told)
    expect(az("feature", "show", *of, "--name", "HigherHandlesCountOnSmb")["properties"]["state"] == "Registered", "it is not told")
    told = az("feature", "unregister", *of, "--name", "HigherHandlesCountOnSmb")
    expect(told["properties"]["state"] == "NotRegistered", told)


if __name__ == "__main__":
    main()

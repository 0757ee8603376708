"""The checks made with azure-mgmt-storage. Runs inside the environment that has it; the server is in ARM_*, REST_* and SMB_* variables."""

import base64
import contextlib
import datetime
import functools
import http.client
import json
import os
import subprocess
import urllib.parse
import uuid

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.storage import StorageManagementClient
from azure.storage.fileshare import ShareServiceClient
from smbprotocol.connection import Connection
from smbprotocol.exceptions import BadNetworkName
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from conformance.offered import offers_multichannel
from conformance.report import Failure, Lines

URL, ACCOUNT = os.environ["ARM_URL"], os.environ["REST_ACCOUNT"]
CONTRIBUTOR, READER = json.loads(os.environ["ARM_CONTRIBUTOR"]), json.loads(os.environ["ARM_READER"])
GROUP = "multilane"
VERSION = "2025-08-01"
lines = Lines()


def expect(is_so, seen):
    if not is_so:
        raise Failure(str(seen))


def main():
    for check in (tokens, refused_tokens, strangers, roles, above_accounts, unknown):
        with lines.check(check.__doc__):
            check()
    by_http = ByHttp(contributor())
    client = StorageManagementClient(by_http, subscription(), base_url=URL, authentication_policy=by_http)
    for check in (accounts, keys, signatures, multichannel, protocols, rules, usages, shares, made_shares, leases, provisioned):
        with lines.check(f"azure-mgmt-storage: {check.__doc__}"):
            check(client)
    for check in (features, metrics, deleted_principal):
        with lines.check(check.__doc__):
            check()


class ByHttp(SansIOHTTPPolicy):
    """Shows a token, where the client's own way shows it by HTTPS alone."""

    def __init__(self, token):
        self.token = token

    def on_request(self, request):
        request.http_request.headers["Authorization"] = f"Bearer {self.token}"


def asked(method, path, body=None, token=None, headers=None):
    """An answer's status, JSON and headers."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=120)
    try:
        headers = dict(headers or {}, **({"Authorization": f"Bearer {token}"} if token else {}))
        if isinstance(body, dict):
            body, headers = json.dumps(body), dict(headers, **{"Content-Type": "application/json"})
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None, response.headers
    finally:
        connection.close()


def signed_in(principal, **changes):
    form = {"grant_type": "client_credentials", "client_id": principal["appId"], "client_secret": principal["password"],
            "scope": "https://management.azure.com/.default"} | changes
    path = form.pop("path", f"/{principal['tenant']}/oauth2/v2.0/token")
    form = {name: value for name, value in form.items() if value is not None}
    return asked("POST", path, urllib.parse.urlencode(form), headers={"Content-Type": "application/x-www-form-urlencoded"})


def token(principal, **changes):
    status, answer, _ = signed_in(principal, **changes)
    expect(status == 200, answer)
    return answer["access_token"]


@functools.cache
def contributor():
    """A token of the contributor: to look at a secret takes the server a while."""
    return token(CONTRIBUTOR)


@functools.cache
def subscription():
    return asked("GET", f"/subscriptions?api-version={VERSION}", token=contributor())[1]["value"][0]["subscriptionId"]


def in_group(rest):
    return f"/subscriptions/{subscription()}/resourceGroups/{GROUP}/providers/Microsoft.Storage/{rest}"


def refusal(status, code, answer):
    expect((answer[0], answer[1]["error"]["code"]) == (status, code), answer[:2])


# Signing in.

def tokens():
    """a service principal gets tokens by either version of the endpoint, which the discovery document names"""
    tenant = CONTRIBUTOR["tenant"]
    for path in (f"/{tenant}/v2.0/.well-known/openid-configuration", f"/{tenant}/.well-known/openid-configuration"):
        status, document, _ = asked("GET", path)
        expect((status, document["token_endpoint"]) == (200, f"{URL}/{tenant}/oauth2/v2.0/token"), document)
    status, answer, headers = signed_in(CONTRIBUTOR)
    expect((status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 3599), answer)
    expect("no-store" in headers["Cache-Control"], headers)
    claims = json.loads(base64.urlsafe_b64decode(answer["access_token"].split(".")[1] + "=="))
    expect((claims["appid"], claims["tid"], claims["aud"]) == (CONTRIBUTOR["appId"], tenant, "https://management.azure.com"), claims)
    first = signed_in(CONTRIBUTOR, path=f"/{tenant}/oauth2/token", scope=None, resource="https://management.core.windows.net/")[1]
    expect(asked("GET", f"/subscriptions?api-version={VERSION}", token=first["access_token"])[0] == 200, first)


def refused_tokens():
    """who has no secret, or wants a token for somebody else's service, gets none"""
    for changes, seen in (
            ({"client_secret": "wrong"}, (401, "invalid_client")), ({"client_id": str(uuid.uuid4())}, (401, "invalid_client")),
            ({"client_secret": None}, (401, "invalid_client")), ({"client_id": None}, (400, "invalid_request")),
            ({"grant_type": "password"}, (400, "unsupported_grant_type")), ({"scope": None}, (400, "invalid_request")),
            ({"scope": "https://graph.microsoft.com/.default"}, (400, "invalid_resource")), ({"scope": "openid"}, (400, "invalid_scope"))):
        status, answer, _ = signed_in(CONTRIBUTOR, **changes)
        expect((status, answer["error"]) == seen and "access_token" not in answer, (changes, status, answer))
    known, unknown = (signed_in(CONTRIBUTOR, **changes)[1]["error_description"] for changes in ({"client_secret": "x"}, {"client_id": "x"}))
    expect(known == unknown, f"who is there is told: {known} {unknown}")
    refusal(400, "invalid_request", signed_in(CONTRIBUTOR, path=f"/{uuid.uuid4()}/oauth2/v2.0/token"))


def strangers():
    """who shows no token, or one that is forged, for another interface or by another way, is told of nothing"""
    path = in_group(f"storageAccounts/{ACCOUNT}/listKeys?api-version={VERSION}")
    right = contributor()
    expect(asked("POST", path, token=right)[0] == 200, "the right token does nothing")
    head, claims, signature = right.split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    for wrong in (f"{head}.{claims}.", f"{none}.{claims}.", f"{none}.{claims}.{signature}", f"{head}.{claims}.{signature[:-2]}AA", "x", "a.b.c", "x" * 10_000):
        answer = asked("POST", path, token=wrong)
        refusal(401, "InvalidAuthenticationToken", answer)
        expect(answer[2]["WWW-Authenticate"].startswith(f'Bearer authorization="{URL}/'), answer[2])
    refusal(401, "InvalidAuthenticationTokenAudience", asked("POST", path, token=token(CONTRIBUTOR, scope="https://storage.azure.com/.default")))
    refusal(401, "AuthenticationFailed", asked("POST", path))
    refusal(401, "AuthenticationFailed", asked("POST", path, headers={"Authorization": f"Basic {right}"}))
    # Nor of what is not there.
    refusal(401, "AuthenticationFailed", asked("GET", in_group(f"storageAccounts/nobody?api-version={VERSION}")))
    refusal(401, "AuthenticationFailed", asked("GET", f"/subscriptions/other?api-version={VERSION}"))
    # A megabyte is refused as soon as it is announced.
    status, answer, _ = asked("PUT", path, token=right, headers={"Content-Length": str(1 << 20)})
    expect(status in (405, 413), answer)


def roles():
    """who may only read files sees no subscription, and may do nothing with accounts"""
    reads = token(READER)
    expect(asked("GET", f"/subscriptions?api-version={VERSION}", token=reads)[1] == {"value": []}, "it sees the subscription")
    for method, path in (("POST", f"storageAccounts/{ACCOUNT}/listKeys"), ("GET", "storageAccounts"), ("DELETE", f"storageAccounts/{ACCOUNT}")):
        refusal(403, "AuthorizationFailed", asked(method, in_group(f"{path}?api-version={VERSION}"), token=reads))


# What stands above accounts.

def above_accounts():
    """endpoints, tenant, subscription, resource group and providers are told"""
    shows = contributor()

    def get(path, version=VERSION):
        status, answer, _ = asked("GET", f"{path}api-version={version}", token=shows)
        expect(status == 200, answer)
        return answer

    expect(get("/metadata/endpoints?", "2015-01-01")["authentication"]["loginEndpoint"] == URL, "another place to sign in")
    expect(get("/metadata/endpoints?", "2022-09-01")[0]["resourceManager"] == URL, "another place to manage")
    expect(get("/tenants?")["value"][0]["tenantId"] == CONTRIBUTOR["tenant"], "another tenant")
    of = f"/subscriptions/{subscription()}"
    expect(get(f"{of}?")["state"] == "Enabled", "another state")
    expect([one["name"] for one in get(f"{of}/resourcegroups?")["value"]] == [GROUP], "other groups")
    expect(get(f"{of}/resourcegroups/{GROUP.upper()}?")["name"] == GROUP, "the case of a group's name counts")
    kinds = get(f"{of}/providers/Microsoft.Storage?")["resourceTypes"]
    expect("storageAccounts" in [kind["resourceType"] for kind in kinds], kinds)
    expect("Premium_LRS" in [sku["name"] for sku in get(f"{of}/providers/Microsoft.Storage/skus?")["value"]], "no SKUs")


def unknown():
    """what is not served is answered by the service's codes"""
    shows = contributor()
    of = f"/subscriptions/{subscription()}"
    for path, status, code in (
            (f"{of}/resourceGroups/other/providers/Microsoft.Storage/storageAccounts", 404, "ResourceGroupNotFound"),
            (f"/subscriptions/{uuid.uuid4()}/providers/Microsoft.Storage/storageAccounts", 404, "SubscriptionNotFound"),
            (in_group("storageTasks"), 404, "InvalidResourceType"), (in_group("storageAccounts/nobody"), 404, "ResourceNotFound"),
            (in_group(f"storageAccounts/{ACCOUNT}/blobServices/default"), 404, "InvalidResourceType"),
            (in_group(f"storageAccounts/{ACCOUNT}/fileServices/default/shares/nothing"), 404, "ShareNotFound"),
            (in_group("storageAccounts").replace("Storage", "Compute"), 404, "InvalidResourceNamespace")):
        refusal(status, code, asked("GET", f"{path}?api-version={VERSION}", token=shows))
    refusal(400, "MissingApiVersionParameter", asked("GET", of, token=shows))
    refusal(400, "NoRegisteredProviderFound", asked("GET", f"{of}?api-version=1999-01-01", token=shows))
    refusal(400, "InvalidRequestContent", asked("PUT", in_group(f"storageAccounts/bad?api-version={VERSION}"), b"{", token=shows))


# What the client does.

def accounts(client):
    """accounts are made, told, listed and deleted, and sign in by SMB"""
    expect(client.storage_accounts.check_name_availability({"name": "fresh", "type": "Microsoft.Storage/storageAccounts"}).name_available, "taken")
    wanted = {"sku": {"name": "PremiumV2_LRS"}, "kind": "FileStorage", "location": "westeurope"}
    made = client.storage_accounts.begin_create(GROUP, "fresh", wanted).result()
    expect((made.sku.name, made.kind, made.location, made.provisioning_state) == ("PremiumV2_LRS", "FileStorage", "westeurope", "Succeeded"), made)
    expect(client.storage_accounts.begin_create(GROUP, "fresh", wanted).result().id == made.id, "it is another one the second time")
    taken = client.storage_accounts.check_name_availability({"name": "fresh", "type": "Microsoft.Storage/storageAccounts"})
    expect((taken.name_available, taken.reason) == (False, "AlreadyExists"), taken)
    expect({one.name for one in client.storage_accounts.list()} == {"suites", "fresh"}, "others are listed")
    expect({one.name for one in client.storage_accounts.list_by_resource_group(GROUP)} == {"suites", "fresh"}, "others are listed")
    sign_in("fresh", client.storage_accounts.list_keys(GROUP, "fresh").keys_property[0].value)
    refused(lambda: client.storage_accounts.begin_create(GROUP, "fresh", dict(wanted, sku={"name": "Premium_LRS"})).result(),
            "StorageAccountOperationNotAllowed", 409)
    refused(lambda: client.storage_accounts.begin_create(GROUP, "hdd", dict(wanted, sku={"name": "StandardV2_LRS"})).result(),
            "InvalidRequestPropertyValue", 400)
    refused(lambda: client.storage_accounts.begin_create(GROUP, "fresher", dict(wanted, kind="StorageV2")).result(), "InvalidRequestPropertyValue", 400)
    client.file_shares.create(GROUP, "fresh", "short-lived", {"properties": {}})
    refused(lambda: client.storage_accounts.delete(GROUP, "fresh"), "Conflict", 409)
    client.file_shares.delete(GROUP, "fresh", "short-lived")
    client.storage_accounts.delete(GROUP, "fresh")
    client.storage_accounts.delete(GROUP, "fresh")
    refused(lambda: client.storage_accounts.get_properties(GROUP, "fresh"), "ResourceNotFound", 404)
    refused(lambda: client.storage_accounts.delete(GROUP, ACCOUNT), "Conflict", 409)


def keys(client):
    """a key that is replaced signs in no longer, by SMB and by REST"""
    before = {key.key_name: key.value for key in client.storage_accounts.list_keys(GROUP, ACCOUNT).keys_property}
    expect(set(before) == {"key1", "key2"}, before)
    sign_in(ACCOUNT, before["key2"])
    after = {key.key_name: key.value for key in client.storage_accounts.regenerate_key(GROUP, ACCOUNT, {"keyName": "key2"}).keys_property}
    expect(after["key1"] == before["key1"] and after["key2"] != before["key2"], "the other one was replaced")
    sign_in(ACCOUNT, after["key2"])
    try:
        sign_in(ACCOUNT, before["key2"])
    except Exception:
        pass
    else:
        raise Failure("the old key signs in by SMB")
    def shares_by(key):
        return list(ShareServiceClient(os.environ["REST_URL"], credential={"account_name": ACCOUNT, "account_key": key}).list_shares())
    expect(shares_by(after["key2"]), "the new key lists nothing")
    refused(lambda: shares_by(before["key2"]), "AuthenticationFailed", 403)
    refused(lambda: client.storage_accounts.regenerate_key(GROUP, ACCOUNT, {"keyName": "kerb1"}), "InvalidRequestPropertyValue", 400)


def signatures(client):
    """signatures are made for somebody, for an account or one share, and count for that alone"""
    soon = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = {"signedServices": "f", "signedResourceTypes": "sco", "signedPermission": "rl", "signedExpiry": soon, "keyToSign": "key1"}
    of_account = client.storage_accounts.list_account_sas(GROUP, ACCOUNT, wanted).account_sas_token
    service = ShareServiceClient(os.environ["REST_URL"], credential=of_account)
    expect([one.name for one in service.list_shares()] == ["conf", "other"], "others are listed")
    refused(lambda: service.get_share_client("conf").create_directory("by-signature"), "AuthorizationPermissionMismatch", 403)
    wanted = {"canonicalizedResource": f"/file/{ACCOUNT}/conf", "signedResource": "s", "signedPermission": "rcl", "signedExpiry": soon}
    of_share = client.storage_accounts.list_service_sas(GROUP, ACCOUNT, wanted).service_sas_token
    share = ShareServiceClient(os.environ["REST_URL"], credential=of_share).get_share_client("conf")
    share.create_directory("by-signature")
    expect("by-signature" in [one.name for one in share.list_directories_and_files()], "it was not made")
    other = ShareServiceClient(os.environ["REST_URL"], credential=of_share).get_share_client("other")
    refused(lambda: list(other.list_directories_and_files()), "AuthenticationFailed", 403)
    wrong = dict(wanted, canonicalizedResource="/file/other/conf")
    refused(lambda: client.storage_accounts.list_service_sas(GROUP, ACCOUNT, wrong), "InvalidRequestPropertyValue", 400)


def multichannel(client):
    """multichannel is switched, for SMB clients at once and seen by the data plane"""
    service = ShareServiceClient(os.environ["REST_URL"], credential={"account_name": ACCOUNT, "account_key": os.environ["REST_KEY"]})
    for wanted in (True, False, True):
        settings = {"properties": {"protocolSettings": {"smb": {"multichannel": {"enabled": wanted}}}}}
        told = client.file_services.set_service_properties(GROUP, ACCOUNT, settings)
        expect(told.protocol_settings.smb.multichannel.enabled is wanted, told)
        told = client.file_services.get_service_properties(GROUP, ACCOUNT)
        expect(told.protocol_settings.smb.multichannel.enabled is wanted, told)
        expect(service.get_service_properties()["protocol"].smb.multichannel.enabled is wanted, "the data plane tells another")
        expect(offers_multichannel() is wanted, f"SMB clients are offered it: {not wanted}")


def protocols(client):
    """what the server does is told, and nothing else can be asked for"""
    smb = client.file_services.list(GROUP, ACCOUNT).value[0].protocol_settings.smb
    expect((smb.versions, smb.authentication_methods) == ("SMB2.1;SMB3.0;SMB3.1.1", "NTLMv2"), smb)

    def wanted(**smb):
        return client.file_services.set_service_properties(GROUP, ACCOUNT, {"properties": {"protocolSettings": {"smb": smb}}})

    wanted(versions="SMB3.1.1;SMB3.0;SMB2.1;", authenticationMethods="NTLMv2")
    for smb in ({"versions": "SMB3.1.1"}, {"authenticationMethods": "Kerberos"}, {"channelEncryption": "AES-256-GCM"}, {"encryptionInTransit": {"required": True}}):
        refused(lambda smb=smb: wanted(**smb), "InvalidRequestPropertyValue", 400)


def usages(client):
    """limits, recommendations and the constants of bursts are told"""
    usage = client.file_services.get_service_usage(GROUP, ACCOUNT)
    limits, burst = usage.properties.file_share_limits, usage.properties.bursting_constants
    expect((limits.min_provisioned_iops, limits.max_provisioned_iops, limits.max_provisioned_storage_gi_b) == (3000, 102_400, 262_144), limits.as_dict())
    expect((burst.burst_floor_iops, burst.burst_io_scalar, burst.burst_timeframe_seconds) == (10_000, 3.0, 3600), burst.as_dict())
    recommended = usage.properties.file_share_recommendations
    expect((recommended.base_iops, recommended.base_bandwidth_mi_b_per_sec) == (3000, 100), recommended.as_dict())
    expect(usage.properties.storage_account_usage.live_shares.file_share_count == 2, usage.as_dict())
    expect(len(list(client.file_services.list_service_usages(GROUP, ACCOUNT))) == 1, "others are listed")


def shares(client):
    """shares are listed, page by page, told with what they hold, and given a quota"""
    def names(**how):
        return [one.name for one in client.file_shares.list(GROUP, ACCOUNT, **how)]
    expect(names() == ["conf", "other"] and names(maxpagesize="1") == ["conf", "other"], names())
    expect(names(filter="startswith(name, 'o')") == ["other"], "the filter does not count")
    share = client.file_shares.get(GROUP, ACCOUNT, "CONF", expand="stats")
    expect((share.name, share.share_quota, share.enabled_protocols, share.lease_state) == ("conf", 102_400, "SMB", "Available"), share.as_dict())
    expect(client.file_shares.update(GROUP, ACCOUNT, "other", {"properties": {"shareQuota": 7}}).share_quota == 7, "another quota")
    used = client.file_shares.get(GROUP, ACCOUNT, "other", expand="stats").share_usage_bytes
    expect(used is not None and used < 1 << 20, used)
    refused(lambda: client.file_shares.update(GROUP, ACCOUNT, "other", {"properties": {"rootSquash": "RootSquash"}}), "InvalidRequestPropertyValue", 400)
    refused(lambda: client.file_shares.get(GROUP, ACCOUNT, "nothing"), "ShareNotFound", 404)


def made_shares(client):
    """shares are made, deleted, kept and had back, and SMB clients have them meanwhile"""
    made = client.file_shares.create(GROUP, ACCOUNT, "made", {"properties": {"shareQuota": 5, "metadata": {"name": "value"}}})
    expect((made.share_quota, made.metadata, made.access_tier) == (5, {"name": "value"}, "Premium"), made.as_dict())
    expect(has_share("made"), "SMB clients do not have it")
    expect(client.file_shares.create(GROUP, ACCOUNT, "made", {"properties": {"shareQuota": 6}}).share_quota == 6, "another quota")
    for name in ("Upper", "a--b", "ab"):
        refused(lambda name=name: client.file_shares.create(GROUP, ACCOUNT, name, {"properties": {}}), *(("OutOfRangeInput", 400) if name == "ab" else ("InvalidResourceName", 400)))

    def keep(**policy):
        return client.file_services.set_service_properties(GROUP, ACCOUNT, {"properties": {"shareDeleteRetentionPolicy": policy}})

    expect(keep(enabled=True, days=7).share_delete_retention_policy.days == 7, "another number of days")
    refused(lambda: keep(enabled=True, days=366), "InvalidRequestPropertyValue", 400)
    when = "2026-11-30T17:00:00.0000000Z"
    of_snapshot = {"x_ms_snapshot": when}
    for asks in (client.file_shares.delete, client.file_shares.get):
        refused(lambda asks=asks: asks(GROUP, ACCOUNT, "made", **of_snapshot), "ShareSnapshotNotFound", 404)
    refused(lambda: client.file_shares.create(GROUP, ACCOUNT, "made", {"properties": {}}, expand="snapshots"), "ShareSnapshotOperationNotSupported", 409)
    expect(has_share("made"), "a share is deleted where a snapshot is meant")
    client.file_shares.delete(GROUP, ACCOUNT, "made")
    client.file_shares.delete(GROUP, ACCOUNT, "made")
    expect(not has_share("made"), "SMB clients have it still")
    deleted = [one for one in client.file_shares.list(GROUP, ACCOUNT, expand="deleted") if one.deleted]
    expect([(one.name, one.remaining_retention_days) for one in deleted] == [("made", 7)], deleted)
    again = {"deletedShareName": "made", "deletedShareVersion": deleted[0].version}
    client.file_shares.restore(GROUP, ACCOUNT, "made", again)
    told = client.file_shares.get(GROUP, ACCOUNT, "made", expand="stats")
    expect((told.share_quota, told.metadata) == (6, {"name": "value"}) and told.share_usage_bytes is not None, told.as_dict())
    expect(has_share("made"), "SMB clients do not have it again")
    refused(lambda: client.file_shares.restore(GROUP, ACCOUNT, "other-name", again), "ShareNotFound", 404)
    expect(keep(enabled=False).share_delete_retention_policy.enabled is False, "it is on still")
    client.file_shares.delete(GROUP, ACCOUNT, "made")
    expect(not [one for one in client.file_shares.list(GROUP, ACCOUNT, expand="deleted") if one.deleted], "it was kept")


def leases(client):
    """a lease keeps a share from being deleted, and is the data plane's"""
    client.file_shares.create(GROUP, ACCOUNT, "leased", {"properties": {}})
    lease = lambda **how: client.file_shares.lease(GROUP, ACCOUNT, "leased", parameters=how)  # noqa: E731
    held = lease(action="Acquire", leaseDuration=-1).lease_id
    expect(client.file_shares.get(GROUP, ACCOUNT, "leased").lease_state == "Leased", "it is not told")
    refused(lambda: client.file_shares.delete(GROUP, ACCOUNT, "leased"), "LeaseIdMissing", 412)
    refused(lambda: lease(action="Acquire", leaseDuration=-1), "LeaseAlreadyPresent", 409)
    refused(lambda: lease(action="Renew", leaseId=str(uuid.uuid4())), "LeaseIdMismatchWithLeaseOperation", 409)
    refused(lambda: lease(action="Acquire", leaseDuration=5), "InvalidRequestPropertyValue", 400)
    other = str(uuid.uuid4())
    expect(lease(action="Change", leaseId=held, proposedLeaseId=other).lease_id == other, "another id")
    lease(action="Renew", leaseId=other)
    expect(lease(action="Break", breakPeriod=0).lease_time_seconds == "0", "it goes on")
    client.file_shares.delete(GROUP, ACCOUNT, "leased")


def rules(client):
    """rules for pages of other origins are kept, and the data plane has them"""
    rule = {"allowedOrigins": ["https://example.com"], "allowedMethods": ["GET"], "allowedHeaders": ["x-ms-*"], "exposedHeaders": ["x-ms-*"], "maxAgeInSeconds": 60}

    def told(*rules):
        return client.file_services.set_service_properties(GROUP, ACCOUNT, {"properties": {"cors": {"corsRules": list(rules)}}}).cors.cors_rules

    expect([one.as_dict() for one in told(rule)] == [rule], "another rule is told")
    service = ShareServiceClient(os.environ["REST_URL"], credential={"account_name": ACCOUNT, "account_key": os.environ["REST_KEY"]})
    expect([one.allowed_origins for one in service.get_service_properties()["cors"]] == ["https://example.com"], "the data plane has another")
    refused(lambda: told(*[rule] * 6), "InvalidRequestPropertyValue", 400)
    expect(not told(), "a rule is left")


def provisioned(client):
    """what a share is provisioned with goes up at any time, and down not before a day is over"""
    def told(**properties):
        return client.file_shares.update(GROUP, ACCOUNT, "other", {"properties": properties})
    share = told(shareQuota=200, provisionedIops=4000, provisionedBandwidthMibps=150)
    expect((share.share_quota, share.provisioned_iops, share.provisioned_bandwidth_mibps) == (200, 4000, 150), share.as_dict())
    expect((share.included_burst_iops, share.max_burst_credits_for_iops) == (12_000, 8000 * 3600), share.as_dict())
    expect(share.next_allowed_quota_downgrade_time is not None, share.as_dict())
    refused(lambda: told(shareQuota=100), "ContainerQuotaDowngradeNotAllowed", 409)
    refused(lambda: told(provisionedIops=3000), "FileShareProvisionedIopsDowngradeNotAllowed", 409)
    refused(lambda: told(provisionedBandwidthMibps=100), "FileShareProvisionedBandwidthDowngradeNotAllowed", 409)
    refused(lambda: told(provisionedIops=1), "FileShareProvisionedIopsInvalid", 400)
    expect(told(provisionedIops=5000).provisioned_iops == 5000, "it did not go up")
    expect(client.file_services.get_service_usage(GROUP, ACCOUNT).properties.storage_account_usage.live_shares.provisioned_iops == 5000, "not counted")


def features():
    """features are registered and unregistered, as `multilane features` shows"""
    shows = contributor()
    of = f"/subscriptions/{subscription()}/providers/Microsoft.Features"
    names = [one["name"] for one in asked("GET", f"{of}/features?api-version=2021-07-01", token=shows)[1]["value"]]
    expect("Microsoft.Storage/AzurePremiumFilesMetadataCacheFeature" in names, names)
    feature = f"{of}/providers/Microsoft.Storage/features/AzurePremiumFilesMetadataCacheFeature"
    for how, state in (("register", "Registered"), ("unregister", "NotRegistered")):
        told = asked("POST", f"{feature}/{how}?api-version=2021-07-01", token=shows)[1]
        expect(told["properties"]["state"] == state, told)
        expect(asked("GET", f"{feature}?api-version=2021-07-01", token=shows)[1] == told, "another state is told")
        expect(state in multilane("features", "list") or how == "unregister", multilane("features", "list"))
    refusal(404, "FeatureNotFound", asked("GET", f"{of}/providers/Microsoft.Storage/features/Other?api-version=2021-07-01", token=shows))


def metrics():
    """metrics are those of `multilane metrics`, in the shape of Azure Monitor"""
    shows = contributor()
    service = in_group(f"storageAccounts/{ACCOUNT}/fileServices/default/providers/Microsoft.Insights")
    names = {one["name"]["value"] for one in asked("GET", f"{service}/metricDefinitions?api-version=2018-01-01", token=shows)[1]["value"]}
    expect(names == {one["name"] for one in json.loads(multilane("metrics", "list", "--json"))}, names)
    query = "api-version=2019-07-01&metricnames=Ingress,Egress&aggregation=Total,Average&interval=PT1M"
    status, answer, _ = asked("GET", f"{service}/metrics?{query}", token=shows)
    expect(status == 200 and [one["name"]["value"] for one in answer["value"]] == ["Ingress", "Egress"], answer)
    expect(answer["value"][0]["timeseries"][0]["data"], answer)
    refusal(400, "BadRequest", asked("GET", f"{service}/metrics?api-version=2019-07-01&metricnames=UsedCapacity", token=shows))


def deleted_principal():
    """a service principal that is deleted has no token any more, not even for what it has begun to ask"""
    made = json.loads(multilane("principal", "create", "short", "--role", "contributor", "--json"))
    shows = token(made)
    path = f"/subscriptions/{subscription()}?api-version={VERSION}"
    expect(asked("GET", path, token=shows)[0] == 200, "its token does nothing")
    body = json.dumps({"keyName": "key2"}).encode()
    with half_sent("POST", in_group(f"storageAccounts/{ACCOUNT}/regenerateKey?api-version={VERSION}"), body, shows) as rest:
        multilane("principal", "delete", "short")
        refusal(401, "InvalidAuthenticationToken", asked("GET", path, token=shows))
        refusal(401, "InvalidAuthenticationToken", rest())
    expect(signed_in(made)[0] == 401, "it signs in")


@contextlib.contextmanager
def half_sent(method, path, body, shows):
    """A request that the server has begun to read the body of. What this gives sends the rest, and gives the answer."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(URL).netloc, timeout=120)
    try:
        connection.putrequest(method, path)
        for name, value in (("Authorization", f"Bearer {shows}"), ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
                            ("Expect", "100-continue")):
            connection.putheader(name, value)
        connection.endheaders()
        expect(connection.sock.recv(64).startswith(b"HTTP/1.1 100 "), "the body is not wanted")
        connection.send(body[:1])

        def rest():
            connection.send(body[1:])
            response = connection.getresponse()
            return response.status, json.loads(response.read()), response.headers

        yield rest
    finally:
        connection.close()


def multilane(*words):
    return subprocess.run([os.environ["ARM_PROGRAM"], *words, "--data", os.environ["ARM_DATA"]], check=True, capture_output=True, text=True).stdout


def refused(work, code, status):
    try:
        work()
    except HttpResponseError as error:
        seen = getattr(error, "error_code", None) or error.error.code, error.status_code
        expect(seen == (code, status), f"refused with {seen}, not {(code, status)}")
        return
    raise Failure(f"not refused with {code}")


# SMB beside it.

def sign_in(user, password):
    """Signs in by SMB, and out again. What the server was just told may take a moment."""
    connection = Connection(uuid.uuid4(), os.environ["SMB_HOST"], int(os.environ["SMB_PORT"]))
    connection.connect()
    try:
        session = Session(connection, user, password)
        session.connect()
        session.disconnect()
    finally:
        connection.disconnect()


def has_share(name):
    """Whether an SMB client can connect to a share."""
    connection = Connection(uuid.uuid4(), os.environ["SMB_HOST"], int(os.environ["SMB_PORT"]))
    connection.connect()
    try:
        session = Session(connection, os.environ["SMB_USER"], os.environ["SMB_PASSWORD"])
        session.connect()
        try:
            TreeConnect(session, rf"\\{os.environ['SMB_HOST']}\{name}").connect()
        except BadNetworkName:
            return False
        return True
    finally:
        connection.disconnect()


if __name__ == "__main__":
    main()

"""The checks of the service and its shares, made with azure-storage-file-share beside an SMB client. Runs inside the environment that has it; the server is in
REST_* and SMB_* variables."""

import contextlib
import datetime
import os
import uuid

from azure.core.exceptions import HttpResponseError
from azure.storage.fileshare import (AccessPolicy, CorsRule, Metrics, RetentionPolicy, ShareClient, ShareLeaseClient, ShareSasPermissions,
                                     ShareServiceClient, generate_share_sas)
from smbprotocol.exceptions import SMBResponseException

from conformance.report import Failure, Lines, expect
from conformance.rest_checks import ACCOUNT, HOST, KEY, PORT, asked, opened
from conformance.rest_client import refused, smb

# Accounts that the suite has made, each with a key: of the SKUs, and one that keeps deleted shares.
KEPT, V1, V2, STANDARD = (os.environ[f"REST_{name}"] for name in ("KEPT", "V1", "V2", "STANDARD"))
KEYS = {account: os.environ[f"REST_KEY_{account}"] for account in (KEPT, V1, V2, STANDARD)} | {ACCOUNT: KEY}
GIB = 1 << 30
lines = Lines()


def main():
    for check in (made_and_deleted, names, deleted_under_smb, made_again, metadata, quotas, conditions, provisioned_v1, provisioned_v2, tiers, statistics,
                  leases, leased_shares, policies, undeleted, listed, properties, encryption, headers, snapshots, strangers):
        with lines.check(f"azure-storage-file-share: {check.__doc__}"):
            check()


def service_of(account=ACCOUNT):
    return ShareServiceClient(f"http://{HOST}:{PORT}/{account}", credential={"account_name": account, "account_key": KEYS[account]})


@contextlib.contextmanager
def share_of(account=ACCOUNT, **options):
    """A new share, which goes again."""
    share = service_of(account).get_share_client(f"made-{uuid.uuid4().hex[:12]}")
    share.create_share(**options)
    try:
        yield share
    finally:
        with contextlib.suppress(HttpResponseError):
            share.delete_share()


def signed_in(share, account=ACCOUNT):
    """A share as an SMB client has it that signs in with the account's key."""
    return smb(share, account, KEYS[account])


def refused_by_smb(work):
    try:
        work()
    except (SMBResponseException, OSError):
        return
    raise Failure("SMB does it")


def made_and_deleted():
    """a share is made, used by REST and SMB at once, and deleted"""
    with share_of() as share:
        made = share.get_share_properties()
        expect(made.etag and made.last_modified and made.protocols == ["SMB"], made)
        refused(share.create_share, "ShareAlreadyExists", 409)
        share.get_file_client("hello").upload_file(b"by rest")
        with signed_in(share.share_name) as tree, opened(tree, "hello") as file:
            expect(file.read(0, 7) == b"by rest", "SMB reads another text")
        share.delete_share()
        refused(share.get_share_properties, "ShareNotFound", 404)
        refused(share.delete_share, "ShareNotFound", 404)
        refused(lambda: share.get_file_client("hello").download_file(), "ShareNotFound", 404)
        with_smb = signed_in(share.share_name)
        refused_by_smb(with_smb.__enter__)


def names():
    """names that the service does not take are refused"""
    for name, code in (("ab", "OutOfRangeInput"), ("x" * 64, "OutOfRangeInput"), ("Upper", "InvalidResourceName"), ("-abc", "InvalidResourceName"),
                       ("abc-", "InvalidResourceName"), ("a--b", "InvalidResourceName"), ("a_b", "InvalidResourceName"), ("a.b", "InvalidResourceName")):
        refused(service_of().get_share_client(name).create_share, code, 400)
    # Names are the server's: another account's is taken.
    refused(service_of(KEPT).get_share_client(os.environ["SMB_SHARE"]).create_share, "ShareAlreadyExists", 409)


def deleted_under_smb():
    """what SMB clients have open ends when its share is deleted"""
    with share_of() as share:
        share.get_file_client("open").upload_file(b"text")
        with signed_in(share.share_name) as tree, opened(tree, "open") as file:
            expect(file.read(0, 4) == b"text", "it is not open")
            share.delete_share()
            refused_by_smb(lambda: file.read(0, 4))


def made_again():
    """a share that is made again is empty, for sessions from before, too"""
    with share_of() as share:
        for number in range(3):
            share.get_file_client("file").upload_file(b"text %d" % number)
            expect([one.name for one in share.list_directories_and_files()] == ["file"], "other files")
            share.delete_share()
            share.create_share()
            expect(list(share.list_directories_and_files()) == [], "the files are still there")


def metadata():
    """metadata is set, told and listed, and comes with no other share"""
    with share_of(metadata={"one": "1", "two": "a b"}) as share:
        before = share.get_share_properties()
        expect(before.metadata == {"one": "1", "two": "a b"}, before.metadata)
        share.set_share_metadata({"three": "3"})
        after = share.get_share_properties()
        expect((after.metadata, after.etag != before.etag) == ({"three": "3"}, True), after)
        found = [one for one in service_of().list_shares(include_metadata=True) if one.name == share.share_name]
        expect(found[0].metadata == {"three": "3"}, found[0].metadata)
        found = [one for one in service_of().list_shares() if one.name == share.share_name]
        expect(not found[0].metadata, "it is listed unasked")
        share.set_share_metadata({})
        expect(share.get_share_properties().metadata == {}, "it is still there")
        refused(lambda: share.set_share_metadata({"a-b": "c"}), "InvalidMetadata", 400)
        refused(lambda: share.set_share_metadata({"big": "x" * 8190}), "MetadataTooLarge", 400)


def quotas():
    """a share's quota is set, changed, and kept by SMB clients, too"""
    with share_of(quota=1) as share:
        expect(share.get_share_properties().quota == 1, "another quota")
        # What was never written takes no room, but no file is longer than its share may be.
        refused(lambda: share.get_file_client("large").create_file(2 * GIB), "ShareSizeLimitReached", 409)
        files = [share.get_file_client(name) for name in ("one", "another")]
        for file in files:
            file.create_file(GIB)
        for file in files:
            file.delete_file()
        share.set_share_quota(5)
        expect(share.get_share_properties().quota == 5, "another quota")
        refused(lambda: share.set_share_quota(0), "InvalidHeaderValue", 400)
        refused(lambda: share.set_share_quota(1 << 40), "InvalidHeaderValue", 400)


def conditions():
    """headers that mean something else on the service are refused and not passed over"""
    name = f"made-{uuid.uuid4().hex[:12]}"
    for header, value in (("x-ms-enabled-protocols", "NFS"), ("x-ms-root-squash", "RootSquash"), ("x-ms-share-quota", "many"),
                          ("x-ms-share-paid-bursting-enabled", "true"), ("x-ms-access-tier", "Lukewarm"), ("x-ms-enable-smb-directory-lease", "false")):
        status, headers_told, _ = asked("PUT", f"/{name}", "restype=share", more={header: value})
        expect((status, headers_told.get("x-ms-error-code")) == (400, "InvalidHeaderValue"), f"{header}: {status}")
    refused(service_of().get_share_client(name).get_share_properties, "ShareNotFound", 404)


def provisioned_v1():
    """shares of an account of v1 are provisioned, and cannot be decreased at once"""
    with share_of(V1, quota=200) as share:
        told = share.get_share_properties()
        expect((told.quota, told.provisioned_iops, told.provisioned_ingress_mbps, told.provisioned_egress_mbps) == (200, 3200, 48, 72), told)
        expect(told.provisioned_bandwidth == 120 and told.next_allowed_quota_downgrade_time and told.access_tier == "Premium", told)
        share.set_share_quota(300)
        refused(lambda: share.set_share_quota(250), "ContainerQuotaDowngradeNotAllowed", 409)
        refused(lambda: share.set_share_quota(99), "FileShareProvisionedStorageInvalid", 400)
        refused(lambda: share.set_share_properties(quota=102_401), "FileShareProvisionedStorageInvalid", 400)
        refused(lambda: service_of(V1).create_share("too-large", quota=102_400), "TotalSharesProvisionedCapacityExceedsAccountLimit", 409)
    with share_of(V1) as share:
        expect(share.get_share_properties().quota == 100, "who says nothing has no least share")


def provisioned_v2():
    """shares of an account of v2 have three provisioned values, each with its time"""
    with share_of(V2, quota=64, provisioned_iops=5000, provisioned_bandwidth_mibps=200) as share:
        told = share.get_share_properties()
        expect((told.quota, told.provisioned_iops, told.provisioned_bandwidth) == (64, 5000, 200), told)
        expect((told.included_burst_iops, told.max_burst_credits_for_iops) == (15_000, 36_000_000), told)
        expect(told.next_provisioned_iops_downgrade and told.next_provisioned_bandwidth_downgrade, told)
        # The client insists on a quota, or a tier.
        share.set_share_properties(quota=64, provisioned_iops=6000)
        expect(share.get_share_properties().provisioned_iops == 6000, "it is not increased")
        for wanted, code, status in (({"provisioned_iops": 5500}, "FileShareProvisionedIopsDowngradeNotAllowed", 409),
                                     ({"provisioned_bandwidth_mibps": 150}, "FileShareProvisionedBandwidthDowngradeNotAllowed", 409),
                                     ({"provisioned_iops": 1}, "FileShareProvisionedIopsInvalid", 400),
                                     ({"provisioned_bandwidth_mibps": 1}, "FileShareProvisionedBandwidthInvalid", 400)):
            refused(lambda wanted=wanted: share.set_share_properties(access_tier="Premium", **wanted), code, status)


def tiers():
    """shares that are not provisioned have one of three tiers"""
    with share_of(STANDARD) as share:
        expect(share.get_share_properties().access_tier == "TransactionOptimized", "another tier")
        share.set_share_properties(access_tier="Hot")
        expect(share.get_share_properties().access_tier == "Hot", "another tier")
        refused(lambda: share.set_share_properties(access_tier="Premium"), "InvalidHeaderValue", 400)
    with share_of(STANDARD, access_tier="Cool") as share:
        expect([one.access_tier for one in service_of(STANDARD).list_shares()] == ["Cool"], "another tier is listed")


def statistics():
    """what a share's files take is told, with a quota and without"""
    for options in ({}, {"quota": 10}):
        with share_of(**options) as share:
            # The quota counts from the moment on that the share's folder is open.
            share.get_file_client("file").upload_file(b"x" * 70_000)
            told = share.get_share_stats()
            expect(70_000 <= told <= 200_000, f"{options}: {told} bytes")


def leases():
    """leases are acquired, renewed, changed, released and broken as on the service"""
    with share_of() as share:
        lease = share.acquire_lease(lease_duration=15)
        told = share.get_share_properties().lease
        expect((told.status, told.state, told.duration) == ("locked", "leased", "fixed"), told)
        refused(share.acquire_lease, "LeaseAlreadyPresent", 409)
        lease.renew()
        other = str(uuid.uuid4())
        lease.change(other)
        expect(lease.id == other, lease.id)
        stranger = ShareLeaseClient(share, str(uuid.uuid4()))
        refused(stranger.renew, "LeaseIdMismatchWithLeaseOperation", 409)
        refused(stranger.release, "LeaseIdMismatchWithLeaseOperation", 409)
        refused(lambda: share.get_share_properties(lease=stranger), "LeaseIdMismatchWithContainerOperation", 412)
        expect(share.get_share_properties(lease=lease).lease.state == "leased", "its holder is refused")
        expect(0 < lease.break_lease() <= 15, "it is broken at once")
        expect(share.get_share_properties().lease.state == "breaking", "it is not breaking")
        refused(share.acquire_lease, "LeaseIsBreakingAndCannotBeAcquired", 409)
        expect(lease.break_lease(lease_break_period=0) == 0, "it is not broken")
        expect(share.get_share_properties().lease.state == "broken", "it is not broken")
        refused(lease.renew, "LeaseIsBrokenAndCannotBeRenewed", 409)
        lease.release()
        refused(ShareLeaseClient(share, other).release, "LeaseNotPresentWithLeaseOperation", 409)
        infinite = share.acquire_lease()
        expect(share.get_share_properties().lease.duration == "infinite", "it has an end")
        infinite.release()
        for seconds in (14, 61):
            refused(lambda seconds=seconds: share.acquire_lease(lease_duration=seconds), "InvalidHeaderValue", 400)


def leased_shares():
    """a leased share is deleted by nobody but who has the lease"""
    with share_of() as share:
        lease = share.acquire_lease()
        refused(share.delete_share, "LeaseIdMissing", 412)
        refused(lambda: share.delete_share(lease=ShareLeaseClient(share, str(uuid.uuid4()))), "LeaseIdMismatchWithContainerOperation", 412)
        share.set_share_metadata({"others": "may"})
        expect(share.get_share_properties().lease.state == "leased", "the lease is gone")
        share.delete_share(lease=lease)
        refused(share.get_share_properties, "ShareNotFound", 404)


def policies():
    """stored access policies are set and told, five at most"""
    with share_of() as share:
        expect(share.get_share_access_policy()["signed_identifiers"] == [], "there are some")
        start = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
        policy = AccessPolicy(permission=ShareSasPermissions(read=True, write=True), start=start, expiry=start + datetime.timedelta(days=9))
        share.set_share_access_policy({"one": policy, "two": AccessPolicy()})
        told = share.get_share_access_policy()["signed_identifiers"]
        expect([one.id for one in told] == ["one", "two"], told)
        expect((told[0].access_policy.permission, told[0].access_policy.start[:10]) == ("rw", "2026-11-30"), told[0].access_policy)
        try:
            share.set_share_access_policy({str(number): policy for number in range(6)})
            raise Failure("six are taken")
        except ValueError:
            pass
        many = "".join(f"<SignedIdentifier><Id>{number}</Id></SignedIdentifier>" for number in range(6))
        body = f"<SignedIdentifiers>{many}</SignedIdentifiers>".encode()
        status, told, _ = asked("PUT", f"/{share.share_name}", "restype=share&comp=acl", body=body)
        expect((status, told.get("x-ms-error-code")) == (400, "InvalidXmlDocument"), f"{status}")
        # A signature that names a policy ends with it.
        share.set_share_access_policy({"now": AccessPolicy(permission=ShareSasPermissions(create=True, write=True, read=True, list=True),
                                                           expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))})
        signed = ShareClient(f"http://{HOST}:{PORT}/{ACCOUNT}", share.share_name, credential=generate_share_sas(ACCOUNT, share.share_name, KEY, policy_id="now"))
        signed.get_file_client("signed").upload_file(b"text")
        expect(signed.get_file_client("signed").download_file().readall() == b"text", "another text")
        share.set_share_access_policy({})
        expect(share.get_share_access_policy()["signed_identifiers"] == [], "they are still there")
        refused(lambda: signed.get_file_client("signed").download_file(), "AuthenticationFailed", 403)


def undeleted():
    """a deleted share is kept, listed, and had back with its files; SMB sees it gone meanwhile"""
    service = service_of(KEPT)
    with share_of(KEPT, metadata={"a": "b"}) as share:
        share.get_file_client("file").upload_file(b"kept")
        share.delete_share()
        refused_by_smb(signed_in(share.share_name, KEPT).__enter__)
        refused(share.get_share_properties, "ShareNotFound", 404)
        # A second one of the same name.
        share.create_share()
        share.delete_share()
        found = [one for one in service.list_shares(include_deleted=True, include_metadata=True) if one.name == share.share_name]
        expect([one.deleted for one in found] == [True, True] and len({one.version for one in found}) == 2, found)
        first = next(one for one in found if one.metadata == {"a": "b"})
        expect(first.remaining_retention_days == 7 and first.deleted_time, first)
        expect(not any(one.name == share.share_name for one in service.list_shares()), "it is listed unasked")
        refused(lambda: service.undelete_share(share.share_name, "0000000000000000"), "ShareNotFound", 404)
        refused(lambda: service_of(V1).undelete_share(share.share_name, first.version), "ShareNotFound", 404)
        service.undelete_share(share.share_name, first.version)
        expect(share.get_file_client("file").download_file().readall() == b"kept", "another text")
        expect(share.get_share_properties().metadata == {"a": "b"}, "its metadata is gone")
        with signed_in(share.share_name, KEPT) as tree, opened(tree, "file") as file:
            expect(file.read(0, 4) == b"kept", "SMB reads another text")
        second = next(one for one in found if one is not first)
        refused(lambda: service.undelete_share(share.share_name, second.version), "ShareAlreadyExists", 409)


def listed():
    """shares are listed page by page, with what is kept among them"""
    service = service_of(KEPT)
    with share_of(KEPT) as one, share_of(KEPT) as other:
        one.delete_share()
        pages = [list(page) for page in service.list_shares(include_deleted=True, results_per_page=1).by_page()]
        names = [share.name for page in pages for share in page]
        whole = [share.name for share in service.list_shares(include_deleted=True)]
        expect(all(len(page) == 1 for page in pages) and names == whole and {one.share_name, other.share_name} <= set(names), (names, whole))
        status, told, _ = asked("GET", "/", "comp=list&include=everything")
        expect((status, told.get("x-ms-error-code")) == (400, "InvalidQueryParameterValue"), f"{status}")


def properties():
    """metrics and CORS rules are kept whole, and what is not said stays"""
    service = service_of(KEPT)
    hour = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=5))
    rules = [CorsRule(["*"], ["GET"]), CorsRule(["https://a.example", "https://b.example"], ["PUT", "GET"], allowed_headers=["x-ms-*"],
                                                exposed_headers=["x-ms-meta-a"], max_age_in_seconds=500)]
    service.set_service_properties(hour_metrics=hour, cors=rules)
    told = service.get_service_properties()
    expect((told["hour_metrics"].enabled, told["hour_metrics"].include_apis, told["hour_metrics"].retention_policy.days) == (True, True, 5), told)
    expect([(rule.allowed_origins, rule.allowed_methods, rule.max_age_in_seconds) for rule in told["cors"]]
           == [("*", "GET", 0), ("https://a.example,https://b.example", "PUT,GET", 500)], told["cors"])
    service.set_service_properties(minute_metrics=Metrics(enabled=False))
    told = service.get_service_properties()
    expect(len(told["cors"]) == 2 and told["hour_metrics"].enabled, "what was not said is gone")
    refused(lambda: service.set_service_properties(cors=[CorsRule(["*"], ["GET"])] * 6), "InvalidXmlDocument", 400)
    service.set_service_properties(cors=[])
    expect(not service.get_service_properties()["cors"], "the rules are still there")


def encryption():
    """encryption in transit is told as the server has it, and not switched by clients"""
    service = service_of()
    protocol = service.get_service_properties()["protocol"]
    expect(protocol.smb.encryption_in_transit.required is False, protocol)
    service.set_service_properties(protocol=protocol)
    protocol.smb.encryption_in_transit.required = True
    refused(lambda: service.set_service_properties(protocol=protocol), "InvalidXmlNodeValue", 400)


def headers():
    """each change of a share changes its ETag"""
    with share_of(quota=10) as share:
        seen = [share.get_share_properties().etag]
        for change in (lambda: share.set_share_metadata({"a": "b"}), lambda: share.set_share_quota(20), lambda: share.set_share_access_policy({})):
            change()
            seen.append(share.get_share_properties().etag)
        lease = share.acquire_lease()
        lease.release()
        expect(len(set(seen)) == len(seen) and share.get_share_properties().etag == seen[-1], seen)


def snapshots():
    """where there are no snapshots, what is asked for them is refused and done to nothing else"""
    with share_of() as share:
        refused(share.create_snapshot, "ShareSnapshotOperationNotSupported", 409)
        of_snapshot = service_of().get_share_client(share.share_name, snapshot="2026-11-30T08:00:00.0000000Z")
        refused(of_snapshot.get_share_properties, "ShareSnapshotNotFound", 404)
        refused(of_snapshot.delete_share, "ShareSnapshotNotFound", 404)
        expect(share.get_share_properties().etag, "the share is gone")
        live, file = share.get_file_client("file"), of_snapshot.get_file_client("file")
        live.upload_file(b"live")
        for work in (file.get_file_properties, lambda: file.download_file().readall(), lambda: list(of_snapshot.list_directories_and_files()),
                     lambda: share.get_file_client("copy").start_copy_from_url(f"{live.url}?sharesnapshot=2026-11-30T08:00:00.0000000Z")):
            refused(work, "ShareSnapshotNotFound", 404)
        for work in (file.delete_file, lambda: file.upload_range(b"xxxx", 0, 4), lambda: file.set_file_metadata({"a": "b"})):
            refused(work, "ShareSnapshotOperationNotSupported", 409)
        expect(live.download_file().readall() == b"live", "what is asked of a snapshot is done to the share")
        share.delete_share(delete_snapshots=True)


def strangers():
    """an account reaches no share of another one"""
    with share_of(KEPT) as share:
        other = service_of().get_share_client(share.share_name)
        for work in (other.get_share_properties, other.delete_share, lambda: other.set_share_metadata({"a": "b"}), other.acquire_lease,
                     other.get_share_access_policy, other.get_share_stats, lambda: other.set_share_quota(1),
                     lambda: other.set_share_access_policy({}), other.create_snapshot):
            refused(work, "ShareNotFound", 404)
        refused(other.create_share, "ShareAlreadyExists", 409)
        expect(share.get_share_properties().metadata == {}, "it was changed")


if __name__ == "__main__":
    main()

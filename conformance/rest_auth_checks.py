"""Who may ask by REST: the checks made with azure-storage-file-share and, where that refuses to ask, with requests of our own. Runs inside the environment
that has it; the server is in REST_* variables."""

import base64
import datetime
import http.client
import os
import pathlib
import ssl
import urllib.parse

from azure.storage.fileshare import (AccessPolicy, CorsRule, FileSasPermissions, ResourceTypes, Services, ShareClient, ShareFileClient,
                                     ShareSasPermissions, ShareServiceClient, generate_account_sas, generate_file_sas, generate_share_sas)

from conformance.report import Lines, expect
from conformance.rest_client import refused

URL, ACCOUNT, KEY = os.environ["REST_URL"], os.environ["REST_ACCOUNT"], os.environ["REST_KEY"]
SHARE, FOLDER = os.environ["SMB_SHARE"], pathlib.Path(os.environ["LOCAL_FOLDER"])
HOST, PORT = urllib.parse.urlsplit(URL).hostname, urllib.parse.urlsplit(URL).port
HOUR = datetime.timedelta(hours=1)
EVERYTHING = ResourceTypes(service=True, container=True, object=True)
lines = Lines()


def main():
    service = ShareServiceClient(URL, credential={"account_name": ACCOUNT, "account_key": KEY})
    share = service.get_share_client(SHARE)
    share.create_directory("auth").upload_file("old", b"old text")
    for check in (account_signatures, levels, share_signatures, file_signatures, times, addresses, changed, overrides, sources):
        with lines.check(f"azure-storage-file-share: {check.__doc__}"):
            check()
    for check in (policies, pages):
        with lines.check(f"azure-storage-file-share: {check.__doc__}"):
            check(service)


def now():
    return datetime.datetime.now(datetime.UTC)


def of_account(permissions="rwdlc", types=EVERYTHING, **more):
    return generate_account_sas(ACCOUNT, KEY, types, permissions, **({"expiry": now() + HOUR} | more))


def of_share(permissions="rwdlc", share=SHARE, **more):
    return generate_share_sas(ACCOUNT, share, KEY, permission=permissions, **({"expiry": now() + HOUR} | more))


def of_file(path, permissions="rwdc", **more):
    return generate_file_sas(ACCOUNT, SHARE, path.split("/"), KEY, permission=permissions, **({"expiry": now() + HOUR} | more))


def share_by(sas):
    return ShareClient(URL, SHARE, credential=sas)


def file_by(sas, path):
    return ShareFileClient(URL, SHARE, path, credential=sas)


PERMISSION, LEVEL, SERVICE = (f"Authorization{what}Mismatch" for what in ("Permission", "ResourceType", "Service"))


def account_signatures():
    """an account signature does what its letters say, and nothing else"""
    name = "auth/by-account"
    file_by(of_account("c"), name).create_file(4)
    refused(lambda: file_by(of_account("c"), name).create_file(5), "ResourceAlreadyExists", 409)
    refused(lambda: file_by(of_account("rcdl"), name).upload_range(b"text", 0, 4), PERMISSION)
    file_by(of_account("w"), name).upload_range(b"text", 0, 4)
    refused(lambda: file_by(of_account("wcdl"), name).download_file().readall(), PERMISSION)
    expect(file_by(of_account("r"), name).download_file().readall() == b"text", "another text")
    expect("by-account" in {one.name for one in share_by(of_account("l")).list_directories_and_files("auth")}, "it is not listed")
    refused(lambda: list(share_by(of_account("rwcd")).list_directories_and_files("auth")), PERMISSION)
    refused(file_by(of_account("rwlc"), name).delete_file, PERMISSION)
    file_by(of_account("d"), name).delete_file()
    expect(not (FOLDER / name).exists(), "it is there still")


def levels():
    """an account signature counts on its levels, and for its services"""
    def names(sas):
        return [one.name for one in ShareServiceClient(URL, credential=sas).list_shares()]

    expect(SHARE in names(of_account("l", ResourceTypes(service=True))), "shares are not listed")
    refused(lambda: names(of_account("rwdlc", ResourceTypes(container=True, object=True))), LEVEL)
    share_by(of_account("r", ResourceTypes(container=True))).get_share_properties()
    refused(share_by(of_account("r", ResourceTypes(object=True))).get_share_properties, LEVEL)
    refused(file_by(of_account("r", ResourceTypes(service=True, container=True)), "auth/old").get_file_properties, LEVEL)
    refused(lambda: names(of_account("l", services=Services(blob=True, queue=True))), SERVICE)
    refused(share_by(of_account()).get_share_access_policy, LEVEL)


def share_signatures():
    """a signature of a share is for its files, and not for the share itself or another one"""
    sas = of_share(ShareSasPermissions(read=True, list=True))
    expect(file_by(sas, "auth/old").download_file().readall() == b"old text", "another text")
    expect("old" in {one.name for one in share_by(sas).list_directories_and_files("auth")}, "it is not listed")
    refused(lambda: file_by(sas, "auth/new").create_file(1), PERMISSION)
    refused(share_by(of_share()).get_share_properties, "AuthorizationFailure")
    refused(lambda: list(ShareServiceClient(URL, credential=of_share()).list_shares()), "AuthenticationFailed")
    other = ShareClient(URL, "other", credential=of_share())
    refused(lambda: list(other.list_directories_and_files()), "AuthenticationFailed")
    made = share_by(of_share("c")).create_directory("auth/made")
    refused(made.delete_directory, PERMISSION)
    share_by(of_share("d")).get_directory_client("auth/made").delete_directory()


def file_signatures():
    """a signature of a file is for that file alone"""
    sas = of_file("auth/old", FileSasPermissions(read=True))
    expect(file_by(sas, "auth/old").download_file().readall() == b"old text", "another text")
    refused(file_by(sas, "auth/other").get_file_properties, "AuthenticationFailed")
    refused(lambda: file_by(sas, "auth/old").upload_range(b"x", 0, 1), PERMISSION)
    refused(lambda: list(share_by(sas).list_directories_and_files("auth/old")), "AuthorizationFailure")
    sas = of_file("auth/ä ö+%", "cw")
    file_by(sas, "auth/ä ö+%").upload_file(b"any name")
    expect((FOLDER / "auth/ä ö+%").read_bytes() == b"any name", "another text")


def times():
    """a signature begins and ends"""
    moment = datetime.timedelta(minutes=1)
    for more in ({"expiry": now() - moment}, {"start": now() + moment}, {"expiry": "2026-01-01"}):
        refused(file_by(of_share(**more), "auth/old").get_file_properties, "AuthenticationFailed")
        refused(file_by(of_account(**more), "auth/old").get_file_properties, "AuthenticationFailed")
    file_by(of_share(start=now() - moment), "auth/old").get_file_properties()
    refused(file_by(of_share(policy_id="nowhere"), "auth/old").get_file_properties, "AuthenticationFailed")


def addresses():
    """a signature is for the addresses and the protocol that it names"""
    file_by(of_share(ip=HOST), "auth/old").get_file_properties()
    file_by(of_share(ip="127.0.0.0-127.0.0.255", protocol="https,http"), "auth/old").get_file_properties()
    for sas in (of_share(ip="192.0.2.1"), of_account(ip="128.0.0.1-128.0.0.9")):
        refused(file_by(sas, "auth/old").get_file_properties, "AuthorizationSourceIPMismatch")
    for sas in (of_share(protocol="https"), of_account(protocol="https")):
        if URL.startswith("https:"):
            file_by(sas, "auth/old").get_file_properties()
        else:
            refused(file_by(sas, "auth/old").get_file_properties, "AuthorizationProtocolMismatch")


def changed():
    """a signature whose letters, times or parameters are changed is nobody's"""
    for sas in (of_share("r"), of_account("r"), of_file("auth/old", "r")):
        pairs = dict(urllib.parse.parse_qsl(sas))
        expect(status(pairs) == 200, f"{sas} is not taken as it was made")
        other = base64.b64encode(bytes(32)).decode()
        for change in ({"sp": "rwdlc"}, {"se": "2030-01-01T00:00:00Z"}, {"st": "2020-01-01T00:00:00Z"}, {"sig": other}, {"sig": ""},
                       {"sv": "2019-02-02"}, {"spr": "https,http"}, {"sip": "127.0.0.1"}, {"si": "x"}, {"sr": "x"}):
            if change.keys() == {"sr"} and "srt" in pairs or change.items() <= pairs.items() or change.keys() == {"si"} and "srt" in pairs:
                continue
            expect(status(pairs | change) == 403, f"{change} is taken")
        expect(status(pairs, "&sp=rwdlc") == 403, "a second sp is taken")
        expect(status(pairs | {"sp": "r\n"}) == 400, "a parameter of two lines is taken")


def connected():
    if URL.startswith("https:"):
        context = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
        return http.client.HTTPSConnection(HOST, PORT, timeout=30, context=context)
    return http.client.HTTPConnection(HOST, PORT, timeout=30)


def status(parameters, more=""):
    connection = connected()
    try:
        connection.request("HEAD", f"/{ACCOUNT}/{SHARE}/auth/old?{urllib.parse.urlencode(parameters)}{more}")
        return connection.getresponse().status
    finally:
        connection.close()


def overrides():
    """a signature sets headers of what is downloaded"""
    sas = of_file("auth/old", "r", content_type="text/x-old", content_disposition="attachment", cache_control="no-store",
                  content_encoding="identity", content_language="fr")
    settings = file_by(sas, "auth/old").download_file().properties.content_settings
    seen = [settings.content_type, settings.content_disposition, settings.cache_control, settings.content_encoding, settings.content_language]
    expect(seen == ["text/x-old", "attachment", "no-store", "identity", "fr"], seen)


def sources():
    """what is renamed has to be written where it was, too"""
    share_by(of_share()).get_file_client("auth/first").upload_file(b"moved")
    refused(lambda: file_by(of_share("rcdl"), "auth/first").rename_file("auth/second"), PERMISSION)
    file_by(of_share("w"), "auth/first").rename_file("auth/second")
    expect((FOLDER / "auth/second").read_bytes() == b"moved", "it is not there")
    # The URL of the source has that signature, which is not for it; the target's is.
    source = file_by(of_file("auth/third", "w"), "auth/second")
    refused(lambda: source.rename_file(f"auth/third?{of_file('auth/third', 'w')}"), "AuthenticationFailed")


def policies(service):
    """a signature takes from a stored policy what it does not say, and ends with it"""
    share = service.get_share_client(SHARE)
    share.set_share_access_policy({"reads": AccessPolicy(permission="rl", expiry=now() + HOUR), "is over": AccessPolicy("r", now() - HOUR)})

    def by(policy, **more):
        return file_by(generate_share_sas(ACCOUNT, SHARE, KEY, policy_id=policy, **more), "auth/old")

    expect(by("reads").download_file().readall() == b"old text", "another text")
    refused(lambda: by("reads").upload_range(b"x", 0, 1), PERMISSION)
    refused(by("is over").get_file_properties, "AuthenticationFailed")
    # What the policy says, the signature may not say anew.
    for more in ({"permission": "rwdl"}, {"expiry": now() + 2 * HOUR}):
        refused(by("reads", **more).get_file_properties, "AuthenticationFailed")
    share.set_share_access_policy({"reads": AccessPolicy(permission="l", expiry=now() + HOUR)})
    refused(by("reads").get_file_properties, PERMISSION)
    share.set_share_access_policy({})
    refused(by("reads").get_file_properties, "AuthenticationFailed")


def pages(service):
    """pages of other origins may ask what the account's rules say, and nothing without rules"""
    service.set_service_properties(cors=[CorsRule(["https://app.example"], ["GET", "PUT"], allowed_headers=["x-ms-*"], exposed_headers=["etag"],
                                                  max_age_in_seconds=77)])
    try:
        expect(preflight("https://app.example", "PUT")[0] == 200, preflight("https://app.example", "PUT"))
        answer = preflight("https://app.example", "GET", "x-ms-version,x-ms-date")[1]
        seen = [answer.get(f"access-control-{name}") for name in ("allow-origin", "allow-methods", "allow-headers", "max-age")]
        expect(seen == ["https://app.example", "GET", "x-ms-version,x-ms-date", "77"], seen)
        for asked in (("https://evil.example", "GET"), ("https://app.example", "DELETE"), ("https://app.example", "GET", "authorization")):
            answer = preflight(*asked)
            expect((answer[0], answer[1].get("x-ms-error-code")) == (403, "CorsPreflightFailure"), f"{asked}: {answer}")
        connection = connected()
        connection.request("GET", f"/{ACCOUNT}/{SHARE}/auth/old?{of_share('r')}", headers={"Origin": "https://app.example"})
        answer = connection.getresponse()
        seen = answer.status, answer.headers.get("access-control-allow-origin"), answer.headers.get("access-control-expose-headers")
        expect(seen == (200, "https://app.example", "etag"), seen)
        connection.close()
    finally:
        service.set_service_properties(cors=[])
    expect(preflight("https://app.example", "GET")[0] == 403, "rules that are gone are followed")


def preflight(origin, method, headers=""):
    connection = connected()
    try:
        asked = {"Origin": origin, "Access-Control-Request-Method": method} | ({"Access-Control-Request-Headers": headers} if headers else {})
        connection.request("OPTIONS", f"/{ACCOUNT}/{SHARE}/auth/old", headers=asked)
        answer = connection.getresponse()
        return answer.status, answer.headers
    finally:
        connection.close()


if __name__ == "__main__":
    main()

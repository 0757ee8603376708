"""Who asks with a token, and user delegation keys: the checks made with azure-storage-file-share. Runs inside the environment that has it; the server is in
REST_* variables, its service principals in REST_PRINCIPALS."""

import base64
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import time
import urllib.parse
import urllib.request

from azure.core.credentials import AccessToken
from azure.storage.fileshare import ShareServiceClient, ShareFileClient, generate_file_sas, generate_share_sas

from conformance.report import Failure, Lines, expect
from conformance.rest_client import refused

URL, ACCOUNT, KEY = os.environ["REST_URL"], os.environ["REST_ACCOUNT"], os.environ["REST_KEY"]
SHARE, PROGRAM = os.environ["SMB_SHARE"], os.environ["MULTILANE"]
PRINCIPALS = {role: json.loads(text) for role, text in json.loads(os.environ["REST_PRINCIPALS"]).items()}
ORIGIN = URL.rsplit("/", 1)[0]
TENANT = "00000000-0000-0000-0000-000000000002"
HOUR = datetime.timedelta(hours=1)
PERMISSION, LEVEL = "AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch"
TRUSTED = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
# The server takes its time over a secret, and more of it where others work.
SIGN_IN_SECONDS = 120
AUDITED_SECONDS = 20
# Tokens that were given: a client asks for one as long as it lasts.
KNOWN: dict = {}
lines = Lines()


class Credential:
    """A service principal, as azure-identity has it."""

    def __init__(self, role, scope="https://storage.azure.com/.default"):
        self.principal, self.scope = PRINCIPALS[role], scope

    def get_token(self, *scopes, **options):
        key = self.principal["appId"], self.scope
        if key not in KNOWN:
            KNOWN[key] = self._asked()
        return KNOWN[key]

    def _asked(self):
        form = urllib.parse.urlencode({"grant_type": "client_credentials", "client_id": self.principal["appId"],
                                       "client_secret": self.principal["password"], "scope": self.scope}).encode()
        with urllib.request.urlopen(f"{ORIGIN}/{TENANT}/oauth2/v2.0/token", form, timeout=SIGN_IN_SECONDS, context=TRUSTED) as answer:
            told = json.load(answer)
        return AccessToken(told["access_token"], int(time.time()) + int(told["expires_in"]))


def main():
    service = ShareServiceClient(URL, credential={"account_name": ACCOUNT, "account_key": KEY})
    service.get_share_client(SHARE).create_directory("tokens").upload_file("old", b"old text")
    for check in (files, others, managers, intent, audiences, delegation, audited, audited_sources, audited_refusals, delegations_end):
        with lines.check(f"tokens: {check.__doc__}"):
            check()


def service_of(role, **more):
    return ShareServiceClient(URL, credential=Credential(role), token_intent="backup", retry_total=0, **more)


def files():
    """who reads files reads and lists them; who changes them does all with them"""
    reader, contributor = (service_of(role).get_share_client(SHARE) for role in ("file-reader", "file-contributor"))
    expect(reader.get_file_client("tokens/old").download_file().readall() == b"old text", "another text")
    expect("old" in {one.name for one in reader.list_directories_and_files("tokens")}, "it is not listed")
    refused(lambda: reader.get_file_client("tokens/new").upload_file(b"x"), PERMISSION)
    refused(reader.get_file_client("tokens/old").delete_file, PERMISSION)
    file = contributor.get_file_client("tokens/new")
    file.upload_file(b"by a token")
    expect(file.rename_file("tokens/renamed").download_file().readall() == b"by a token", "another text")
    contributor.get_file_client("tokens/renamed").delete_file()


def others():
    """a token of who reads or changes files is for files and directories alone, and one for management for nothing here"""
    for role in ("file-reader", "file-contributor"):
        refused(lambda role=role: list(service_of(role).list_shares()), LEVEL)
        refused(service_of(role).get_share_client(SHARE).get_share_properties, LEVEL)
        refused(service_of(role).get_share_client(SHARE).get_share_access_policy, LEVEL)
    token = Credential("file-reader", f"{ORIGIN}/.default").get_token().token
    expect(asked(token)[:2] == (401, "InvalidAuthenticationInfo"), asked(token))
    header, claims, signature = Credential("file-reader").get_token().token.split(".")
    more = json.loads(base64.urlsafe_b64decode(claims + "=="))
    for changed in (f"{header}.{claims}.", f"{header}.{claims}.{signature[:-2]}",
                    f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{claims}.",
                    f"{header}.{encoded(more | {'exp': more['exp'] + 9_999})}.{signature}", "x.y.z"):
        expect(asked(changed)[:2] == (401, "InvalidAuthenticationInfo"), changed)


def managers():
    """who manages sees and changes shares, and neither their files nor their policies"""
    service = service_of("contributor")
    share = service.get_share_client("of-a-token")
    share.create_share(metadata={"by": "a token"})
    expect(share.get_share_properties().metadata == {"by": "a token"}, "other metadata")
    share.set_share_quota(7)
    expect([one.quota for one in service.list_shares() if one.name == "of-a-token"] == [7], "another quota")
    refused(share.get_share_access_policy, LEVEL)
    refused(lambda: list(share.list_directories_and_files()), PERMISSION)
    refused(lambda: share.create_directory("made"), PERMISSION)
    share.delete_share()


def encoded(claims):
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def intent():
    """who does not say that it passes descriptors by is refused"""
    token = Credential("file-reader").get_token().token
    expect(asked(token)[0] == 200, asked(token))
    expect(asked(token, None)[:2] == (400, "MissingRequiredHeader"), asked(token, None))
    expect(asked(token, "restore")[:2] == (400, "InvalidHeaderValue"), asked(token, "restore"))


def audiences():
    """a token for an account's own address is for that account alone"""
    for own, other in ((URL, f"{ORIGIN}/another"), (f"https://{ACCOUNT}.file.core.windows.net", "https://another.file.core.windows.net")):
        token = Credential("file-reader", f"{own}/.default").get_token().token
        expect(asked(token)[0] == 200, f"{own}: {asked(token)}")
        token = Credential("file-reader", f"{other}/.default").get_token().token
        expect(asked(token)[:2] == (401, "InvalidAuthenticationInfo"), f"{other}: {asked(token)}")


def asked(token, intent="backup"):
    parts = urllib.parse.urlsplit(URL)
    connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=30, context=TRUSTED)
    try:
        headers = {"Authorization": f"Bearer {token}", "x-ms-version": "2026-10-06"} | ({"x-ms-file-request-intent": intent} if intent else {})
        connection.request("GET", f"{parts.path}/{SHARE}/tokens/old", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers.get("x-ms-error-code"), answer.headers.get("www-authenticate")
    finally:
        connection.close()


def now():
    return datetime.datetime.now(datetime.UTC)


def key_of(role, **more):
    return service_of(role).get_user_delegation_key(**({"start": now() - HOUR, "expiry": now() + HOUR} | more))


def delegation():
    """a user delegation key makes signatures that allow what its principal may do, and no more"""
    for role, may_write in (("file-reader", False), ("file-contributor", True)):
        more = {"permission": "rwdl", "expiry": now() + HOUR, "user_delegation_key": key_of(role)}
        file = ShareFileClient(URL, SHARE, "tokens/old", credential=generate_share_sas(ACCOUNT, SHARE, **more))
        expect(file.download_file().readall() == b"old text", "another text")
        if may_write:
            file.upload_range(b"OLD", 0, 3)
            file.upload_range(b"old", 0, 3)
        else:
            refused(lambda file=file: file.upload_range(b"OLD", 0, 3), PERMISSION)
        more["permission"] = "r"
        sas = generate_file_sas(ACCOUNT, SHARE, ["tokens", "old"], **more)
        expect(ShareFileClient(URL, SHARE, "tokens/old", credential=sas).download_file().readall() == b"old text", "another text")
        refused(ShareFileClient(URL, SHARE, "tokens/other", credential=sas).get_file_properties, "AuthenticationFailed")
        pairs = dict(urllib.parse.parse_qsl(sas))
        for change in ({"sp": "rw"}, {"ske": "2026-12-31T00:00:00Z"}, {"skoid": PRINCIPALS["contributor"]["appId"]}, {"sks": "b"}, {"skv": "2020-02-10"}):
            changed = urllib.parse.urlencode(pairs | change)
            refused(ShareFileClient(URL, SHARE, "tokens/old", credential=changed).get_file_properties, "AuthenticationFailed")


def audited():
    """the audit log tells who deleted a file, from where, and by which key, signature or token"""
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "delete"], check=True, capture_output=True, timeout=30)
    principal = PRINCIPALS["file-contributor"]["appId"]
    by_account = generate_share_sas(ACCOUNT, SHARE, KEY, permission="rwd", expiry=now() + HOUR)
    by_principal = generate_share_sas(ACCOUNT, SHARE, permission="rwd", expiry=now() + HOUR, user_delegation_key=key_of("file-contributor"))
    key = {"account_name": ACCOUNT, "account_key": KEY}
    token = Credential("file-contributor").get_token().token
    for name, credential, more, known in (
            ("key", key, {}, ("AccountKey", ACCOUNT, "key1")),
            ("signature", by_account, {}, ("SAS", ACCOUNT, sum_of(by_account))),
            ("delegated", by_principal, {}, ("DelegationSas", principal, sum_of(by_principal))),
            ("token", Credential("file-contributor"), {"token_intent": "backup"}, ("OAuth", principal, hashlib.sha256(token.encode()).hexdigest())),
            # Whoever has the lease is another than who deletes.
            ("leased", by_account, {}, ("SAS", ACCOUNT, sum_of(by_account)))):
        path = f"tokens/audited by {name}"
        by_key = ShareFileClient(URL, SHARE, path, credential=key)
        by_key.upload_file(b"text")
        lease = by_key.acquire_lease() if name == "leased" else None
        answers = []
        ShareFileClient(URL, SHARE, path, credential=credential, **more).delete_file(lease=lease, raw_response_hook=answers.append)
        gone = told_of(path, "FileCloseAndDelete")
        request = answers[0].http_response.headers["x-ms-request-id"]
        for one in (told_of(path, "FileDispositionInformation"), gone):
            identity = one["identity"]
            seen = identity["type"], identity["requester"], identity["tokenHash"]
            expect(seen == known, f"{name}: {seen}, not {known}")
            expect((one["protocol"], one["correlationId"]) == ("HTTPS", request), one)
            expect(one["callerIpAddress"].startswith("127.0.0.1:"), one)
        by = [(one["type"], one["requester"], one["tokenHash"], one["correlationId"]) for one in gone["properties"]["deletionRequestedBy"]]
        expect(by == [(*known, request)], f"{name}: {by}")
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "none"], check=True, capture_output=True, timeout=30)


def audited_sources():
    """the audit log tells by which signature or token that was read which is copied, and that was moved which is renamed"""
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "read,write"], check=True, capture_output=True, timeout=30)
    key, path = {"account_name": ACCOUNT, "account_key": KEY}, "tokens/audited source"
    by_key = ShareFileClient(URL, SHARE, path, credential=key)
    by_key.upload_file(b"text")
    copy = ShareFileClient(URL, SHARE, "tokens/audited copy", credential=key)
    sas = generate_file_sas(ACCOUNT, SHARE, path.split("/"), KEY, permission="rw", expiry=now() + HOUR)
    signed, token = f"{by_key.url}?{sas}", Credential("file-reader").get_token().token
    by_sas = {"type": "SAS", "requester": ACCOUNT, "tokenHash": sum_of(sas)}
    by_token = {"type": "OAuth", "requester": PRINCIPALS["file-reader"]["appId"], "tokenHash": hashlib.sha256(token.encode()).hexdigest()}
    by = {"type": "AccountKey", "requester": ACCOUNT, "tokenHash": "key1"}
    for what, source, ask in (
            ("copied", None, lambda **more: copy.start_copy_from_url(by_key.url, **more)),
            ("copied with a signature", by_sas, lambda **more: copy.start_copy_from_url(signed, **more)),
            ("a range with a signature", by_sas, lambda **more: copy.upload_range_from_url(signed, 0, 4, 0, **more)),
            ("a range with a token", by_token, lambda **more: copy.upload_range_from_url(by_key.url, 0, 4, 0, source_authorization=f"Bearer {token}", **more)),
            ("renamed", by_sas, renamed(signed))):
        answers = []
        ask(raw_response_hook=lambda answer, answers=answers: answers.append(answer.http_response.headers["x-ms-request-id"]))
        # What is renamed is closed by its new name.
        for name in ("FileRenameInformation",) if what == "renamed" else ("FileOpen", "FileClose"):
            one = told_of(path, name, answers[0])
            expect(one["identity"] == (by | {"source": source} if source else by), f"{what}: {one['identity']}")
    # It is made by another name, and closed by this one.
    for one in (told_of("tokens/audited copy", name) for name in ("FileClose", "FileOpen")):
        expect(one["identity"] == by, one["identity"])
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "none"], check=True, capture_output=True, timeout=30)


def audited_refusals():
    """the audit log tells who was refused: with which signature or token, and that a wrong key proves nobody"""
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "sign-in"], check=True, capture_output=True, timeout=30)
    path, reads = "tokens/audited refusal", generate_share_sas(ACCOUNT, SHARE, KEY, permission="r", expiry=now() + HOUR)
    token = Credential("file-reader").get_token().token
    of_reader = {"type": "OAuth", "requester": PRINCIPALS["file-reader"]["appId"], "tokenHash": hashlib.sha256(token.encode()).hexdigest()}
    stranger = {"type": "Claimed", "requester": ACCOUNT, "tokenHash": ""}
    for credential, more, code, known, status in (
            (reads, {}, PERMISSION, {"type": "SAS", "requester": ACCOUNT, "tokenHash": sum_of(reads)}, "STATUS_ACCESS_DENIED"),
            (Credential("file-reader"), {"token_intent": "backup"}, PERMISSION, of_reader, "STATUS_ACCESS_DENIED"),
            ({"account_name": ACCOUNT, "account_key": "AAAA"}, {}, "AuthenticationFailed", stranger, "STATUS_LOGON_FAILURE")):
        answers = []
        file = ShareFileClient(URL, SHARE, path, credential=credential, retry_total=0, **more)
        refused(lambda file=file: file.create_file(1, raw_response_hook=answers.append), code)
        told = line_of(lambda one, answers=answers: one.get("correlationId") == answers[0].http_response.headers["x-ms-request-id"], code)
        properties = told["properties"]
        seen = told["operationName"], told["identity"], told["statusText"], told["protocol"], properties["auditClass"], properties["smbCommandDetail"]
        expect(seen == ("CreateFile", known, status, "HTTPS", "sign-in", code), told)
        wanted = None if known is stranger else path.replace("/", "\\")
        expect((properties["accountName"], properties["shareName"], properties.get("filePath")) == (ACCOUNT, SHARE, wanted), told)
    subprocess.run([PROGRAM, "share", "update", SHARE, "--audit", "none"], check=True, capture_output=True, timeout=30)


def sum_of(sas):
    return f"key1,SasSignature({hashlib.sha256(dict(urllib.parse.parse_qsl(sas))['sig'].encode()).hexdigest()})"


def renamed(source):
    """Asks, by key, for a rename of what this URL allows."""
    new = ShareFileClient(URL, SHARE, "tokens/audited new name", credential={"account_name": ACCOUNT, "account_key": KEY})
    return lambda **more: new._client.file.rename(rename_source=source, cls=lambda answer, _, headers: more["raw_response_hook"](answer))


def told_of(path, operation, request=None):
    """The line of the audit log that tells of what was done."""
    return line_of(lambda line: line["properties"].get("filePath") == path.replace("/", "\\")
                   and line["properties"].get("smbCommandMinor") == operation and line["statusCode"] == 0
                   and request in (None, line.get("correlationId")), f"{operation} of {path}")


def line_of(is_it, what):
    """The last such line of the audit log, which is written soon."""
    log, until = pathlib.Path(os.environ["MULTILANE_DATA"]) / "audit.log", time.monotonic() + AUDITED_SECONDS
    while time.monotonic() < until:
        found = [line for line in map(json.loads, log.read_text().splitlines()) if is_it(line)]
        if found:
            return found[-1]
        time.sleep(0.05)
    raise Failure(f"{what} is not told")


def delegations_end():
    """a user delegation key is given to principals alone, for seven days at most, and ends with its principal"""
    refused(lambda: key_of("file-reader", expiry=now() + 200 * HOUR), "InvalidXmlNodeValue", 400)
    refused(lambda: key_of("file-reader", expiry=now() - HOUR / 2, start=now() - HOUR), "InvalidXmlNodeValue", 400)
    keyed = ShareServiceClient(URL, credential={"account_name": ACCOUNT, "account_key": KEY})
    refused(lambda: keyed.get_user_delegation_key(start=now(), expiry=now() + HOUR), "AuthenticationFailed")
    sas = generate_share_sas(ACCOUNT, SHARE, permission="r", expiry=now() + HOUR, user_delegation_key=key_of("file-contributor"))
    file = ShareFileClient(URL, SHARE, "tokens/old", credential=sas)
    file.get_file_properties()
    principal = PRINCIPALS["file-contributor"]["displayName"]
    subprocess.run([PROGRAM, "principal", "delete", principal], check=True, capture_output=True, timeout=30)
    refused(file.get_file_properties, "AuthenticationFailed")


if __name__ == "__main__":
    main()

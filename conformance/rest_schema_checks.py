"""Requests that schemathesis makes of docs/rest.openapi.json, signed and sent as bytes, and what holds for every answer. Runs inside the environment that
has it; the server is in REST_* variables."""

import base64
import collections
import contextlib
import datetime
import functools
import hashlib
import hmac
import json
import os
import pathlib
import random
import re
import socket
import ssl
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase, strategies

from conformance.report import Failure, Lines, expect

URL, ACCOUNT, KEY = urllib.parse.urlsplit(os.environ["REST_URL"]), os.environ["REST_ACCOUNT"], base64.b64decode(os.environ["REST_KEY"])
SEED, SECONDS = int(os.environ["SCHEMA_SEED"]), int(os.environ["SCHEMA_SECONDS"])
PRINCIPALS = {role: json.loads(text) for role, text in json.loads(os.environ["REST_PRINCIPALS"]).items()}
# Who asks is said here, and not by the generator.
DESCRIPTION = json.loads((pathlib.Path(__file__).parent.parent / "docs" / "rest.openapi.json").read_text()) | {"security": []}
TENANT, VERSION = "00000000-0000-0000-0000-000000000002", "2026-10-06"
SHARE, OTHER = "conf", "other"
# Requests for each operation of one round, three of four as the description allows them; and rounds: what one makes the next one finds.
EXAMPLES, ROUNDS = 20, 2
ANSWER_SECONDS = 60
# How often a server may say that it is busy, and to come again.
BUSY_MAX = 3
# Of an answer that is longer, as a file of 4 TiB is, no more is taken.
TAKEN_BYTES = 1 << 20
KEPT = os.environ["REST_KEPT"].encode()
# Names that requests share, so that they meet what others have made. Shares of these names come and go.
SHARES = (*[SHARE] * 3, "made", "made", "gone", "nothing")
FILES, DIRECTORIES = ("a", "b", "dir/a"), ("dir", "dir/sub", "")
PATHS = (*FILES, *DIRECTORIES, "dir/sub/b", "read only", "nothing/a", "x.", "A", "ü\u0301", "dir/../a", ".")
LEASES: tuple[str, ...] = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")
# What answers have told of: keys of permissions, and deleted shares with their versions.
KEYS: list[str] = ["1*2"]
DELETED: list[tuple[str, str]] = []
# Files that were leased, and what else their names need.
LEASED: dict[str, list[tuple[str, str]]] = {}
CHOSEN = {"x-ms-lease-id": LEASES, "x-ms-proposed-lease-id": LEASES, "x-ms-source-lease-id": LEASES, "x-ms-destination-lease-id": LEASES,
          "x-ms-deleted-share-name": ("made", "gone"), "x-ms-file-permission-key": KEYS}
# The description has them, and this server has nothing that they are about.
REFUSED = {"sharesnapshot", "prevsharesnapshot", "x-ms-root-squash", "x-ms-allow-trailing-dot", "x-ms-source-allow-trailing-dot",
           "x-ms-source-content-crc64", "x-ms-source-if-match-crc64", "x-ms-share-provisioned-iops", "x-ms-share-provisioned-bandwidth-mibps"}
SOURCES = ("x-ms-copy-source", "x-ms-file-rename-source")
# What these destroy is not the share that everything else happens in.
DESTROYING = {"DeleteShare", "UndeleteShare", "LeaseShare"}
HOUR = datetime.timedelta(hours=1)
TRUSTED = ssl.create_default_context(cafile=os.environ["REQUESTS_CA_BUNDLE"])
lines = Lines()


class Client:
    """One connection after the other to the server."""

    def __init__(self):
        self.connection = self.stream = None

    def ask(self, method, target, headers, body):
        """The answer to a request that is sent as it is said here."""
        head = [f"{method} {target} HTTP/1.1", f"Host: {URL.netloc}", *(f"{name}: {value}" for name, value in headers)]
        sent = ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body
        for is_last in (False, True):
            is_new = self.connection is None
            if is_new:
                self.connect()
            try:
                self.connection.sendall(sent)
                answer = Answer(self.stream, method, sent)
            except OSError as error:
                answer = error
            if isinstance(answer, Answer) and answer.status:
                if not answer.is_whole or answer.headers.get("connection") == "close":
                    self.close()
                return answer
            self.close()
            if is_new or is_last:
                raise Failure(f"no answer, but {answer!r}, to {sent[:4000]!r}")

    def connect(self):
        plain = socket.create_connection((URL.hostname, URL.port), timeout=ANSWER_SECONDS)
        self.connection = TRUSTED.wrap_socket(plain, server_hostname=URL.hostname)
        self.stream = self.connection.makefile("rb")

    def close(self):
        with contextlib.suppress(OSError):
            self.stream.close()
            self.connection.close()
        self.connection = None


class Answer:
    """An answer as it came, and the request that it is for."""

    def __init__(self, stream, method, sent):
        self.sent, self.status, self.headers, self.body, self.is_whole = sent, None, {}, b"", True
        line = stream.readline().split(b" ", 2)
        if len(line) < 2:
            return
        self.status = int(line[1])
        while (line := stream.readline().strip()):
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()
        if method != "HEAD":
            length = int(self.headers.get("content-length", 0))
            self.body, self.is_whole = stream.read(min(length, TAKEN_BYTES)), length <= TAKEN_BYTES

    def __str__(self):
        return f"{self.status} {self.headers} {self.body[:600]!r}\nto {self.sent[:4000]!r}"


def hashed(key, text):
    return base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()


WEIGHTS = "!#$%&*.^_`|~+0123456789abcdefghijklmnopqrstuvwxyz"


def by_name(header):
    """The order that headers are signed in: `-` comes after all else."""
    return [WEIGHTS.index(one) for one in header[0] if one in WEIGHTS], [one == "-" for one in header[0]]


def shared_key(method, path, query, headers, key=KEY):
    """The headers with a signature of them all ("Authorize with Shared Key")."""
    now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = [*headers, ("x-ms-date", now)]
    known = {name.lower(): value for name, value in reversed(headers)}
    length = known.get("content-length", "0")
    named = ["content-encoding", "content-language", None, "content-md5", "content-type", None, "if-modified-since", "if-match", "if-none-match",
             "if-unmodified-since", "range"]
    text = [method, *(known.get(name, "") if name else "" for name in named)]
    text[3] = "" if length == "0" else length
    ours = [(name.lower(), value.strip()) for name, value in headers if name.lower().startswith("x-ms-") and value.isascii()]
    text += [f"{name}:{value}" for name, value in sorted(ours, key=by_name)]
    text.append(f"/{ACCOUNT}{path}")
    parameters = collections.defaultdict(list)
    for name, value in query:
        parameters[name.lower()].append(value)
    text += [f"{name}:{','.join(sorted(parameters[name]))}" for name in sorted(parameters)]
    return [*headers, ("Authorization", f"SharedKey {ACCOUNT}:{hashed(key, chr(10).join(text))}")]


def moment(since):
    return (datetime.datetime.now(datetime.UTC) + since).strftime("%Y-%m-%dT%H:%M:%SZ")


def account_signature(permissions="rwdlc", levels="sco", lasts=HOUR, key=KEY):
    """The query of a signature of the account ("Create an account SAS")."""
    values = {"sp": permissions, "ss": "f", "srt": levels, "st": "", "se": moment(lasts), "sip": "", "spr": "https,http", "sv": VERSION, "ses": ""}
    text = "".join(f"{value}\n" for value in (ACCOUNT, *values.values()))
    return [(name, value) for name, value in values.items() if value] + [("sig", hashed(key, text))]


def share_signature(permissions="rwdlc", share=SHARE):
    """That of a signature of a share ("Create a service SAS")."""
    values = {"sp": permissions, "se": moment(HOUR), "sv": VERSION, "sr": "s"}
    text = "\n".join((permissions, "", values["se"], f"/file/{ACCOUNT}/{share}", "", "", "", VERSION, "", "", "", "", ""))
    return [*values.items(), ("sig", hashed(KEY, text))]


@functools.cache
def token(role):
    principal = PRINCIPALS[role]
    form = urllib.parse.urlencode({"grant_type": "client_credentials", "client_id": principal["appId"], "client_secret": principal["password"],
                                   "scope": "https://storage.azure.com/.default"}).encode()
    with urllib.request.urlopen(f"https://{URL.netloc}/{TENANT}/oauth2/v2.0/token", form, timeout=120, context=TRUSTED) as answer:
        return json.load(answer)["access_token"]


def by_key(method, path, query, headers):
    return query, shared_key(method, path, query, headers)


def by_signature(make, *arguments, **named):
    return lambda method, path, query, headers: ([*query, *make(*arguments, **named)], headers)


def by_token(role):
    def signed(method, path, query, headers):
        headers = [one for one in headers if one[0].lower() != "x-ms-file-request-intent"]
        return query, [*headers, ("Authorization", f"Bearer {token(role)}"), ("x-ms-file-request-intent", "backup")]
    return signed


def altered(method, path, query, headers):
    return query, shared_key(method, path + "x", query, headers)


def with_another_key(method, path, query, headers):
    return query, shared_key(method, path, query, headers, key=b"another key")


def with_nothing(method, path, query, headers):
    return query, headers


# Who asks: the account's key as often as all others.
RIGHT = {"the key": by_key, "a signature": by_signature(account_signature), "a share's": by_signature(share_signature),
         "a reader's": by_signature(account_signature, "rl"), "a token": by_token("file-contributor"), "a reader's token": by_token("file-reader")}
WRONG = {"nothing": with_nothing, "another key": with_another_key, "another path": altered,
         "an old signature": by_signature(account_signature, lasts=-HOUR), "another's signature": by_signature(account_signature, key=b"another key"),
         "no letters": by_signature(account_signature, ""), "another share's": by_signature(share_signature, share=OTHER)}
WAYS = (*RIGHT, *["the key"] * len(RIGHT))


def resolved(one):
    """What a part of the description says, or what it points to."""
    while "$ref" in one:
        one = functools.reduce(lambda part, name: part[name], one["$ref"].split("/")[1:], DESCRIPTION)
    return one


class Operation:
    """An operation of the description, and requests for it."""

    def __init__(self, found):
        raw, modes = found.definition.raw, schemathesis.GenerationMode
        self.name, self.place, self.method = raw["operationId"], raw["tags"][0], found.method.upper()
        self.answers = {int(status): resolved(answer) for status, answer in raw["responses"].items()}
        self.allowed, self.others = (found.as_strategy(generation_mode=mode) for mode in (modes.POSITIVE, modes.NEGATIVE))
        parameters = [resolved(one) for one in raw["parameters"]]
        self.fixed = {one["name"]: one["schema"]["enum"][0] for one in parameters if one["name"] in ("restype", "comp")}
        self.required = {one["name"] for one in parameters if one.get("required")}
        self.has_source = any(one["name"] == SOURCES[0] for one in parameters)
        # What was asked, how often each status was answered, and what was wrong with answers.
        self.asked, self.statuses, self.wrong = 0, collections.Counter(), {}

    def requests(self):
        """A strategy: whether the description allows what is asked, and what that is."""
        return strategies.one_of(*[strategies.tuples(strategies.just(True), self.allowed)] * 3, strategies.tuples(strategies.just(False), self.others))


class Request:
    """A request of the generator's, about things that others ask for, too."""

    def __init__(self, operation, case, is_allowed, chance):
        self.operation, self.is_allowed, self.chance = operation, is_allowed, chance
        kwargs = case.as_transport_kwargs(base_url="http://host")
        self.body = kwargs.get("data", b"")
        if "json" in kwargs:
            self.body = json.dumps(kwargs["json"])
        self.body = self.body.encode() if isinstance(self.body, str) else bytes(self.body or b"")
        self.query = [(name, str(value)) for name, values in (case.query or {}).items() for value in (values if isinstance(values, list) else [values])]
        self.headers = {name: sendable(str(value)) for name, value in (case.headers or {}).items() if re.fullmatch("[A-Za-z0-9-]+", name)}
        if case.media_type and self.body:
            self.headers["Content-Type"] = case.media_type
        self.path = self.chosen_path(case.path_parameters or {})
        self.meet()
        if is_allowed and self.rarely_not():
            self.thin()
            self.fit()
        self.is_itself = dict(self.query) | operation.fixed == dict(self.query) and (SOURCES[0] in self.headers) == operation.has_source

    def rarely_not(self):
        return self.chance.random() < 0.95

    def chosen_path(self, given):
        place = self.operation.place
        names = [ACCOUNT if self.rarely_not() else given.get("account", "")]
        if place != "service":
            shares = [share for share in SHARES if share != SHARE or self.operation.name not in DESTROYING]
            if place == "path":
                shares += [SHARE] * len(SHARES) * 2
            names.append(self.chance.choice(shares) if self.rarely_not() else given.get("share", ""))
        if place == "path":
            names.append(self.chosen_name() if self.rarely_not() else given.get("path", ""))
        return "/" + "/".join(urllib.parse.quote(str(name), safe="", errors="replace") for name in names)

    def chosen_name(self):
        """Mostly of a file where the operation is of files."""
        of_kind = DIRECTORIES if "Directory" in self.operation.name else FILES
        return self.chance.choice(of_kind if self.chance.random() < 0.8 else PATHS)

    def meet(self):
        """Takes what others take: leases, sources, permissions."""
        for name in self.headers:
            if name in CHOSEN and self.rarely_not():
                self.headers[name] = self.chance.choice(CHOSEN[name])
            elif name in SOURCES and self.rarely_not():
                source = f"/{ACCOUNT}/{SHARE}/{urllib.parse.quote(self.chosen_name())}"
                self.headers[name] = f"{URL.scheme}://{URL.netloc}{source}"

    def thin(self):
        """Leaves out most of what need not be there: some of it is refused here, and much of it together."""
        def stays(name):
            return name in self.operation.required or name == "include" or self.chance.random() < (0.02 if name in REFUSED else 0.3)
        self.query = [one for one in self.query if stays(one[0])]
        self.headers = {name: value for name, value in self.headers.items() if stays(name) or name == "Content-Type"}

    def fit(self):
        """Has what depends on each other fit."""
        self.fit_ranges()
        if "x-ms-lease-action" in self.headers:
            self.fit_lease()
        if self.operation.name == "UndeleteShare" and DELETED:
            self.headers["x-ms-deleted-share-name"], self.headers["x-ms-deleted-share-version"] = self.chance.choice(DELETED)
        if self.operation.name == "GetUserDelegationKey":
            self.body = re.sub(rb"20..-..-..T..:..:..Z", moment(HOUR).encode(), self.body.replace(b"<Start>", b"<Ignored>").replace(b"</Start>", b"</Ignored>"))
            self.body = re.sub(rb"<DelegatedUserTid>.*?</DelegatedUserTid>", b"", self.body)
        if "x-ms-content-length" in self.headers and self.rarely_not():
            self.headers["x-ms-content-length"] = str(max(len(self.body), self.chance.choice((0, 9, 4096, 100_000))))
        if "Content-MD5" in self.headers:
            self.headers["Content-MD5"] = base64.b64encode(hashlib.md5(self.body).digest()).decode()

    def fit_ranges(self):
        """Within files as they are here, mostly."""
        if self.operation.name in ("PutRange", "PutRangeFromUrl") and "x-ms-range" in self.headers:
            first, length = self.chance.choice((0, 0, 1, 3, 512)), self.chance.choice((1, 2, 5))
            if self.operation.name == "PutRange":
                self.body = b"" if self.headers.get("x-ms-write") == "clear" else self.body or b"x"
                length = len(self.body) or length
            self.headers["x-ms-range"] = f"bytes={first}-{first + length - 1}"
            if "x-ms-source-range" in self.headers:
                self.headers["x-ms-source-range"] = f"bytes=0-{length - 1}"

    def fit_lease(self):
        """What each action needs."""
        action = self.headers["x-ms-lease-action"]
        if action == "acquire":
            self.headers["x-ms-lease-duration"] = "-1" if self.operation.name == "LeaseFile" else self.chance.choice(("15", "-1"))
        elif action != "break":
            self.headers["x-ms-lease-id"] = self.chance.choice(LEASES)
            if action == "change":
                self.headers["x-ms-proposed-lease-id"] = self.chance.choice(LEASES)
        if action in ("acquire", "break"):
            self.headers.pop("x-ms-lease-id", None)

    def sent_by(self, client, sign):
        headers = list(self.headers.items())
        if sign in SIGNATURES:
            # Who has no key shows what may be copied.
            headers = [(name, f"{value}?{urllib.parse.urlencode(account_signature())}" if name in SOURCES else value) for name, value in headers]
        if self.body or self.operation.method in ("PUT", "POST"):
            headers.append(("Content-Length", str(len(self.body))))
        query, headers = sign(self.operation.method, self.path, self.query, headers)
        text = "&".join(f"{quoted(name)}={quoted(value)}" for name, value in query)
        return client.ask(self.operation.method, f"{self.path}{'?' if text else ''}{text}", headers, self.body)


def quoted(text):
    return urllib.parse.quote(text, safe="", errors="replace")


def sendable(text):
    """A header's value without what HTTP has in none; rest_hostile sends such."""
    return re.sub(r"[^\t -~\x80-\xff]", "?", text)


def look_at(request, is_right, answer):
    """What holds for every answer."""
    operation, status = request.operation, answer.status
    for name in ("x-ms-request-id", "x-ms-version", "date"):
        expect(answer.headers.get(name), f"no {name}: {answer}")
    if "x-ms-client-request-id" in request.headers:
        expect(answer.headers.get("x-ms-client-request-id") == request.headers["x-ms-client-request-id"].strip(), f"another id: {answer}")
    if not is_right:
        expect(status in (400, 401, 403), f"who has not proved to be allowed it has {status}: {answer}")
    expect(status < 500, f"the server says that it failed: {answer}")
    described = operation.answers.get(status) if request.is_itself else {}
    expect(described is not None, f"a status that the description does not have: {answer}")
    for name, header in described.get("headers", {}).items():
        expect(name.lower() in answer.headers or not resolved(header).get("required"), f"no {name}: {answer}")
    if status >= 400:
        look_at_refusal(operation, answer)
        return
    for kind, content in described.get("content", {}).items():
        if kind == "application/xml":
            root = ElementTree.fromstring(answer.body)
            wanted = resolved(content["schema"])
            expect(root.tag == wanted["xml"]["name"], f"another root: {answer}")
            expect(all(root.find(name) is not None for name in wanted.get("required", ())), f"a part is missing: {answer}")
        elif kind == "application/json":
            expect(set(json.loads(answer.body)) >= set(resolved(content["schema"])["required"]), f"a part is missing: {answer}")


def look_at_refusal(operation, answer):
    code = answer.headers.get("x-ms-error-code")
    codes = resolved(operation.answers.get(answer.status, {})).get("headers", {}).get("x-ms-error-code", {}).get("schema", {}).get("enum")
    expect(code and (codes is None or code in codes), f"a code that the description does not have: {answer}")
    if operation.method == "HEAD":
        return
    error = ElementTree.fromstring(answer.body)
    expect(error.tag == "Error" and error.findtext("Code") == code and error.findtext("Message"), f"no such error: {answer}")


def ask(client, operation, chosen):
    """Sends one request, in one of the ways that are right or wrong, and keeps what was wrong with its answer."""
    is_allowed, case = chosen
    chance = random.Random(f"{SEED} {operation.name} {operation.asked}")
    request = Request(operation, case, is_allowed, chance)
    is_right = chance.random() < 0.85
    way = chance.choice(WAYS if is_right else list(WRONG))
    if is_right and operation.name == "GetUserDelegationKey" and chance.random() < 0.5:
        way = "a token"
    operation.asked += 1
    try:
        sign = RIGHT[way] if is_right else WRONG[way]
        answer = request.sent_by(client, sign)
        for _ in range(BUSY_MAX):
            if answer.status != 503:
                break
            # A share that was changed a moment ago is reached anew: who asks is told when to come again, and then it is done.
            expect(answer.headers.get("retry-after", "").isdigit(), f"no Retry-After: {answer}")
            time.sleep(int(answer.headers["retry-after"]))
            answer = request.sent_by(client, sign)
        operation.statuses[answer.status, answer.headers.get("x-ms-error-code", "")] += 1
        learn(answer)
        if operation.name == "LeaseFile" and answer.status < 300:
            LEASED[request.path] = [one for one in request.headers.items() if one[0] == "x-ms-allow-trailing-dot"]
        look_at(request, is_right, answer)
    except (Failure, ElementTree.ParseError, ValueError) as error:
        reason = str(error) if isinstance(error, Failure) else f"{type(error).__name__} {error}: {answer}"
        kind = reason.partition(":")[0], getattr(locals().get("answer"), "status", None)
        operation.wrong.setdefault(kind, f"with {way}: {reason}")


def learn(answer):
    """Keys of permissions are known to who has made some, and deleted shares to who lists them."""
    DELETED.extend(re.findall(r"<Name>([a-z]+)</Name><Deleted>true</Deleted><Version>(.*?)</Version>", answer.body.decode("latin-1")))
    del DELETED[:-4]
    key = answer.headers.get("x-ms-file-permission-key")
    if key and key not in KEYS and len(KEYS) < 20:
        KEYS.append(key)


SIGNATURES = {way for name, way in RIGHT.items() if name in ("a signature", "a share's", "a reader's")}


def go_round(client, operations, seed):
    for operation in operations:
        @hypothesis.seed(seed)
        @hypothesis.settings(max_examples=EXAMPLES, deadline=None, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
        @hypothesis.given(operation.requests())
        def each(chosen):
            ask(client, operation, chosen)

        each()
        path = f"/{ACCOUNT}/{OTHER}/kept"
        answer = client.ask("GET", path, shared_key("GET", path, [], []), b"")
        expect(answer.status == 200 and answer.body == KEPT, f"what nobody asks for: {answer}")


def give_up_leases(client):
    """Breaks those that are left: each is a handle."""
    for path, more in LEASED.items():
        headers = [("x-ms-lease-action", "break"), *more, ("Content-Length", "0")]
        answer = client.ask("PUT", f"{path}?comp=lease", shared_key("PUT", path, [("comp", "lease")], headers), b"")
        # The lease may be over, or the file gone.
        expect(answer.status in (202, 404, 409), answer)


def main():
    began, rounds = time.monotonic(), 0
    found = schemathesis.openapi.from_dict(DESCRIPTION)
    # What deletes comes last.
    operations = sorted((Operation(one.ok()) for one in found.get_all_operations()), key=lambda one: one.name.startswith("Delete"))
    client = Client()
    with lines.check("requests that are made of the description are answered, and what nobody asks for stays"):
        while rounds < ROUNDS or time.monotonic() - began < SECONDS:
            go_round(client, operations, SEED + rounds)
            rounds += 1
    with lines.check("leases are given up"):
        give_up_leases(client)
    for operation in operations:
        with lines.check(f"{operation.name}: its answers are those of the description"):
            expect(not operation.wrong, " | ".join(operation.wrong.values()))
    with lines.check("most operations were done, and not only refused"):
        meant = [operation for operation in operations if any(status < 300 for status in operation.answers)]
        never = [operation.name for operation in meant if not any(status < 300 for status, _ in operation.statuses)]
        expect(len(never) * 5 < len(meant), never)
    for operation in operations:
        print(operation.name, *(f"{status}{code and ' '}{code}: {count}" for (status, code), count in operation.statuses.most_common()), sep=", ")
    print(f"{sum(operation.asked for operation in operations)} requests in {rounds} rounds, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

"""The page in a real Chromium, of a server with a load: all views in the light and in the dark, on a phone and on a desk; by the keyboard alone; what axe
finds; and what strangers and other pages are told. `--page-pictures FOLDER` keeps pictures of what was seen."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request
import zipfile

from conformance import multilane, packages
from conformance.relay import Cutter
from conformance.report import Failure, Skip, expect, until
from conformance.server import HOST, Wanted, free_port, serving
from conformance.webdriver import ENTER, ESCAPE, TAB, chromium

NAME = "page"
# The wheel that has axe-core.
AXE, AXE_FILE = "axe-playwright-python==0.1.8", "axe_playwright_python/axe.min.js"
PASSWORD, OTHER_PASSWORD = "correct horse battery", "staple battery horse"
# A name that would be markup where somebody took it for that, and a comment that is one.
MARKUP, COMMENT = "&ltimg&gt 'x' & $co", "<img src=x onerror=\"window.hurt=1\"><script>window.hurt=1</script>"
# A comment that a browser would turn around.
LED, LED_SHOWN = "a\u202eb", "a\\u{202e}b"
SIZES = ((1280, 800, "light"), (1280, 800, "dark"), (360, 740, "light"), (360, 740, "dark"), (800, 700, "light"), (1190, 700, "light"))
# axe looks at each width once, and at each scheme.
LOOKED_AT = (SIZES[0], SIZES[3])
LOAD_SECONDS = 120
EVENT_SECONDS = 20


class Shown(multilane.Multilane):
    """Our server, which has a page."""

    def __init__(self, wanted):
        super().__init__(wanted)
        self.page_port = free_port()
        self.site = f"http://127.0.0.1:{self.page_port}"

    def prepare(self):
        super().prepare()
        self._run("share", "create", "fast", "--ram", "2G", "--provisioned", "100", "--user-iops-max", "1000000", "--audit", "write", "--comment", LED)
        self._run("share", "create", MARKUP, "--ram", "16M", "--comment", COMMENT)

    def command(self):
        return [*super().command(), "--page", str(self.page_port), "--log-format", "json"]

    def operator(self, *words, password=None):
        self._run("operator", *words, *(["--password-stdin"] if password else []), text=f"{password}\n" if password else "")

    def logged(self, event):
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]


class Client:
    """A program that asks the page as a browser would, or not quite."""

    def __init__(self, server):
        self.server, self.cookie, self.secret = server, None, None

    def ask(self, path, body=None, **headers):
        """The status, what is said, and the headers. A body makes it a POST of the page's own."""
        given = {"Host": f"127.0.0.1:{self.server.page_port}"}
        if self.cookie:
            given["Cookie"] = self.cookie
        if self.secret:
            given["X-Page-Secret"] = self.secret
        if body is not None:
            given |= {"Content-Type": "application/json", "Origin": self.server.site}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        given = {name: value for name, value in given.items() if value is not None}
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{HOST}:{self.server.page_port}{path}", data, given)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def sign_in(self, name, password):
        status, said, headers = self.ask("/api/sign-in", {"name": name, "password": password})
        if status == 200:
            self.cookie, self.secret = headers["Set-Cookie"].split(";")[0], json.loads(said)["secret"]
        return status, said, headers


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers have no page")
    packages.need("chromium", "chromedriver")
    pictures = pathlib.Path(options.page_pictures) if options.page_pictures else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    axe = axe_script()
    with serving(Shown, Wanted(shares=("files",), channels=4)) as server:
        with chromium() as browser:
            strangers(report, server)
            operators(report, server)
            port_taken(report, server)
            with Cutter(server, 1) as relay, loaded(server, relay):
                by_keyboard(report, server, browser, axe, pictures)
                channel_lost(report, server, browser, relay)
                views(report, server, browser, axe, pictures)
                texts(report, browser)
                steered(report, server, browser)
            ended(report, server, browser)
        report.server_is_well(NAME, server)


# What programs are told, that are no browser with the page.

def strangers(report, server):
    client = Client(server)
    with report.check(NAME, "without an operator nobody is let in, and told how to make one"):
        status, said, _ = client.ask("/api/session")
        expect(status == 403 and "operator create" in said, f"{status} {said}")
        status, said, _ = client.sign_in("ann", PASSWORD)
        expect(status == 403 and "operator create" in said, f"{status} {said}")
    server.operator("create", "ann", password=PASSWORD)
    server.operator("create", "bob", password=OTHER_PASSWORD)
    with report.check(NAME, "who has not signed in sees the form's files and nothing else"):
        status, said, headers = client.ask("/")
        expect(status == 200 and "default-src 'none'" in headers["Content-Security-Policy"], headers)
        expect("files" not in said.split("<body>")[1], said)
        for path in ("/api/session", "/api/read/overview", "/api/read/shares", "/api/read/sessions", "/api/read/opens", "/api/why", "/api/metrics"):
            status, said, headers = client.ask(path)
            expect(status == 401 and headers["Cache-Control"] == "no-store", f"{path}: {status} {said}")
        expect(client.ask("/api/operation", {"do": "close-session", "id": "1"})[0] == 401, "it was done")
    with report.check(NAME, "another host, another origin, no secret, another's secret, a form and a GET change nothing"):
        expect(client.sign_in("ann", PASSWORD)[0] == 200, "ann is not let in")
        other = Client(server)
        expect(other.sign_in("bob", OTHER_PASSWORD)[0] == 200, "bob is not let in")
        body = {"do": "switch-multichannel", "account": server.keeper, "on": False}
        refused = {
            "another host": (403, {"Host": "example.org"}), "another origin": (403, {"Origin": "http://example.org"}),
            "another port": (403, {"Origin": "http://127.0.0.1:1"}), "no origin": (403, {"Origin": None}),
            "another site": (403, {"Sec_Fetch_Site": "cross-site"}), "another site of this machine": (403, {"Sec_Fetch_Site": "same-site"}),
            "no secret": (401, {"X_Page_Secret": None}), "another's secret": (401, {"X_Page_Secret": other.secret}),
            "no cookie": (401, {"Cookie": None}), "a form": (415, {"Content_Type": "application/x-www-form-urlencoded"}),
        }
        for what, (wanted, headers) in refused.items():
            status, said, _ = client.ask("/api/operation", body, **headers)
            expect(status == wanted, f"{what}: {status} {said}")
        expect(client.ask("/api/operation")[0] == 405, "a GET")
        expect(client.ask("/api/operation", b"x" * (17 << 10))[0] == 413, "a long body")
        expect(client.ask("/api/operation", {"do": "end"})[0] == 400, "no such operation")
        expect(multichannel(server), "it was switched off")
        expect(client.ask("/api/operation", dict(body, on=True))[0] == 200, "what is right is not done")


def operators(report, server):
    with report.check(NAME, "a wrong password is refused, and many of them wait; the other operator is let in"):
        codes = [Client(server).sign_in("ann", "wrong")[0] for _ in range(4)]
        expect(codes == [401, 401, 401, 429], codes)
        status, said, headers = Client(server).sign_in("ann", PASSWORD)
        expect(status == 429 and int(headers["Retry-After"]) >= 1, f"{status} {said}")
        expect(Client(server).sign_in("bob", OTHER_PASSWORD)[0] == 200, "bob is not let in")
        time.sleep(int(headers["Retry-After"]))
    with report.check(NAME, "another password, a deletion and signing out end sessions"):
        ann, bob, out = Client(server), Client(server), Client(server)
        expect(ann.sign_in("ann", PASSWORD)[0] == bob.sign_in("bob", OTHER_PASSWORD)[0] == out.sign_in("ANN", PASSWORD)[0] == 200, "not let in")
        expect(out.ask("/api/sign-out", {})[0] == 200 and out.ask("/api/session")[0] == 401, "it has not signed out")
        server.operator("passwd", "ann", password=PASSWORD)
        expect(ann.ask("/api/session")[0] == 401, "the password is another one")
        expect(bob.ask("/api/session")[0] == 200, "bob has nothing to do with that")
        server.operator("delete", "bob")
        expect(bob.ask("/api/session")[0] == 401, "bob is deleted")
    with report.check(NAME, "names that are no operator's are not logged, and a wait is told of once"):
        for name in ("a password in the wrong field", "ann"):
            Client(server).sign_in(name, "wrong")
        until(lambda: server.logged("operator_sign_in_refused")[-1]["operator"] == "ann", "ann's is not logged", EVENT_SECONDS)
        expect({line["operator"] for line in server.logged("operator_sign_in_refused")} == {"ann", ""}, "other names are logged")
        expect("wrong field" not in server.log.read_text(), "what was typed is logged")
        lines = server.logged("operator_sign_in_throttled")
        expect([line["attempts"] for line in lines] == [1], lines)
    with report.check(NAME, "no password stands in the log"):
        text = server.log.read_text()
        expect(PASSWORD not in text and OTHER_PASSWORD not in text and '"wrong"' not in text, text)


def port_taken(report, server):
    with report.check(NAME, "a taken port and an address of others end the start with a sentence"):
        for place, code, words in ((str(server.page_port), 1, "choose another port with --page"), ("0.0.0.0:9446", 2, "SSH tunnel")):
            argv = [str(server.program), "serve", "--data", str(server.folder / "second"), "--listen", f"{HOST}:{free_port()}", "--page", place]
            result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
            expect(result.returncode == code and words in result.stderr, f"{place}: {result.returncode} {result.stderr}")
        expect(Client(server).ask("/")[0] == 200, "the page of the first is gone")


# The load.

@contextlib.contextmanager
def loaded(server, relay):
    """Reads and writes over four channels, of which the relay can cut one; and a second client, whose session is to be closed."""
    at = f"smb://{server.user}@{HOST}"
    options = ["-c16M", "-b64K", "-r", "-t1", "-o4", "-w30", f"-d{LOAD_SECONDS}", "-W0"]
    argv = [["diskspd", "--channels", "4", *options, f"{at}:{relay.port}/fast/many"],
            ["diskspd", "--channels", "1", *options, f"{at}:{server.port}/files/one"]]
    environment = dict(os.environ, MULTILANE_PASSWORD=server.password)
    processes = [subprocess.Popen([str(server.program), *words], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for words in argv]
    try:
        until(lambda: sorted(len(session["channels"]) for session in server.session_views())[-1:] == [4] and server.sessions() == 2, "the load does not begin", EVENT_SECONDS)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def sessions_of(server):
    """The session with several channels, and the one with one."""
    views = sorted(server.session_views(), key=lambda session: len(session["channels"]))
    return views[-1]["id"], views[0]["id"]


# In the browser.

def by_keyboard(report, server, browser, axe, pictures):
    with report.check(NAME, "an operator signs in by the keyboard alone; a wrong password is told"):
        browser.open(server.site)
        browser.until("return document.activeElement.id === 'name'", "the form has the focus")
        look(browser, axe, "sign-in", pictures, LOOKED_AT)
        browser.screen(*SIZES[0])
        browser.keys("ann", TAB, "wrong password", ENTER)
        browser.until("return document.querySelector('[role=alert]:not([hidden])')?.textContent.includes('wrong')", "it is refused")
        browser.keys(PASSWORD, ENTER)
        browser.until("return document.querySelector('h1').textContent === 'Overview'", "the overview is there")
        browser.until("return document.activeElement.tagName === 'H1'", "the heading has the focus")
        expect(browser.run("return document.cookie") == "", "scripts can read the cookie")
    with report.check(NAME, "a page that is loaded anew stays signed in, another tab and the cookie alone are nobody"):
        browser.open("about:blank")
        browser.open(server.site)
        browser.until("return document.querySelector('h1')?.textContent === 'Overview'", "it stays signed in")
        status = browser.run_async("const done = arguments[0]; fetch('/api/session').then((answer) => done(answer.status), (error) => done(String(error)))")
        expect(status == 401, f"the cookie alone: {status}")
    with report.check(NAME, "an operator closes a session by the keyboard alone, and is asked before"):
        _, session = sessions_of(server)
        browser.open(f"{server.site}/#/sessions")
        tab_to(browser, f"a[href='#/session/{session}']")
        time.sleep(2.5)
        expect(browser.run("return document.activeElement.getAttribute('href')") == f"#/session/{session}", "the focus was lost when the list came anew")
        browser.keys(ENTER)
        browser.until("return document.querySelector('h1').textContent.startsWith('Session ')", "the session is shown")
        tab_to(browser, "button.danger")
        browser.keys(ENTER)
        browser.until("return document.activeElement.textContent === 'Cancel'", "it is asked, and nothing is the first choice")
        browser.keys(ESCAPE)
        browser.until("return !document.querySelector('dialog') && document.activeElement.textContent === 'Close session'", "the focus is back")
        expect(session in [one["id"] for one in server.session_views()], "it was closed without a yes")
        browser.keys(ENTER)
        browser.until("return document.querySelector('dialog')", "it is asked")
        look(browser, axe, "question", pictures, LOOKED_AT)
        browser.keys(TAB, ENTER)
        browser.until("return document.querySelector('.result.good')?.textContent.includes('is closed')", "it is closed")
        until(lambda: any(line["operator"] == "ann" and line["session"] == session for line in server.logged("session_closed")), "it is not in the log", EVENT_SECONDS)


def tab_to(browser, selector):
    """Presses TAB until something has the focus."""
    browser.until("return document.querySelector(arguments[0])", f"{selector} is there", selector)
    for _ in range(60):
        if browser.run("return document.activeElement?.matches(arguments[0])", selector):
            return
        browser.keys(TAB)
    raise Failure(f"TAB does not lead to {selector}")


def channel_lost(report, server, browser, relay):
    with report.check(NAME, "a channel that is cut is drawn dead, and said to be lost"):
        session, _ = sessions_of(server)
        browser.open(f"{server.site}/#/session/{session}")
        browser.until("return document.querySelectorAll('line.lane.alive').length === 4", "four lanes are drawn")
        relay.cut_one()
        browser.until("return document.querySelectorAll('line.lane.dead').length >= 1", "a lane is dead")
        colour, words = browser.run("const lane = document.querySelector('line.lane.dead');"
                                    "return [getComputedStyle(lane).stroke, document.querySelector('table').innerText]")
        red, green, blue = [int(part) for part in colour[4:-1].split(",")]
        expect(red > 1.5 * max(green, blue), colour)
        expect("lost at" in words, words)


def views(report, server, browser, axe, pictures):
    session, _ = sessions_of(server)
    places = ("overview", "shares", "share/fast", f"share/{urllib.request.quote(MARKUP, safe='')}", "sessions", f"session/{session}", "files",
              "metrics", "events", "accounts")
    browser.complaints()
    for place in places:
        name = "share-markup" if "%" in place else place.replace(f"/{session}", "").replace("/", "-")
        with report.check(NAME, f"{name}: no error, nothing beside a phone's screen, nothing serious to axe"):
            browser.screen(*SIZES[0])
            browser.open(f"{server.site}/#/{place}")
            browser.until("return document.querySelector('h1') && document.querySelectorAll('td, .facts dd:not(:empty)').length > 0", f"{place} is shown")
            look(browser, axe, name, pictures)
            said = browser.complaints()
            expect(not said, said)
            expect(browser.run("return document.querySelectorAll('h1').length") == 1, "one heading")


def look(browser, axe, name, pictures, sizes=SIZES):
    """What is shown fits, and axe finds nothing serious."""
    for width, height, scheme in sizes:
        browser.screen(width, height, scheme)
        browser.run_async("requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0], 50)))")
        wide = browser.run("return document.documentElement.scrollWidth")
        expect(wide <= width, f"{name} is {wide} wide of {width}")
        if pictures:
            (pictures / f"{name}-{width}-{scheme}.png").write_bytes(browser.picture())
        if (width, height, scheme) in LOOKED_AT:
            serious(browser, axe, f"{name} {width} {scheme}")


def serious(browser, axe, where):
    if not browser.run("return Boolean(window.axe)"):
        browser.run(axe)
    found = browser.run_async("const done = arguments[arguments.length - 1];"
                              "axe.run(document, {resultTypes: ['violations']}).then((all) => done(all.violations), (error) => done([{impact: 'critical', id: String(error)}]))")
    bad = [(one["id"], one["impact"], [node["html"][:200] for node in one.get("nodes", [])][:3]) for one in found if one["impact"] in ("serious", "critical")]
    expect(not bad, f"{where}: {bad}")


def axe_script():
    folder = packages.cache("axe") / AXE
    if not folder.exists():
        python = packages.sys.executable
        subprocess.run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", str(folder), AXE], check=True)
    wheel, = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).read(AXE_FILE).decode()


def texts(report, browser):
    with report.check(NAME, "names and comments with markup stay texts"):
        browser.run("location.hash = '#/share/' + encodeURIComponent(arguments[0])", MARKUP)
        browser.until("return document.querySelector('h1').textContent === arguments[0]", "the name is its text", f"Share {MARKUP}")
        browser.until("return [...document.querySelectorAll('dd')].some((one) => one.textContent === arguments[0])", "the comment is its text", COMMENT)
        browser.run("location.hash = '#/share/fast'")
        browser.until("return [...document.querySelectorAll('dd')].some((one) => one.textContent === arguments[0])", "what is not seen is written out", LED_SHOWN)
        made = browser.run("return document.querySelectorAll('img, main script').length")
        expect(made == 0 and not browser.run("return window.hurt"), f"{made} elements came of texts")


def steered(report, server, browser):
    with report.check(NAME, "a share's limit is changed on the page, after a question"):
        browser.screen(*SIZES[0])
        browser.open(f"{server.site}/#/share/files")
        browser.until("return document.querySelector('#iops_max') && document.querySelector('dd:not(:empty)')", "the form is there")
        browser.click("#iops_max")
        browser.keys("1234", ENTER)
        browser.until("return document.querySelector('dialog')?.textContent.includes('IOPS of the share: 1,234')", "it is asked")
        browser.click("[data-confirm]")
        browser.until("return document.querySelector('.result.good')", "it is done")
        limits = json.loads(server._run("share", "show", "files", "--json"))["limits"]
        expect(limits["iops_max"] == 1234 and limits["mibps_max"] is None, limits)
        line = server.logged("limits_changed")[-1]
        expect(line["operator"] == "ann" and line["share"] == "files" and (line["from"], line["to"]) == ("iops_max=none", "iops_max=1234"), line)
    with report.check(NAME, "what the server refuses is told in its words"):
        browser.run("const field = document.querySelector('#iops_max'); field.value = '5';")
        browser.click("form.limits button")
        browser.click("[data-confirm]")
        browser.until("return document.querySelector('.result.bad')?.textContent.includes('IOPS of the share cannot be 5. Use 10 to 10000000')", "it says why")
    with report.check(NAME, "a field follows what others change, unless somebody has typed there; a question goes with its view"):
        server._run("share", "update", "files", "--user-iops-max", "500", "--iops-max", "2000")
        browser.until("return document.querySelector('#user_iops_max').value === '500'", "the field says what is so")
        expect(browser.run("return document.querySelector('#iops_max').value") == "5", "what was typed is gone")
        browser.click("form.limits button")
        browser.until("return document.querySelector('dialog')?.textContent.includes('Until now: IOPS of the share: 2,000')", "it is asked")
        browser.run("location.hash = '#/shares'")
        browser.until("return !document.querySelector('dialog')", "the question is gone")
    with report.check(NAME, "multichannel is switched on the page, after a question"):
        browser.open(f"{server.site}/#/accounts")
        browser.until("return document.querySelector('td button')", "the account is there")
        browser.click("td button")
        browser.click("[data-confirm]")
        browser.until("return document.querySelector('td button').textContent === 'Switch on'", "it is off")
        expect(not multichannel(server), "the catalog says that it is on")
        until(lambda: max(len(session["channels"]) for session in server.session_views()) == 1, "sessions keep their channels", EVENT_SECONDS)


def ended(report, server, browser):
    with report.check(NAME, "an operator who is deleted is signed out, and a page says that there is none"):
        server.operator("delete", "ann")
        browser.until("return document.querySelector('h1').textContent === 'Sign in to Multilane'", "the form is there")
        browser.until("return document.body.textContent.includes('multilane operator create')", "it says how to make one")
        browser.run("window.kept = window.fetch; window.fetch = () => Promise.reject(new TypeError())")
        browser.until("return document.querySelector('#trouble:not([hidden])')?.textContent.includes('does not answer')", "it says that the server does not answer")
        browser.run("window.fetch = window.kept")
        browser.until("return document.querySelector('#trouble').hidden", "it says so still")
        server.operator("create", "ann", password=PASSWORD)
        browser.until("return document.querySelector('#password')", "the form is there once there is one")


def multichannel(server):
    account = json.loads(server._run("account", "show", server.keeper, "--json"))
    return account["multichannel"] == "on"

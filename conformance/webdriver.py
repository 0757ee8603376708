"""A real Chromium without a window, driven through chromedriver by W3C WebDriver over HTTP."""

import base64
import contextlib
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from conformance import packages
from conformance.report import Failure
from conformance.server import HOST, free_port

CHROMIUM = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--hide-scrollbars")
START_SECONDS, ANSWER_SECONDS, SEEN_SECONDS = 30, 60, 30
TAB, ENTER, ESCAPE = "\ue004", "\ue007", "\ue00c"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window. What it is asked to find is waited for."""

    def __init__(self, base, session):
        self.base, self.session = base, f"/session/{session}"

    def ask(self, method, path, body=None):
        return asked(self.base, method, self.session + path, body)

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What a script returns; an asynchronous one calls its last argument."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": arguments})

    def run_async(self, script, *arguments):
        return self.ask("POST", "/execute/async", {"script": script, "args": arguments})

    def keys(self, *keys):
        """Presses keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in "".join(keys) for kind in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector):
        found = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        self.ask("POST", f"/element/{found[ELEMENT]}/click", {})

    def screen(self, width, height, scheme):
        """Has the page be so wide and high, in the light or in the dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme},
                                                              {"name": "prefers-reduced-motion", "value": "reduce"}])

    def devtools(self, command, **parameters):
        return self.ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self):
        """All of the page, as a PNG."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def until(self, script, what, *arguments):
        """Waits until a script returns something that is true; gives that."""
        deadline = time.monotonic() + SEEN_SECONDS
        while True:
            if found := self.run(script, *arguments):
                return found
            if time.monotonic() > deadline:
                text = self.run("return document.body.innerText")
                raise Failure(f"{what}: not after {SEEN_SECONDS} s; the page says:\n{text[:3000]}")
            time.sleep(0.1)

    def complaints(self):
        """What the console has of errors and of what the policy refused."""
        entries = self.ask("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]


def asked(base, method, path, body=None):
    data = None if body is None and method == "GET" else json.dumps(body or {}).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise Failure(f"{path}: {error.read().decode(errors='replace')[:2000]}") from None


@contextlib.contextmanager
def chromium():
    """A browser that nobody has used before."""
    packages.need("chromium", "chromedriver")
    with tempfile.TemporaryDirectory(prefix="conformance-chromium-", ignore_cleanup_errors=True) as folder:
        port = free_port()
        driver = subprocess.Popen([packages.find("chromedriver"), f"--port={port}"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        base, session = f"http://{HOST}:{port}", None
        try:
            wait_for(base, driver)
            options = {"args": [*CHROMIUM, f"--user-data-dir={folder}"], "binary": packages.find("chromium")}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = asked(base, "POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
            yield Browser(base, session)
        finally:
            if session:
                with contextlib.suppress(Failure, OSError):
                    asked(base, "DELETE", f"/session/{session}")
            driver.terminate()
            driver.wait()


def wait_for(base, driver):
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError, Failure):
            if asked(base, "GET", "/status")["ready"]:
                return
        if driver.poll() is not None or time.monotonic() > deadline:
            raise Failure("chromedriver did not start")
        time.sleep(0.1)

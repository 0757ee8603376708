"""A real Prometheus scrapes the server: what a known load did is what it has, rules and names are as its own tools want them, and every expression of
the dashboard has an answer."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

from conformance import multilane, packages
from conformance.report import Failure, Skip, expect
from conformance.server import HOST, Wanted, free_port, serving

NAME = "prometheus"
DASHBOARDS = packages.ROOT / "dashboards"
RULES = DASHBOARDS / "alerts.yml"
# How long Prometheus may take to start, to have a sample, and to end.
START_SECONDS, SAMPLES_SECONDS, END_SECONDS = 60, 60, 20
SCRAPED_EVERY = "1s"
# The load: files of so many bytes, each written once and read twice.
FILES, FILE_BYTES = 7, 3 << 20
# The programs that it takes, each of which signs in: a copy at a time, and a listing.
CLIENTS = 3 * FILES + 1
# What Grafana puts in the place of its variables.
VARIABLES = {"$__rate_interval": "1m", "$instance": ".*", "$share": ".*"}


class Told(multilane.Multilane):
    """Our server, which tells metrics."""

    def __init__(self, wanted):
        super().__init__(wanted)
        self.metrics_port, self.rest_port = free_port(), free_port()

    def command(self):
        return [*super().command(), "--metrics", str(self.metrics_port), "--rest", f"{HOST}:{self.rest_port}"]

    def ask_by_rest(self):
        """Asks for a file, and proves nothing."""
        try:
            urllib.request.urlopen(f"http://{HOST}:{self.rest_port}/{self.keeper}/{self.share}/file0", timeout=30)
        except urllib.error.HTTPError as refused:
            refused.close()

    def text(self, accept):
        url = f"http://{HOST}:{self.metrics_port}/metrics"
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=30) as answer:
            return answer.read().decode()

    def limit_share(self):
        """Has metrics of provisioned shares, too."""
        self._run("share", "create", "provisioned", "--ram", "64M", "--provisioned", "100")


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers tell no metrics")
    packages.need("prometheus", "promtool")
    rules(report)
    with serving(Told, Wanted()) as server:
        server.limit_share()
        before = server.text("text/plain")
        load(server)
        lint(report, server)
        with prometheus(server) as asked:
            samples(report, server, asked, before)
            dashboard(report, asked)
            alerts(report, asked)
            goes_on(report, server, asked)
        report.server_is_well(NAME, server)


# What needs no Prometheus that runs.

def rules(report):
    with report.check(NAME, "promtool finds nothing wrong with the rules"):
        promtool(["check", "rules", str(RULES)])
    with report.check(NAME, "alerts fire while there is trouble, not for a few requests, and end with it"):
        promtool(["test", "rules", str(DASHBOARDS / "alerts_test.yml")])


def lint(report, server):
    with report.check(NAME, "promtool finds nothing wrong with names, types and help"):
        promtool(["check", "metrics"], server.text("text/plain"))


def promtool(words, text=""):
    result = subprocess.run([packages.find("promtool"), *words], input=text, capture_output=True, text=True, timeout=60)
    said = result.stdout + result.stderr
    expect(result.returncode == 0, f"promtool {' '.join(words)}: exit {result.returncode}\n{said}")
    # It warns with exit code 0, too.
    expect(words[1] != "metrics" or not said.strip(), said)


# The load.

def load(server):
    with tempfile.TemporaryDirectory(prefix="conformance-prometheus-") as folder:
        local = pathlib.Path(folder)
        for number in range(FILES):
            (local / f"file{number}").write_bytes(bytes([number]) * FILE_BYTES)
            client(server, "cp", str(local / f"file{number}"), at(server, f"file{number}"))
            for again in range(2):
                client(server, "cp", at(server, f"file{number}"), str(local / f"back{number}-{again}"))
    client(server, "ls", f"smb://{server.user}@{server.host}:{server.port}/provisioned")
    server.ask_by_rest()


def client(server, *words):
    environment = dict(os.environ, MULTILANE_PASSWORD=server.password)
    result = subprocess.run([str(multilane.binary()), *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    expect(result.returncode == 0, f"{' '.join(words)}: {result.stderr}")


def at(server, name):
    return f"smb://{server.user}@{server.host}:{server.port}/{server.share}/{name}"


# Prometheus.

class Asked:
    """A Prometheus that runs."""

    def __init__(self, port):
        self.base = f"http://{HOST}:{port}"

    def get(self, path, **words):
        url = f"{self.base}{path}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Failure(f"{words or path}: {error.read().decode(errors='replace')}") from None

    def query(self, expression):
        """What an expression comes to now: labels and value of each series."""
        result = self.get("/api/v1/query", query=expression)["data"]["result"]
        return [(series["metric"], float(series["value"][1])) for series in result]

    def value(self, expression):
        found = self.query(expression)
        expect(len(found) == 1, f"{expression}: {found}")
        return found[0][1]

    def target(self):
        targets = self.get("/api/v1/targets")["data"]["activeTargets"]
        return targets[0] if targets else {}

    def wait_for(self, is_so, what):
        deadline = time.monotonic() + SAMPLES_SECONDS
        while not is_so():
            expect(time.monotonic() < deadline, f"{what}: not after {SAMPLES_SECONDS} s: {self.target()}")
            time.sleep(0.2)

    def wait_for_scrape(self):
        """Waits for two scrapes that begin from now on."""
        began = time.time()
        for _ in range(2):
            self.wait_for(lambda: self.scraped_at() > began, "a scrape")
            began = self.scraped_at()

    def scraped_at(self):
        found = self.query('timestamp(up{job="multilane"})')
        return found[0][1] if found else 0


@contextlib.contextmanager
def prometheus(server):
    """Scrapes the server with the rules, and ends behind the body."""
    with tempfile.TemporaryDirectory(prefix="conformance-prometheus-") as folder:
        port, configuration = free_port(), pathlib.Path(folder) / "prometheus.yml"
        configuration.write_text(json.dumps({
            "global": {"scrape_interval": SCRAPED_EVERY, "evaluation_interval": SCRAPED_EVERY},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "multilane", "static_configs": [{"targets": [f"localhost:{server.metrics_port}"]}]}],
        }))
        log = open(pathlib.Path(folder) / "log", "w+", encoding="utf-8")
        process = subprocess.Popen([packages.find("prometheus"), f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address={HOST}:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            asked = Asked(port)
            deadline = time.monotonic() + START_SECONDS
            while not is_ready(asked):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise Failure(f"Prometheus did not start\n{log.read()[-4000:]}")
                time.sleep(0.2)
            yield asked
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            log.close()


def is_ready(asked):
    with contextlib.suppress(OSError):
        with urllib.request.urlopen(f"{asked.base}/-/ready", timeout=5) as answer:
            return answer.status == 200
    return False


# What it has.

def samples(report, server, asked, before):
    with report.check(NAME, "Prometheus scrapes the server as OpenMetrics, and has its samples"):
        asked.wait_for(lambda: asked.target().get("health") == "up", "the target is up")
        asked.wait_for_scrape()
        expect(asked.target()["lastError"] == "", asked.target()["lastError"])
        expect(asked.value("scrape_samples_scraped") == samples_in(server.text("application/openmetrics-text")), "samples are missing")
    share = f'share="{server.share}"'
    with report.check(NAME, "what the load wrote and read is what Prometheus has, to the byte"):
        expect(sum(in_text(before, "multilane_written_bytes_total")) == 0, "somebody wrote before")
        expect(asked.value(f"multilane_written_bytes_total{{{share}}}") == FILES * FILE_BYTES, asked.query("multilane_written_bytes_total"))
        expect(asked.value(f"multilane_read_bytes_total{{{share}}}") == 2 * FILES * FILE_BYTES, asked.query("multilane_read_bytes_total"))
    with report.check(NAME, "every request is there once, by API and by duration, and each sign-in with its three requests"):
        total = asked.value("sum(multilane_requests_total)")
        expect(total == asked.value("sum(multilane_request_duration_seconds_count)"), f"{total} requests")
        expect(total == asked.value('sum(multilane_request_duration_seconds_bucket{le="+Inf"})'), f"{total} requests")
        signed_in = asked.value("sum(multilane_sign_ins_total)")
        expect(signed_in == CLIENTS, f"{signed_in} sign-ins")
        for api, each in (("Negotiate", 1), ("SessionSetup", 2)):
            found = asked.value(f'sum(multilane_requests_total{{api="{api}",response="Success"}})')
            known = sum(in_text(before, f'multilane_requests_total{{share="",api="{api}"'))
            expect(found == known + each * CLIENTS, f"{api}: {found}, of which {known} were there before")
    with report.check(NAME, "gauges of shares are what the catalog says"):
        for metric, value in (("provisioned_bytes", 100 << 30), ("limit_iops", 3_100), ("limit_burst_iops", 10_000), ("limit_bytes_per_second", 110 << 20)):
            found = asked.value(f'multilane_share_{metric}{{share="provisioned"}}')
            expect(found == value, f"{metric}: {found}")
        expect(asked.value('multilane_share_burst_credits{share="provisioned"}')
               == asked.value('multilane_share_burst_credits_max{share="provisioned"}'), "it has done little")
        expect(asked.value('multilane_share_capacity_bytes{share="provisioned"}') > 0, "a RAM disk has a size")
        expect(asked.value(f"multilane_share_served{{{share}}}") == 1, "it is served")
    with report.check(NAME, "no name of a user, no address of a client and no path is told"):
        text = server.text("text/plain") + server.text("application/openmetrics-text")
        expect(not [word for word in (server.user, server.keeper, HOST, "file0") if word in text], text)


def samples_in(text):
    return len([line for line in text.splitlines() if line and not line.startswith("#")])


def in_text(text, name):
    """The values of lines that begin so."""
    return [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]


def dashboard(report, asked):
    panels = json.loads((DASHBOARDS / "multilane.json").read_text())["panels"]
    expressions = [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]
    names = set(asked.get("/api/v1/label/__name__/values")["data"])
    with report.check(NAME, f"the {len(expressions)} expressions of the dashboard are answered, and name metrics that there are"):
        expect(len(expressions) > 20, expressions)
        empty = []
        for title, expression in expressions:
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            missing = set(re.findall(r"multilane_\w+", expression)) - names
            expect(not missing or missing <= {"multilane_errors_total"}, f"{title}: {missing}")
            if not asked.query(expression):
                empty.append(title)
        # There are none of these where all is well.
        rest = {"Requests that had to wait", "Errors by status", "Errors of the server and its stores", "Shares that are not served",
                "Requests that did not succeed at once", "Shares with a problem"}
        expect(set(empty) <= rest, f"nothing comes of {empty}")


def alerts(report, asked):
    with report.check(NAME, "Prometheus evaluates the rules, and nothing is alarming about a server that is well"):
        def evaluated():
            groups = asked.get("/api/v1/rules")["data"]["groups"]
            return [rule for group in groups for rule in group["rules"] if rule["health"] != "unknown"]
        asked.wait_for(lambda: len(evaluated()) >= 8, "rules are evaluated")
        wrong = [rule for rule in evaluated() if rule["health"] != "ok"]
        expect(not wrong, wrong)
        firing = [alert["labels"] for alert in asked.get("/api/v1/alerts")["data"]["alerts"] if alert["state"] == "firing"]
        expect(not firing, firing)


def goes_on(report, server, asked):
    with report.check(NAME, "sign-ins that are refused are counted, and a server that ends is down"):
        before = asked.value("multilane_sign_ins_refused_total")
        environment = dict(os.environ, MULTILANE_PASSWORD="wrong")
        words = [str(multilane.binary()), "ls", f"smb://{server.user}@{server.host}:{server.port}/{server.share}"]
        expect(subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120).returncode != 0, "it was let in")
        asked.wait_for_scrape()
        expect(asked.value("multilane_sign_ins_refused_total") == before + 1, before)
        server.stop()
        asked.wait_for(lambda: asked.value('up{job="multilane"}') == 0, "it is down")
        server.start()
        asked.wait_for(lambda: asked.value('up{job="multilane"}') == 1, "it is up again")

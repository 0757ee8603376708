"""What `serve --otlp` sends is what OpenTelemetry's own definitions take, and the numbers of /metrics. `python3 -m conformance.otlp` runs it alone."""

import http.server
import json
import os
import subprocess
import threading
import urllib.request

from conformance import alone, multilane, packages
from conformance.prometheus import client, at
from conformance.report import Skip, expect, until
from conformance.server import Wanted, serving

NAME = "otlp"
# Google's protobuf and OpenTelemetry's messages for it.
REQUIREMENTS = ("opentelemetry-proto==1.45.2",)
SENT_SECONDS = 30
FILE_BYTES = 123_456
# Reads a request, as strictly as the definitions are, and prints its points: [name, unit, kind, attributes, values].
PARSE = """
import json, sys
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
request = json_format.Parse(sys.stdin.read(), ExportMetricsServiceRequest())
points = []
for resource in request.resource_metrics:
    for scope in resource.scope_metrics:
        for metric in scope.metrics:
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                labels = {attribute.key: attribute.value.string_value for attribute in point.attributes}
                values = [point.count, sum(point.bucket_counts), len(point.bucket_counts) - len(point.explicit_bounds)] if kind == "histogram" else [point.as_double]
                points.append([metric.name, metric.unit, kind, labels, values])
names = {attribute.key: attribute.value.string_value for resource in request.resource_metrics for attribute in resource.resource.attributes}
print(json.dumps({"points": points, "resource": names}))
"""


class Told(multilane.Multilane):
    """A server that tells and sends metrics."""

    def __init__(self, wanted, collector):
        super().__init__(wanted)
        self.collector = collector

    def command(self):
        return [*super().command(), "--metrics", "0", "--otlp", self.collector, "--otlp-every", "1"]


class Collector:
    """A collector of HTTP: `bodies` are what it has got. It refuses while it is told to."""

    def __init__(self):
        self.bodies, self.refuses, self.asked, self.answer = [], False, [], b"{}"
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.asked.append((self.path, self.headers["Content-Type"]))
                if not collector.refuses:
                    collector.bodies.append(body)
                self.send_response(503 if collector.refuses else 200)
                self.send_header("Content-Length", str(len(collector.answer)))
                self.end_headers()
                self.wfile.write(collector.answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def next(self):
        """The next body that is sent from now on."""
        before = len(self.bodies)
        until(lambda: len(self.bodies) > before, "nothing was sent", SENT_SECONDS)
        return self.bodies[-1]


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("other servers send no metrics")
    checks(report)


def checks(report):
    python = packages.python_with(*REQUIREMENTS)
    collector = Collector()
    with serving(lambda wanted: Told(wanted, collector.address), Wanted()) as server:
        file = server.folder / "file"
        file.write_bytes(b"x" * FILE_BYTES)
        client(server, "cp", str(file), at(server, "file"))
        collector.next()
        with report.check(NAME, "it is what OpenTelemetry's definitions take"):
            said = parsed(python, collector.next())
            expect(said["resource"]["service.name"] == "multilane", said["resource"])
            expect(len(said["resource"]["service.instance.id"]) == 36 and said["resource"]["host.name"], said["resource"])
            expect(set(collector.asked) == {("/v1/metrics", "application/json")}, set(collector.asked))
        with report.check(NAME, "it has the numbers of /metrics, by the same names"):
            same(said["points"], text(server))
        with report.check(NAME, "a collector that refuses is told of in the log, and gets all that it has missed"):
            collector.refuses = True
            until(lambda: "the collector does not take metrics" in log(server), "the log does not say that nothing is taken", SENT_SECONDS)
            client(server, "cp", str(file), at(server, "again"))
            collector.refuses = False
            written = [point for point in parsed(python, collector.next())["points"] if point[0] == "multilane_written" and point[3] == {"share": server.share}]
            expect([point[4] for point in written] == [[2 * FILE_BYTES]], written)
            until(lambda: "the collector takes metrics again" in log(server), "the log does not say that they are taken again", SENT_SECONDS)
        with report.check(NAME, "what a collector does not take of a request is told of in the log"):
            collector.answer = b'{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"no room"}}'
            until(lambda: "not all of them" in log(server) and "no room" in log(server), "the log does not say it", SENT_SECONDS)
        with report.check(NAME, "the end is told, too"):
            before = len(collector.bodies)
            expect(server.stop() == 0, "it did not end well")
            expect(len(collector.bodies) > before, "nothing was sent at the end")
    collector.server.shutdown()
    refused = subprocess.run([str(multilane.binary()), "serve", "--otlp", "https://127.0.0.1"], capture_output=True, text=True, timeout=60,
                             env=dict(os.environ, MULTILANE_DATA="/nowhere"))
    with report.check(NAME, "a collector that is to be spoken to by TLS is refused with what to do"):
        expect(refused.returncode == 2 and "http:// alone" in refused.stderr, refused)


def parsed(python, body):
    result = subprocess.run([python, "-c", PARSE], input=body.decode(), capture_output=True, text=True, timeout=60)
    expect(result.returncode == 0, result.stderr)
    return json.loads(result.stdout)


def same(points, told):
    """Every point is a sample of the text, but for those that change by themselves."""
    expect(len(points) > 50, f"{len(points)} points")
    suffixes = {"sum": "_total", "gauge": "", "histogram": "_count"}
    units = {"s": "_seconds", "By": "_bytes", "": ""}
    for name, unit, kind, labels, values in points:
        whole = name + units[unit] + ("_info" if name == "multilane_build" else suffixes[kind])
        sample = whole + ("{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else "")
        if name in ("multilane_memory_used", "multilane_share_used", "multilane_share_available", "multilane_data_available"):
            continue
        expect(sample in told, f"{sample} is not told")
        expect(told[sample] == values[0], f"{sample}: {values[0]}, and {told[sample]} is told")
        if kind == "histogram":
            expect(values[1] == values[0] and values[2] == 1, f"{sample}: {values}")


def text(server):
    metrics = json.loads(server._run("status", "--json"))["metrics"]
    request = urllib.request.Request(f"http://{metrics}/metrics", headers={"Accept": "application/openmetrics-text"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def log(server):
    return server.log.read_text(errors="replace")


if __name__ == "__main__":
    alone.main(NAME, checks)

"""`multilane compare --quick` as people run it: it ends in good time, its JSON has every case, and nothing is left behind."""

import json
import pathlib
import subprocess
import tempfile

from conformance import multilane
from conformance.report import Skip, expect
from conformance.server import processes_with

NAME = "compare"
# What --quick promises is 180 seconds, on a machine that does nothing else.
COMMAND_SECONDS = 400
TEXTS = {"workload": {"mt-multi", "mt-single", "st-single", "st-multi"}, "op": {"read", "write"},
         "protection": {"plain", "sign", "seal"}}
NUMBERS = ("block_bytes", "channels", "iops_median", "mibps_median", "ratio_to_one_channel_median", "ratio_low", "ratio_high",
           "client_cpu_us_per_op", "server_cpu_us_per_op")
BLOCKS = {4 << 10, 64 << 10, 1 << 20}


def run(kind, report, options):
    if kind.kind != "multilane":
        raise Skip("it brings its own server")
    with tempfile.TemporaryDirectory(prefix="conformance-compare-") as folder:
        folder = pathlib.Path(folder)
        with report.check(NAME, "--quick measures every workload, reads and writes, with one channel and several"):
            result = quick(folder)
            report.note(f"{result['seconds']:.0f} s; {verdict(result)}")
            check_cases(result["cases"])
        with report.check(NAME, "nothing of it is left behind"):
            temporary = folder / "temporary"
            expect(not list(temporary.iterdir()), f"files are left: {list(temporary.iterdir())}")
            expect(not processes_with(str(temporary)), "processes are left")


def quick(folder):
    (folder / "temporary").mkdir()
    file, page = folder / "result.json", folder / "result.html"
    done = subprocess.run([str(multilane.binary()), "compare", "--quick", "--json", str(file), "--html", str(page)],
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(folder / "temporary")},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}")
    expect("<svg" in page.read_text(), "the page has no charts")
    return json.loads(file.read_text())


def check_cases(cases):
    plain = {(case["workload"], case["op"], case["block_bytes"], case["channels"])
             for case in cases if case["protection"] == "plain"}
    missing = {(workload, op, block, channels) for workload in TEXTS["workload"] for op in TEXTS["op"]
               for block in BLOCKS for channels in (1, 4)} - plain
    expect(not missing, f"missing: {missing}")
    for case in cases:
        for name, known in TEXTS.items():
            expect(case[name] in known, f"{name}: {case}")
        expect(isinstance(case["server"], str), f"server: {case}")
        for name in NUMBERS:
            expect(isinstance(case[name], (int, float)), f"{name}: {case}")


def verdict(result):
    of = result["summary"]["never_worse"][0]
    return (f"several channels against one: {of['ratio_median']:.2f} over {of['cases']} cases, {len(of['worse'])} worse; "
            f"one against itself within {of['one_channel_spread_median']:.1%}")

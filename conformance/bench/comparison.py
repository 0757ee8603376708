"""Makes docs/COMPARISON.md of this machine: `python3 -m conformance.bench.comparison --help`.

Each part is a `multilane compare` of its own. Its section, page and JSON stay in the folder, so that one part may be measured again
(`--only`) and joined with what was measured of the others before.
"""

import argparse
import pathlib
import subprocess
import sys
import time

from conformance import multilane, packages

TITLE = """# Comparisons

What `multilane compare` measured on one machine: client and server share its cores. Read the numbers as ratios; [LOAD.md](LOAD.md) says how
they come about. A ratio is taken in each round against one channel in the same round; the tables have the median, with the lowest and the
highest round behind it. "Chance" is one channel against itself. CPU time is in microseconds for each request, with one channel and, behind
the semicolon, with as many as the row has. Within a machine Multilane's connections are [not paced](PERFORMANCE.md#pacing); Samba's are where the
machine's congestion control is `bbr`. The last part has both without. Why a ratio may stay at 1, [which channel a request takes](ARCHITECTURE.md#the-clients-hot-path)
says.

`python3 -m conformance.bench.comparison` makes this page again (as root, with Samba installed, on a machine that does nothing else)."""

BLOCKS = [f"--block={size}" for size in ("4K", "8K", "16K", "64K", "256K", "1M")]
MANY = ["--protection=plain", "--channels=4", "--workload=mt-multi", "--workload=mt-single"]
SAMBA = ["--against=samba", "--workload=st-single", "--workload=st-multi", "--channels=4", "--rounds=4", "--seconds=0.4", "--curves=off"]
# What a command is run by where nobody's connections are to be paced: Multilane's are not within a machine, others' are as the machine has it.
UNPACED = ["unshare", "--net", "sh", "-c", 'ip link set lo up && sysctl -qw net.ipv4.tcp_congestion_control=cubic && exec "$@"', "unpaced"]
# Name, what runs it, and options. All take about 30 minutes on two cores.
PARTS = [
    ("quad", [], ["--network=quad", *MANY, *BLOCKS, "--rounds=3", "--seconds=0.4", "--curves=off"]),
    ("rss", [], ["--network=rss", *MANY, *BLOCKS, "--rounds=3", "--seconds=0.4", "--curves=off"]),
    ("plain", [], ["--protection=plain", "--channels=4", *BLOCKS, "--rounds=4", "--seconds=0.7", "--curves=on"]),
    ("samba", [], [*SAMBA, "--block=4K", "--block=1M"]),
    ("samba-unpaced", UNPACED, [*SAMBA, "--block=1M"]),
]
QUICK = ["--block=4K", "--block=1M", "--rounds=1", "--seconds=0.1", "--file-size=4M"]


def main():
    names = [name for name, _, _ in PARTS]
    parser = argparse.ArgumentParser(description="Makes docs/COMPARISON.md of this machine.")
    parser.add_argument("--out", type=pathlib.Path, default=packages.ROOT / "docs" / "COMPARISON.md", help="the document")
    parser.add_argument("--folder", type=pathlib.Path, default=packages.ROOT / "target" / "comparison",
                        help="where each part's section, page and JSON go")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART",
                        help=f"measure only these again: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true",
                        help="few and short runs, to see that it works; goes to standard output instead of the document")
    arguments = parser.parse_args()
    folder = arguments.folder / "quick" if arguments.quick else arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [part for part in PARTS if part[0] in arguments.only]
    failed = [part[0] for part in chosen if not measured(*part, folder, arguments.quick)]
    missing = [name for name in names if not (folder / f"{name}.md").exists()]
    if failed or missing:
        sys.exit(f"failed: {', '.join(failed) or 'none'}; not there: {', '.join(missing) or 'none'}; "
                 f"measure them again with --only; the others are in {folder}")
    document = "\n\n".join([TITLE, *((folder / f"{name}.md").read_text().strip() for name in names)]) + "\n"
    if arguments.quick:
        print(document, end="")
    else:
        arguments.out.write_text(document)


def measured(name, within, options, folder, is_quick):
    """Whether a part was measured to its end; only then is its section there."""
    if is_quick:
        chosen = ("--block", "--rounds", "--seconds")
        options = [option for option in options if not option.startswith(chosen)] + QUICK
    section, unfinished = folder / f"{name}.md", folder / f"{name}.unfinished.md"
    section.unlink(missing_ok=True)
    files = [f"--json={folder / name}.json", f"--html={folder / name}.html", f"--markdown={unfinished}"]
    began = time.monotonic()
    with open(folder / f"{name}.txt", "w") as table:
        done = subprocess.run([*within, str(multilane.binary()), "compare", *options, *files], stdin=subprocess.DEVNULL, stdout=table)
    print(f"{name}: exit {done.returncode} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    if done.returncode == 0:
        unfinished.rename(section)
    return done.returncode == 0


if __name__ == "__main__":
    main()

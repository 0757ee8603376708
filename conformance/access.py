"""Who may do what: random descriptors, requests and ways in, with what MS-DTYP 2.5.3.2 and MS-FSA 2.1.5.1 say of them, played over the
network against our server and against Samba.

The cases and the verdicts are the model's of `crates/server/src/state/authorization_tests`. Our server does what the documents say. What Samba
does otherwise is known by rules: the model can have each of them instead, and `known-differences-access.txt` says why it is one. Samba must
do what the model says with all of them, to the case, and each rule must make a difference.
"""

import json
import os
import pathlib
import subprocess
import tempfile

from conformance import multilane, packages, py_smbprotocol, samba
from conformance.report import Skip, expect
from conformance.server import Wanted, serving

NAME = "access"
LIST = packages.HERE / "known-differences-access.txt"
TELLS = "state::authorization_tests::told::random_cases_are_told"
LISTED_SHARE = "listed"
SECONDS = 1200
SHOWN_MAX = 5


def run(kind, report, options):
    python = packages.python_with(*py_smbprotocol.REQUIREMENTS)
    with tempfile.TemporaryDirectory(prefix="conformance-access-") as folder:
        told = cases(pathlib.Path(folder), options.access_cases)
        if kind is multilane.Multilane:
            end_as(report, told, "documents", played(kind, report, python, told), kind)
        if os.geteuid() != 0:
            raise Skip("Samba's users are users of this machine, which takes root to be")
        seen = played(samba.Samba, report, python, told)
        end_as(report, told, "samba", seen, samba.Samba)
        differences(report, told, seen)


class Cases:
    def __init__(self, path):
        self.path = path
        self.all = [json.loads(line) for line in path.read_text().splitlines()]

    def verdicts(self, name):
        """What the model says of each case under these rules, by seed."""
        return {case["seed"]: case["verdicts"].get(name, case["verdicts"]["samba"]) for case in self.all}

    def differences(self):
        """The names of the model's rules that Samba has and the documents do not."""
        return {name for case in self.all for name in case["verdicts"]} - {"documents", "samba"}


def cases(folder, count):
    """Has the model write its first cases."""
    path = folder / "cases.json"
    argv = [model(), "--ignored", "--exact", TELLS]
    env = dict(os.environ, MULTILANE_RIGHTS_CASES=f"0..{count}", MULTILANE_RIGHTS_FILE=str(path))
    result = subprocess.run(argv, cwd=packages.ROOT / "crates/server", env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0 or not path.exists():
        raise RuntimeError(f"{' '.join(argv)}\n{result.stdout[-4000:]}")
    return Cases(path)


def model():
    """The program of the server's own tests, which the model is one of. It is built with all others, as `cargo xtask test` does it: by itself it is
    another, since its dependencies have fewer features then, and all of them are built again."""
    argv = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format", "json"]
    result = subprocess.run(argv, cwd=packages.ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}\n{result.stderr[-4000:]}")
    for line in result.stdout.splitlines():
        built = json.loads(line)
        if built.get("executable") and built["target"]["name"] == "server" and "lib" in built["target"]["kind"]:
            return built["executable"]
    raise RuntimeError(f"{' '.join(argv)} built no tests of the server")


def played(kind, report, python, told):
    """What came of each case against a server of this kind, by seed."""
    wanted = Wanted(shares=("conf", LISTED_SHARE), access_based=(LISTED_SHARE,), windows_like=True, on_tmpfs=True, by_descriptors=True)
    with serving(kind, wanted) as server:
        outcomes = server.folder / "outcomes.json"
        env = dict(server.environment(), SMB_SECOND_USER=server.second_user, SMB_KEEPER=server.keeper,
                   SMB_KEEPER_PASSWORD=server.keeper_password(), SMB_LISTED_SHARE=LISTED_SHARE)
        argv = [python, "-m", "conformance.access_checks", str(told.path), str(outcomes)]
        with report.check(NAME, f"{kind.kind}: the cases are played to their end"):
            result = subprocess.run(argv, cwd=packages.ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=SECONDS)
            expect(result.returncode == 0, result.stdout[-4000:])
        report.server_is_well(NAME, server)
        lines = [json.loads(line) for line in outcomes.read_text().splitlines()]
        return {line.pop("seed"): line for line in lines}


def end_as(report, told, rules, seen, kind):
    verdicts = told.verdicts(rules)
    with report.check(NAME, f"{kind.kind}: {len(verdicts)} random cases end as the model says"):
        wrong = [case for case in told.all if seen.get(case["seed"]) != verdicts[case["seed"]]]
        shown = "\n".join(f"seed {case['seed']}: expected {shown_as(verdicts[case['seed']])}, was {shown_as(seen.get(case['seed']))}\n"
                          f"{json.dumps({key: value for key, value in case.items() if key != 'verdicts'})}" for case in wrong[:SHOWN_MAX])
        expect(not wrong, f"{len(wrong)} differ\n{shown}")


def differences(report, told, seen):
    """Each rule that is listed makes a difference, and each that makes one is listed with its reason."""
    listed, known = reasons(), told.differences()
    with report.check(NAME, f"each difference to Samba is listed in {LIST.name}"):
        expect(known <= set(listed) and all(listed.values()), f"without a reason: {sorted(known - set(listed))}")
    samba_says = told.verdicts("samba")
    for name in sorted(listed):
        without = told.verdicts(name)
        with report.check(NAME, f"samba differs: {name}"):
            shows = [seed for seed in seen if seen[seed] == samba_says[seed] != without[seed]]
            expect(shows, f"it differs no longer, yet it is listed: {listed[name]}")


def reasons():
    """Name of a rule to why Samba has it; a line that begins with `#` is a comment."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("\t", 1) for line in lines)


def shown_as(outcome):
    if outcome is None:
        return "nothing"
    granted = "-" if outcome["granted"] is None else f"{outcome['granted']:x}"
    return f"{outcome['status']:08x}, granted {granted}, {'changed' if outcome['changed'] else 'unchanged'}"

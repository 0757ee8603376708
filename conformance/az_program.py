"""Runs commands of `az`: each line of the standard input is one, in JSON, and each line of the standard output the exit of one.

The script `az` runs the module azure.cli. So does this, in a child of a process that has loaded its modules already, which takes a third of the time.
"""

import importlib
import json
import os
import runpy
import sys
import traceback

# What nearly every command that is used here loads.
MODULES = ("azure.cli.core", "azure.cli.core._profile", "azure.cli.core.commands.client_factory", "azure.cli.command_modules.monitor",
           "azure.cli.command_modules.resource", "azure.cli.command_modules.storage", "azure.mgmt.storage", "azure.storage.fileshare")


def main():
    for name in MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            run(command)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run(command):
    """Is the command, to its end."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in enumerate((command["out"], command["err"]), 1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.environ.update(command["variables"])
        sys.argv = ["az", *command["words"]]
        runpy.run_module("azure.cli", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()

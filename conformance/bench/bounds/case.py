"""What a case is: who does what, how much of the server's memory it may take, and what it needs to be there."""

import dataclasses
import typing

MIB = 1 << 20
# What strangers and one signed-in user may take, whatever they send.
STRANGERS_MIB, USER_MIB = 64, 256
STRANGERS, USER, CLIENTS = "strangers", "one user", "clients"


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    who: str
    bound_mib: int
    attack: typing.Callable         # runs in a process of its own, with an Attacker
    prepare: typing.Callable | None = None  # puts files into the share's folder before the attack
    descriptors: int | None = None  # soft and hard limit of the server's process; None leaves the machine's
    on_tmpfs: bool = True           # where the share's files lie
    seconds: int = 90               # what the attack may take until it holds all that it wants to
    held_seconds: int = 4           # how long all is held before anybody looks
    newcomers: int = 1              # how many sign in and work meanwhile, one after the other
    newcomer_seconds: float = 5     # what each of them may take
    frozen: bool = False            # the share `FROZEN` lies on a file system of its own, which is frozen during the attack


_cases: dict[str, "Case"] = {}
FROZEN = "frozen"


def case(name, title, who, bound_mib, **needs):
    """Registers a function as a case's attack."""
    def register(function):
        _cases[name] = Case(name, title, who, bound_mib, function, **needs)
        return function
    return register


def all_cases():
    return dict(_cases)

"""A made-up world for programs that use aiolead: time, network and servers are simulated.

    outcome = simulate(scenario, seed=17, backend="trio")
    outcome.check()

`docs/how-to/simulation.md` shows how to run your own program in it.
"""

from .faults import KINDS as KINDS
from .faults import Fault as Fault
from .loops import Backend as Backend
from .loops import run_virtual as run_virtual
from .process import Process as Process
from .process import Program as Program
from .run import Outcome as Outcome
from .run import Scenario as Scenario
from .run import explore as explore
from .run import simulate as simulate
from .schedule import Schedule as Schedule
from .tally import Failure as Failure
from .tally import Tally as Tally
from .turns import Turn as Turn
from .turns import told as told
from .world import World as World

__all__ = [
    "KINDS",
    "Backend",
    "Failure",
    "Fault",
    "Outcome",
    "Process",
    "Program",
    "Scenario",
    "Schedule",
    "Tally",
    "Turn",
    "World",
    "explore",
    "run_virtual",
    "simulate",
    "told",
]

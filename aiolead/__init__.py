"""Leader election, locks and other coordination on ZooKeeper, as structured concurrency.

    async with aiolead.connect("zk1,zk2,zk3/app") as client:
        election = aiolead.Election(client, "/scheduler")
        async with election.leadership() as term:
            await run_scheduler(fencing_token=term.token)

The names that programs use every day are here. `aiolead.errors` has every error, `aiolead.model`
the values of ZooKeeper (`Stat`, `WatchEvent`), and `aiolead.types` what you annotate with.
`aiolead.admin` has the calls of operators, `aiolead.blocking` is for threads, `aiolead.testing` for
tests.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import abc as abc
    from . import adapters as adapters
    from . import admin as admin
    from . import blocking as blocking
    from . import errors as errors
    from . import events as events
    from . import instrumentation as instrumentation
    from . import model as model
    from . import paths as paths
    from . import testing as testing
    from . import types as types
    from ._client.api.client import Client as Client
    from ._client.connect import connect as connect
    from ._client.connect_options import Limits as Limits
    from ._client.guardian.control import SessionGuardian as SessionGuardian
    from ._client.net.host_sources import Hosts as Hosts
    from ._client.net.tls import TLS as TLS
    from ._client.sasl import SASL as SASL
    from ._client.watchdog import Watchdog as Watchdog
    from ._recipes.barriers import Barrier as Barrier
    from ._recipes.barriers import DoubleBarrier as DoubleBarrier
    from ._recipes.condition import Condition as Condition
    from ._recipes.config import Config as Config
    from ._recipes.election import Election as Election
    from ._recipes.election import Phase as Phase
    from ._recipes.exclusive import ExclusiveLock as ExclusiveLock
    from ._recipes.exclusive import UniqueNames as UniqueNames
    from ._recipes.group import Group as Group
    from ._recipes.group import Partitioner as Partitioner
    from ._recipes.hold import Held as Held
    from ._recipes.lock import Lock as Lock
    from ._recipes.lock import ReentrantLock as ReentrantLock
    from ._recipes.multi import MultiLock as MultiLock
    from ._recipes.once import Once as Once
    from ._recipes.persistent_node import PersistentNode as PersistentNode
    from ._recipes.queues import DelayQueue as DelayQueue
    from ._recipes.queues import PriorityQueue as PriorityQueue
    from ._recipes.queues import Queue as Queue
    from ._recipes.rate_limit import RateLimit as RateLimit
    from ._recipes.read_write import ReadWriteLock as ReadWriteLock
    from ._recipes.semaphore import Semaphore as Semaphore
    from ._recipes.service_registry import ServiceInstance as ServiceInstance
    from ._recipes.service_registry import ServiceRegistry as ServiceRegistry
    from ._recipes.task_board import TaskBoard as TaskBoard
    from ._recipes.term import Term as Term
    from ._recipes.tree_cache import TreeCache as TreeCache
    from ._recipes.values import Counter as Counter
    from ._recipes.values import SequenceAllocator as SequenceAllocator
    from ._recipes.values import SharedValue as SharedValue
    from .errors import AcquireTimeout as AcquireTimeout
    from .errors import AioleadError as AioleadError
    from .errors import ConnectionLossError as ConnectionLossError
    from .errors import Fenced as Fenced
    from .errors import LeadershipLost as LeadershipLost
    from .errors import LockLost as LockLost
    from .errors import NodeExistsError as NodeExistsError
    from .errors import NoNodeError as NoNodeError
    from .errors import TenureLost as TenureLost
    from .model import ACL as ACL
    from .model import Auth as Auth
    from .model import CreateMode as CreateMode

    __version__: str
else:
    from ._util.lazy import Exports

    # The same names at run time, by module: each is imported when it is first used.
    _exports = Exports(
        __name__,
        {
            "_client.api.client": "Client",
            "_client.connect": "connect",
            "_client.connect_options": "Limits",
            "_client.guardian.control": "SessionGuardian",
            "_client.net.host_sources": "Hosts",
            "_client.net.tls": "TLS",
            "_client.sasl": "SASL",
            "_client.watchdog": "Watchdog",
            "_recipes.barriers": "Barrier DoubleBarrier",
            "_recipes.condition": "Condition",
            "_recipes.config": "Config",
            "_recipes.election": "Election Phase",
            "_recipes.exclusive": "ExclusiveLock UniqueNames",
            "_recipes.group": "Group Partitioner",
            "_recipes.hold": "Held",
            "_recipes.lock": "Lock ReentrantLock",
            "_recipes.multi": "MultiLock",
            "_recipes.once": "Once",
            "_recipes.persistent_node": "PersistentNode",
            "_recipes.queues": "DelayQueue PriorityQueue Queue",
            "_recipes.rate_limit": "RateLimit",
            "_recipes.read_write": "ReadWriteLock",
            "_recipes.semaphore": "Semaphore",
            "_recipes.service_registry": "ServiceInstance ServiceRegistry",
            "_recipes.task_board": "TaskBoard",
            "_recipes.term": "Term",
            "_recipes.tree_cache": "TreeCache",
            "_recipes.values": "Counter SequenceAllocator SharedValue",
            "errors": (
                "AcquireTimeout AioleadError ConnectionLossError Fenced LeadershipLost "
                "LockLost NoNodeError NodeExistsError TenureLost"
            ),
            "model": "ACL Auth CreateMode",
        },
        modules=(
            "abc adapters admin blocking errors events instrumentation model paths testing types"
        ),
    )
    __all__ = _exports.all

    def __dir__() -> list[str]:
        return [*_exports.names(), "__version__"]

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from ._util.lazy import installed_version

            globals()[name] = installed_version()
            return globals()[name]
        return _exports.get(name)

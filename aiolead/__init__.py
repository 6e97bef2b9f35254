"""Leader election, locks and other coordination on ZooKeeper, as structured concurrency.

    async with aiolead.connect("zk1,zk2,zk3/app") as client:
        election = aiolead.Election(client, "/scheduler")
        async with election.leadership() as term:
            await run_scheduler(fencing_token=term.token)

The names that programs use every day are here. `aiolead.errors` has every error, `aiolead.model`
the values of ZooKeeper (`Stat`, `WatchEvent`), and `aiolead.types` what you annotate with.
`aiolead.blocking` is for threads, `aiolead.testing` for tests.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import abc as abc
    from . import adapters as adapters
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
    from ._client.guardian_control import SessionGuardian as SessionGuardian
    from ._client.net.host_sources import Hosts as Hosts
    from ._client.net.tls import TLS as TLS
    from ._client.sasl import SASL as SASL
    from ._client.watchdog import Watchdog as Watchdog
    from ._recipes._core.tenure import Held as Held
    from ._recipes._core.tenure import Term as Term
    from ._recipes.barriers.barrier import Barrier as Barrier
    from ._recipes.barriers.barrier import DoubleBarrier as DoubleBarrier
    from ._recipes.discovery.instance import ServiceInstance as ServiceInstance
    from ._recipes.discovery.service_registry import ServiceRegistry as ServiceRegistry
    from ._recipes.election.campaign import Phase as Phase
    from ._recipes.election.election import Election as Election
    from ._recipes.locks.condition import Condition as Condition
    from ._recipes.locks.exclusive import ExclusiveLock as ExclusiveLock
    from ._recipes.locks.lock import Lock as Lock
    from ._recipes.locks.lock import ReentrantLock as ReentrantLock
    from ._recipes.locks.multi import MultiLock as MultiLock
    from ._recipes.locks.read_write import ReadWriteLock as ReadWriteLock
    from ._recipes.locks.semaphore.semaphore import Semaphore as Semaphore
    from ._recipes.locks.unique_names import UniqueNames as UniqueNames
    from ._recipes.membership.group import Group as Group
    from ._recipes.membership.partitioner import Partitioner as Partitioner
    from ._recipes.membership.persistent_node import PersistentNode as PersistentNode
    from ._recipes.queues.queue import DelayQueue as DelayQueue
    from ._recipes.queues.queue import PriorityQueue as PriorityQueue
    from ._recipes.queues.queue import Queue as Queue
    from ._recipes.tasks.board import TaskBoard as TaskBoard
    from ._recipes.tree.tree_cache import TreeCache as TreeCache
    from ._recipes.values.config import Config as Config
    from ._recipes.values.counter import Counter as Counter
    from ._recipes.values.counter import SequenceAllocator as SequenceAllocator
    from ._recipes.values.shared_value import SharedValue as SharedValue
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
            "_client.sasl": "SASL",
            "_client.connect": "connect",
            "_client.connect_options": "Limits",
            "_client.guardian_control": "SessionGuardian",
            "_client.net.host_sources": "Hosts",
            "_client.net.tls": "TLS",
            "_client.watchdog": "Watchdog",
            "_recipes._core.tenure": "Held Term",
            "_recipes.barriers.barrier": "Barrier DoubleBarrier",
            "_recipes.discovery.instance": "ServiceInstance",
            "_recipes.discovery.service_registry": "ServiceRegistry",
            "_recipes.election.campaign": "Phase",
            "_recipes.election.election": "Election",
            "_recipes.locks.condition": "Condition",
            "_recipes.locks.exclusive": "ExclusiveLock",
            "_recipes.locks.lock": "Lock ReentrantLock",
            "_recipes.locks.multi": "MultiLock",
            "_recipes.locks.read_write": "ReadWriteLock",
            "_recipes.locks.semaphore.semaphore": "Semaphore",
            "_recipes.locks.unique_names": "UniqueNames",
            "_recipes.membership.group": "Group",
            "_recipes.membership.partitioner": "Partitioner",
            "_recipes.membership.persistent_node": "PersistentNode",
            "_recipes.queues.queue": "DelayQueue PriorityQueue Queue",
            "_recipes.tasks.board": "TaskBoard",
            "_recipes.tree.tree_cache": "TreeCache",
            "_recipes.values.config": "Config",
            "_recipes.values.counter": "Counter SequenceAllocator",
            "_recipes.values.shared_value": "SharedValue",
            "errors": (
                "AcquireTimeout AioleadError ConnectionLossError Fenced LeadershipLost "
                "LockLost NoNodeError NodeExistsError TenureLost"
            ),
            "model": "ACL Auth CreateMode",
        },
        modules="abc adapters blocking errors events instrumentation model paths testing types",
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

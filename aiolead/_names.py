"""Where the public names are, and their import at the first use: see PEP 562.

Nobody uses all recipes. Importing them all takes longer than `anyio` itself does, in every process
of a fleet and at every run of a short command.
"""

from __future__ import annotations

import importlib
import sys

MODULES = {
    "_client.api.client": "Client",
    "_client.connect": "Connection connect",
    "_client.api.fence": "Fence FencedTransaction",
    "_client.api.client_lease": "ClientLease",
    "_client.api.reads": "Reads",
    "_client.api.pending_reply": "PendingReply",
    "_client.auth.sasl": "SASL",
    "_client.net.host_sources": "Hosts",
    "_client.api.session_states": "SessionChange SessionStates",
    "_client.api.watch_stream": "WatchStream",
    "_client.client_reporting": "ClientStatistics",
    "_client.net.tls": "TLS",
    "_client.api.transaction": "Transaction",
    "_client.api.client_watch": "ClientWatch",
    "_client.watchdog.settings": "OverdueHold Overrun Watchdog",
    "_recipes._core.observe": "View",
    "_recipes.barriers.barrier": "Barrier",
    "_recipes.tasks.board": "TaskBoard",
    "_recipes.tasks.task_states": "TaskPhase TaskResult TaskState",
    "_recipes.tasks.task": "Task",
    "_recipes.tasks.board_view": "BoardView",
    "_recipes.election.campaign": "Campaign CampaignState Phase",
    "_recipes.values.codec": "Codec",
    "_recipes.locks.condition": "Condition ConditionContext ConditionHeld ConditionTryContext",
    "_recipes.values.config.config": "Config",
    "_recipes.values.config.config_snapshot": "ConfigVersion Published",
    "_recipes.values.config.config_view": "ConfigView",
    "_recipes._core.contexts": "TenureContext TryContext",
    "_recipes.values.counter": "Counter",
    "_recipes.discovery.instance": "ServiceInstance ServiceType",
    "_recipes.discovery.picker": "DownPolicy Picker Source",
    "_recipes.discovery.service_registry": "Registration ServiceRegistry ServiceView",
    "_recipes.discovery.strategies": (
        "ConsistentHash LeastLoaded RoundRobin Strategy WeightedRandom"
    ),
    "_recipes.barriers.double_barrier.double_barrier": "BarrierContext BarrierMember DoubleBarrier",
    "_recipes.election.election": "Election",
    "_recipes.locks.exclusive": "ExclusiveLock",
    "_recipes.contention.layouts": "Layout",
    "_recipes.locks.lock": "Lock",
    "_recipes.membership.entries": "Entries",
    "_recipes.membership.group": "ChangeKind Group Member MemberChange Membership MembersView",
    "_recipes.membership.persistent_node": "KeptNode NodeState PersistentNode",
    "_recipes.membership.partitioner": "Partitioner",
    "_recipes.locks.multi": "Holdable MultiContext MultiHeld MultiLock MultiTryContext",
    "_recipes.locks.unique_names": "HeldName UniqueNames",
    "_recipes.election.observer": "ElectionObserver ElectionState",
    "_recipes.queues.claimed": "Claimed QueueItem",
    "_recipes.queues.consuming": "Consumption",
    "_recipes.queues.queue": "DelayQueue PriorityQueue Queue",
    "_recipes.locks.read_write": "ReadLock ReadWriteLock WriteHeld WriteLock",
    "_recipes.locks.reentrant": "ReentrantContext ReentrantLock ReentrantTryContext",
    "_recipes.locks.semaphore.semaphore": "Semaphore",
    "_recipes.values.sequence": "SequenceAllocator",
    "_recipes.contention.sequence_range": "SequenceWarning",
    "_recipes.values.shared_value": "SharedValue SharedValueView Versioned",
    "_recipes.contention.unrecognized": "Stranger strangers",
    "_recipes._core.tenure": "Held Tenure TenureStatistics Term",
    "_recipes.tree.tree_cache": "TreeCache",
    "_recipes.tree.tree_copy": "TreeEvent TreeEvents TreeEventType TreeNode",
    "_recipes.values.znode_views": "ChildrenView DataView",
    "_wire.versions": "Feature",
    "errors": (
        "AcquireTimeout AioleadError AlreadyHeldError APIError AuthFailedError "
        "BadArgumentsError BadVersionError BarrierLost Blame ClaimLost ClientClosedError "
        "ConfigurationError ConnectFailed ConnectionLossError CoordinationError "
        "CounterOverflowError DataInconsistencyError EphemeralOnLocalSessionError Fenced "
        "InternalError InvalidACLError InvalidConnectStringError InvalidDataError "
        "InvalidPathError LeadershipLost LocalWireError LockLost LossReason MarshallingError "
        "MixedLayoutError NewConfigNoQuorumError NoAuthError NoChildrenForEphemeralsError "
        "NodeExistsError NoNodeError NotEmptyError NotReadOnlyError NoWatcherError "
        "OperationTimeoutError Outcome QueueFullError QuotaExceededError ReconfigDisabledError "
        "ReconfigInProgressError ReleaseError RemoteWireError RequestTimeoutError RolledBackError "
        "RuntimeInconsistencyError SequenceExhaustedError ServerError SessionError "
        "SessionExpiredError SessionMovedError SystemFaultError TenureLost ThrottledOpError "
        "TooManyRequestsError TransactionError TransportError TreeTooLargeError "
        "UnimplementedError UnknownServerError UnsupportedError UpgradeError UsageError WireError"
    ),
    "events": "Event EventName",
    "model": (
        "ACL ANYONE CREATOR_ALL_ACL OPEN_ACL_UNSAFE READ_ACL_UNSAFE Auth Created CreateMode "
        "EnsembleConfig EventType Identity Missed MissedReason Participant Permission Quota "
        "QuotaUsage ServerSpec SessionCredentials SessionState Stat WatchEvent"
    ),
}
"""The public names, by the modules that have them; `aiolead/__init__.py` tells type checkers the
same."""

_WHERE = {name: module for module, all_ in MODULES.items() for name in all_.split()}

_WHOLE = frozenset(
    {
        "abc",
        "adapters",
        "blocking",
        "errors",
        "events",
        "instrumentation",
        "model",
        "paths",
        "testing",
    }
)
"""Public modules that need no import of their own: with `import aiolead`, `aiolead.blocking` is
there, imported at its first use."""


def imported(name: str) -> object:
    """For `__getattr__` of the package: a public name, which it has from then on.

    Raises:
        AttributeError: there is none of that name.
    """
    if name in _WHOLE:
        return importlib.import_module(f"aiolead.{name}")
    if name not in _WHERE:
        raise AttributeError(f"module 'aiolead' has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(f"aiolead.{_WHERE[name]}"), name)
    # Not asked again for it.
    setattr(sys.modules["aiolead"], name, value)
    return value


def names() -> list[str]:
    """For `__dir__` of the package."""
    return sorted({*vars(sys.modules["aiolead"]), *_WHERE, *_WHOLE})

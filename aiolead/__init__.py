"""Leader election, locks and other coordination on ZooKeeper, as structured concurrency.

async with aiolead.connect("zk1,zk2,zk3/app") as client:
    election = aiolead.Election(client, "/scheduler")
    async with election.leadership() as term:
        await run_scheduler(fencing_token=term.token)

This module holds the public names and nothing else; a module behind it is imported when the first
of its names is used, so that a program pays for the recipes that it uses. `aiolead.abc` is the seam
for other clients, `aiolead.testing` has servers to test against.
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
    from ._client.api.client import Client
    from ._client.api.client_lease import ClientLease
    from ._client.api.client_watch import ClientWatch
    from ._client.api.fence import (
        Fence,
        FencedTransaction,
    )
    from ._client.api.pending_reply import PendingReply
    from ._client.api.reads import Reads
    from ._client.api.session_states import (
        SessionChange,
        SessionStates,
    )
    from ._client.api.transaction import Transaction
    from ._client.api.watch_stream import WatchStream
    from ._client.auth.sasl import SASL
    from ._client.client_reporting import ClientStatistics
    from ._client.connect import (
        Connection,
        connect,
    )
    from ._client.net.host_sources import Hosts
    from ._client.net.tls import TLS
    from ._client.watchdog.settings import (
        OverdueHold,
        Overrun,
        Watchdog,
    )
    from ._recipes._core.contexts import (
        TenureContext,
        TryContext,
    )
    from ._recipes._core.observe import View
    from ._recipes._core.tenure import (
        Held,
        Tenure,
        TenureStatistics,
        Term,
    )
    from ._recipes.barriers.barrier import Barrier
    from ._recipes.barriers.double_barrier.double_barrier import (
        BarrierContext,
        BarrierMember,
        DoubleBarrier,
    )
    from ._recipes.contention.layouts import Layout
    from ._recipes.contention.sequence_range import SequenceWarning
    from ._recipes.contention.unrecognized import Stranger, strangers
    from ._recipes.discovery.instance import (
        ServiceInstance,
        ServiceType,
    )
    from ._recipes.discovery.picker import (
        DownPolicy,
        Picker,
        Source,
    )
    from ._recipes.discovery.service_registry import (
        Registration,
        ServiceRegistry,
        ServiceView,
    )
    from ._recipes.discovery.strategies import (
        ConsistentHash,
        LeastLoaded,
        RoundRobin,
        Strategy,
        WeightedRandom,
    )
    from ._recipes.election.campaign import (
        Campaign,
        CampaignState,
        Phase,
    )
    from ._recipes.election.election import Election
    from ._recipes.election.observer import (
        ElectionObserver,
        ElectionState,
    )
    from ._recipes.locks.condition import (
        Condition,
        ConditionContext,
        ConditionHeld,
        ConditionTryContext,
    )
    from ._recipes.locks.exclusive import ExclusiveLock
    from ._recipes.locks.lock import Lock
    from ._recipes.locks.multi import (
        Holdable,
        MultiContext,
        MultiHeld,
        MultiLock,
        MultiTryContext,
    )
    from ._recipes.locks.read_write import (
        ReadLock,
        ReadWriteLock,
        WriteHeld,
        WriteLock,
    )
    from ._recipes.locks.reentrant import (
        ReentrantContext,
        ReentrantLock,
        ReentrantTryContext,
    )
    from ._recipes.locks.semaphore.semaphore import Semaphore
    from ._recipes.locks.unique_names import (
        HeldName,
        UniqueNames,
    )
    from ._recipes.membership.entries import Entries
    from ._recipes.membership.group import (
        ChangeKind,
        Group,
        Member,
        MemberChange,
        Membership,
        MembersView,
    )
    from ._recipes.membership.partitioner import Partitioner
    from ._recipes.membership.persistent_node import (
        KeptNode,
        NodeState,
        PersistentNode,
    )
    from ._recipes.queues.claimed import (
        Claimed,
        QueueItem,
    )
    from ._recipes.queues.consuming import Consumption
    from ._recipes.queues.queue import (
        DelayQueue,
        PriorityQueue,
        Queue,
    )
    from ._recipes.tasks.board import TaskBoard
    from ._recipes.tasks.board_view import BoardView
    from ._recipes.tasks.task import Task
    from ._recipes.tasks.task_states import (
        TaskPhase,
        TaskResult,
        TaskState,
    )
    from ._recipes.tree.tree_cache import TreeCache
    from ._recipes.tree.tree_copy import (
        TreeEvent,
        TreeEvents,
        TreeEventType,
        TreeNode,
    )
    from ._recipes.values.codec import Codec
    from ._recipes.values.config.config import Config
    from ._recipes.values.config.config_snapshot import (
        ConfigVersion,
        Published,
    )
    from ._recipes.values.config.config_view import ConfigView
    from ._recipes.values.counter import Counter
    from ._recipes.values.sequence import SequenceAllocator
    from ._recipes.values.shared_value import (
        SharedValue,
        SharedValueView,
        Versioned,
    )
    from ._recipes.values.znode_views import ChildrenView, DataView
    from ._wire.versions import Feature
    from .errors import (
        AcquireTimeout,
        AioleadError,
        AlreadyHeldError,
        APIError,
        AuthFailedError,
        BadArgumentsError,
        BadVersionError,
        BarrierLost,
        Blame,
        ClaimLost,
        ClientClosedError,
        ConfigurationError,
        ConnectFailed,
        ConnectionLossError,
        CoordinationError,
        CounterOverflowError,
        DataInconsistencyError,
        EphemeralOnLocalSessionError,
        Fenced,
        InternalError,
        InvalidACLError,
        InvalidConnectStringError,
        InvalidDataError,
        InvalidPathError,
        LeadershipLost,
        LocalWireError,
        LockLost,
        LossReason,
        MarshallingError,
        MixedLayoutError,
        NewConfigNoQuorumError,
        NoAuthError,
        NoChildrenForEphemeralsError,
        NodeExistsError,
        NoNodeError,
        NotEmptyError,
        NotReadOnlyError,
        NoWatcherError,
        OperationTimeoutError,
        Outcome,
        QueueFullError,
        QuotaExceededError,
        ReconfigDisabledError,
        ReconfigInProgressError,
        ReleaseError,
        RemoteWireError,
        RequestTimeoutError,
        RolledBackError,
        RuntimeInconsistencyError,
        SequenceExhaustedError,
        ServerError,
        SessionError,
        SessionExpiredError,
        SessionMovedError,
        SystemFaultError,
        TenureLost,
        ThrottledOpError,
        TooManyRequestsError,
        TransactionError,
        TransportError,
        TreeTooLargeError,
        UnimplementedError,
        UnknownServerError,
        UnsupportedError,
        UpgradeError,
        UsageError,
        WireError,
    )
    from .events import (
        Event,
        EventName,
    )
    from .model import (
        ACL,
        ANYONE,
        CREATOR_ALL_ACL,
        OPEN_ACL_UNSAFE,
        READ_ACL_UNSAFE,
        Auth,
        Created,
        CreateMode,
        EnsembleConfig,
        EventType,
        Identity,
        Missed,
        MissedReason,
        Participant,
        Permission,
        Quota,
        QuotaUsage,
        ServerSpec,
        SessionCredentials,
        SessionState,
        Stat,
        WatchEvent,
    )
else:
    # Checkers are not to take any name for one that there is.
    from ._names import imported as __getattr__  # noqa: F401 - Python asks for it
    from ._names import names as __dir__  # noqa: F401

__all__ = [
    "ACL",
    "ANYONE",
    "CREATOR_ALL_ACL",
    "OPEN_ACL_UNSAFE",
    "READ_ACL_UNSAFE",
    "SASL",
    "TLS",
    "APIError",
    "AcquireTimeout",
    "AioleadError",
    "AlreadyHeldError",
    "Auth",
    "AuthFailedError",
    "BadArgumentsError",
    "BadVersionError",
    "Barrier",
    "BarrierContext",
    "BarrierLost",
    "BarrierMember",
    "Blame",
    "BoardView",
    "Campaign",
    "CampaignState",
    "ChangeKind",
    "ChildrenView",
    "ClaimLost",
    "Claimed",
    "Client",
    "ClientClosedError",
    "ClientLease",
    "ClientStatistics",
    "ClientWatch",
    "Codec",
    "Condition",
    "ConditionContext",
    "ConditionHeld",
    "ConditionTryContext",
    "Config",
    "ConfigVersion",
    "ConfigView",
    "ConfigurationError",
    "ConnectFailed",
    "Connection",
    "ConnectionLossError",
    "ConsistentHash",
    "Consumption",
    "CoordinationError",
    "Counter",
    "CounterOverflowError",
    "CreateMode",
    "Created",
    "DataInconsistencyError",
    "DataView",
    "DelayQueue",
    "DoubleBarrier",
    "DownPolicy",
    "Election",
    "ElectionObserver",
    "ElectionState",
    "EnsembleConfig",
    "Entries",
    "EphemeralOnLocalSessionError",
    "Event",
    "EventName",
    "EventType",
    "ExclusiveLock",
    "Feature",
    "Fence",
    "Fenced",
    "FencedTransaction",
    "Group",
    "Held",
    "HeldName",
    "Holdable",
    "Hosts",
    "Identity",
    "InternalError",
    "InvalidACLError",
    "InvalidConnectStringError",
    "InvalidDataError",
    "InvalidPathError",
    "KeptNode",
    "Layout",
    "LeadershipLost",
    "LeastLoaded",
    "LocalWireError",
    "Lock",
    "LockLost",
    "LossReason",
    "MarshallingError",
    "Member",
    "MemberChange",
    "MembersView",
    "Membership",
    "Missed",
    "MissedReason",
    "MixedLayoutError",
    "MultiContext",
    "MultiHeld",
    "MultiLock",
    "MultiTryContext",
    "NewConfigNoQuorumError",
    "NoAuthError",
    "NoChildrenForEphemeralsError",
    "NoNodeError",
    "NoWatcherError",
    "NodeExistsError",
    "NodeState",
    "NotEmptyError",
    "NotReadOnlyError",
    "OperationTimeoutError",
    "Outcome",
    "OverdueHold",
    "Overrun",
    "Participant",
    "Partitioner",
    "PendingReply",
    "Permission",
    "PersistentNode",
    "Phase",
    "Picker",
    "PriorityQueue",
    "Published",
    "Queue",
    "QueueFullError",
    "QueueItem",
    "Quota",
    "QuotaExceededError",
    "QuotaUsage",
    "ReadLock",
    "ReadWriteLock",
    "Reads",
    "ReconfigDisabledError",
    "ReconfigInProgressError",
    "ReentrantContext",
    "ReentrantLock",
    "ReentrantTryContext",
    "Registration",
    "ReleaseError",
    "RemoteWireError",
    "RequestTimeoutError",
    "RolledBackError",
    "RoundRobin",
    "RuntimeInconsistencyError",
    "Semaphore",
    "SequenceAllocator",
    "SequenceExhaustedError",
    "SequenceWarning",
    "ServerError",
    "ServerSpec",
    "ServiceInstance",
    "ServiceRegistry",
    "ServiceType",
    "ServiceView",
    "SessionChange",
    "SessionCredentials",
    "SessionError",
    "SessionExpiredError",
    "SessionMovedError",
    "SessionState",
    "SessionStates",
    "SharedValue",
    "SharedValueView",
    "Source",
    "Stat",
    "Stranger",
    "Strategy",
    "SystemFaultError",
    "Task",
    "TaskBoard",
    "TaskPhase",
    "TaskResult",
    "TaskState",
    "Tenure",
    "TenureContext",
    "TenureLost",
    "TenureStatistics",
    "Term",
    "ThrottledOpError",
    "TooManyRequestsError",
    "Transaction",
    "TransactionError",
    "TransportError",
    "TreeCache",
    "TreeEvent",
    "TreeEventType",
    "TreeEvents",
    "TreeNode",
    "TreeTooLargeError",
    "TryContext",
    "UnimplementedError",
    "UniqueNames",
    "UnknownServerError",
    "UnsupportedError",
    "UpgradeError",
    "UsageError",
    "Versioned",
    "View",
    "WatchEvent",
    "WatchStream",
    "Watchdog",
    "WeightedRandom",
    "WireError",
    "WriteHeld",
    "WriteLock",
    "connect",
    "strangers",
]

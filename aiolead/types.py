"""Types to annotate with: contexts, holds, views, states, statistics, watches and streams.

Names that programs construct or catch every day are in `aiolead`, the errors are in
`aiolead.errors`, and the values that servers send (`Stat`, `WatchEvent`, `SessionState`) are in
`aiolead.model`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._client.api.client_backend import ClientBackend as ClientBackend
    from ._client.api.client_backend import ClientLease as ClientLease
    from ._client.api.client_watches import ClientWatch as ClientWatch
    from ._client.api.client_watches import WatchStream as WatchStream
    from ._client.api.pending_reply import PendingReply as PendingReply
    from ._client.api.session_side import SessionChange as SessionChange
    from ._client.api.session_side import SessionStates as SessionStates
    from ._client.api.transactions import Fence as Fence
    from ._client.api.transactions import FencedTransaction as FencedTransaction
    from ._client.api.transactions import Reads as Reads
    from ._client.api.transactions import Transaction as Transaction
    from ._client.client_reporting import ClientStatistics as ClientStatistics
    from ._client.connect import Connection as Connection
    from ._client.watchdog import OverdueHold as OverdueHold
    from ._client.watchdog import Overrun as Overrun
    from ._recipes._core.contexts import TenureContext as TenureContext
    from ._recipes._core.observe import View as View
    from ._recipes._core.tenure import Tenure as Tenure
    from ._recipes._core.tenure import TenureStatistics as TenureStatistics
    from ._recipes.barriers.barrier import BarrierMember as BarrierMember
    from ._recipes.contention.layouts import Layout as Layout
    from ._recipes.contention.sequence_range import SequenceWarning as SequenceWarning
    from ._recipes.contention.unrecognized import UnrecognizedChild as UnrecognizedChild
    from ._recipes.contention.unrecognized import unrecognized_children as unrecognized_children
    from ._recipes.discovery.instance import ServiceType as ServiceType
    from ._recipes.discovery.picker import ConsistentHash as ConsistentHash
    from ._recipes.discovery.picker import DownPolicy as DownPolicy
    from ._recipes.discovery.picker import InstanceSource as InstanceSource
    from ._recipes.discovery.picker import LeastLoaded as LeastLoaded
    from ._recipes.discovery.picker import Picker as Picker
    from ._recipes.discovery.picker import RoundRobin as RoundRobin
    from ._recipes.discovery.picker import Strategy as Strategy
    from ._recipes.discovery.picker import WeightedRandom as WeightedRandom
    from ._recipes.discovery.service_registry import Registration as Registration
    from ._recipes.discovery.service_registry import ServiceView as ServiceView
    from ._recipes.election.campaign import Campaign as Campaign
    from ._recipes.election.campaign import CampaignState as CampaignState
    from ._recipes.election.observer import ElectionObserver as ElectionObserver
    from ._recipes.election.observer import ElectionState as ElectionState
    from ._recipes.locks.condition import ConditionHeld as ConditionHeld
    from ._recipes.locks.multi import Holdable as Holdable
    from ._recipes.locks.multi import MultiHeld as MultiHeld
    from ._recipes.locks.read_write import ReadLock as ReadLock
    from ._recipes.locks.read_write import WriteHeld as WriteHeld
    from ._recipes.locks.read_write import WriteLock as WriteLock
    from ._recipes.locks.unique_names import HeldName as HeldName
    from ._recipes.membership.group import ChangeKind as ChangeKind
    from ._recipes.membership.group import Member as Member
    from ._recipes.membership.group import MemberChange as MemberChange
    from ._recipes.membership.group import Membership as Membership
    from ._recipes.membership.group import MembersView as MembersView
    from ._recipes.membership.persistent_node import NodeState as NodeState
    from ._recipes.queues.claimed import Claimed as Claimed
    from ._recipes.queues.claimed import QueueItem as QueueItem
    from ._recipes.queues.work_queue import Consumption as Consumption
    from ._recipes.tasks.board import BoardView as BoardView
    from ._recipes.tasks.task import Task as Task
    from ._recipes.tasks.task_records import TaskPhase as TaskPhase
    from ._recipes.tasks.task_records import TaskResult as TaskResult
    from ._recipes.tasks.task_records import TaskState as TaskState
    from ._recipes.tree.tree_copy import TreeEvent as TreeEvent
    from ._recipes.tree.tree_copy import TreeEvents as TreeEvents
    from ._recipes.tree.tree_copy import TreeEventType as TreeEventType
    from ._recipes.tree.tree_copy import TreeNode as TreeNode
    from ._recipes.values.codec import Codec as Codec
    from ._recipes.values.config_snapshot import ConfigVersion as ConfigVersion
    from ._recipes.values.config_snapshot import ConfigView as ConfigView
    from ._recipes.values.config_snapshot import Published as Published
    from ._recipes.values.shared_value import SharedValueView as SharedValueView
    from ._recipes.values.shared_value import Versioned as Versioned
    from ._recipes.values.znode_views import ChildrenView as ChildrenView
    from ._recipes.values.znode_views import DataView as DataView
    from ._wire.versions import Feature as Feature
else:
    from ._util.lazy import Exports

    _exports = Exports(
        __name__,
        {
            "_client.api.client_backend": "ClientBackend ClientLease",
            "_client.api.client_watches": "ClientWatch WatchStream",
            "_client.api.transactions": "Fence FencedTransaction Reads Transaction",
            "_client.api.pending_reply": "PendingReply",
            "_client.api.session_side": "SessionChange SessionStates",
            "_client.client_reporting": "ClientStatistics",
            "_client.connect": "Connection",
            "_client.watchdog": "OverdueHold Overrun",
            "_recipes._core.contexts": "TenureContext",
            "_recipes._core.observe": "View",
            "_recipes._core.tenure": "Tenure TenureStatistics",
            "_recipes.barriers.barrier": "BarrierMember",
            "_recipes.contention.layouts": "Layout",
            "_recipes.contention.sequence_range": "SequenceWarning",
            "_recipes.contention.unrecognized": "UnrecognizedChild unrecognized_children",
            "_recipes.discovery.instance": "ServiceType",
            "_recipes.discovery.picker": (
                "ConsistentHash DownPolicy InstanceSource LeastLoaded Picker RoundRobin Strategy "
                "WeightedRandom"
            ),
            "_recipes.discovery.service_registry": "Registration ServiceView",
            "_recipes.election.campaign": "Campaign CampaignState",
            "_recipes.election.observer": "ElectionObserver ElectionState",
            "_recipes.locks.condition": "ConditionHeld",
            "_recipes.locks.multi": "Holdable MultiHeld",
            "_recipes.locks.read_write": "ReadLock WriteHeld WriteLock",
            "_recipes.locks.unique_names": "HeldName",
            "_recipes.membership.group": "ChangeKind Member MemberChange MembersView Membership",
            "_recipes.membership.persistent_node": "NodeState",
            "_recipes.queues.claimed": "Claimed QueueItem",
            "_recipes.queues.work_queue": "Consumption",
            "_recipes.tasks.board": "BoardView",
            "_recipes.tasks.task": "Task",
            "_recipes.tasks.task_records": "TaskPhase TaskResult TaskState",
            "_recipes.tree.tree_copy": "TreeEvent TreeEventType TreeEvents TreeNode",
            "_recipes.values.codec": "Codec",
            "_recipes.values.config_snapshot": "ConfigVersion ConfigView Published",
            "_recipes.values.shared_value": "SharedValueView Versioned",
            "_recipes.values.znode_views": "ChildrenView DataView",
            "_wire.versions": "Feature",
        },
    )
    __getattr__, __dir__, __all__ = _exports.get, _exports.names, _exports.all

"""Types to annotate with: contexts, holds, views, states, statistics, watches and streams.

Names that programs construct or catch every day are in `aiolead`, the errors are in
`aiolead.errors`, and the values that servers send (`Stat`, `WatchEvent`, `SessionState`) are in
`aiolead.model`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._client.api.client import ClientBackend as ClientBackend
    from ._client.api.client import ClientLease as ClientLease
    from ._client.api.client_watches import ClientWatch as ClientWatch
    from ._client.api.client_watches import WatchStream as WatchStream
    from ._client.api.session_states import SessionChange as SessionChange
    from ._client.api.session_states import SessionStates as SessionStates
    from ._client.api.transactions import Fence as Fence
    from ._client.api.transactions import FencedTransaction as FencedTransaction
    from ._client.api.transactions import Reads as Reads
    from ._client.api.transactions import Transaction as Transaction
    from ._client.connect import Connection as Connection
    from ._client.core import PendingReply as PendingReply
    from ._client.watchdog import OverdueHold as OverdueHold
    from ._client.watchdog import Overrun as Overrun
    from ._recipes.attempts import DeadLetter as DeadLetter
    from ._recipes.barriers import BarrierMember as BarrierMember
    from ._recipes.claims import Claimed as Claimed
    from ._recipes.codec import Codec as Codec
    from ._recipes.condition import ConditionHeld as ConditionHeld
    from ._recipes.config import ConfigVersion as ConfigVersion
    from ._recipes.config import ConfigView as ConfigView
    from ._recipes.config import Published as Published
    from ._recipes.election import Campaign as Campaign
    from ._recipes.election import CampaignState as CampaignState
    from ._recipes.election import ElectionObserver as ElectionObserver
    from ._recipes.election import ElectionState as ElectionState
    from ._recipes.exclusive import HeldName as HeldName
    from ._recipes.group import ChangeKind as ChangeKind
    from ._recipes.group import Member as Member
    from ._recipes.group import MemberChange as MemberChange
    from ._recipes.group import Membership as Membership
    from ._recipes.group import MembersView as MembersView
    from ._recipes.hold import Tenure as Tenure
    from ._recipes.holding import TenureContext as TenureContext
    from ._recipes.layouts import Layout as Layout
    from ._recipes.layouts import SequenceWarning as SequenceWarning
    from ._recipes.multi import Holdable as Holdable
    from ._recipes.multi import MultiHeld as MultiHeld
    from ._recipes.once import Run as Run
    from ._recipes.persistent_node import NodeState as NodeState
    from ._recipes.queues import Consumption as Consumption
    from ._recipes.queues import QueueItem as QueueItem
    from ._recipes.read_write import ReadLock as ReadLock
    from ._recipes.read_write import WriteHeld as WriteHeld
    from ._recipes.read_write import WriteLock as WriteLock
    from ._recipes.service_registry import ConsistentHash as ConsistentHash
    from ._recipes.service_registry import DownPolicy as DownPolicy
    from ._recipes.service_registry import InstanceSource as InstanceSource
    from ._recipes.service_registry import LeastLoaded as LeastLoaded
    from ._recipes.service_registry import Picker as Picker
    from ._recipes.service_registry import Registration as Registration
    from ._recipes.service_registry import RoundRobin as RoundRobin
    from ._recipes.service_registry import ServiceType as ServiceType
    from ._recipes.service_registry import ServiceView as ServiceView
    from ._recipes.service_registry import Strategy as Strategy
    from ._recipes.service_registry import WeightedRandom as WeightedRandom
    from ._recipes.task_board import BoardView as BoardView
    from ._recipes.task_board import Task as Task
    from ._recipes.task_board import TaskPhase as TaskPhase
    from ._recipes.task_board import TaskResult as TaskResult
    from ._recipes.task_board import TaskState as TaskState
    from ._recipes.tree_reader import TreeEvent as TreeEvent
    from ._recipes.tree_reader import TreeEvents as TreeEvents
    from ._recipes.tree_reader import TreeEventType as TreeEventType
    from ._recipes.tree_reader import TreeNode as TreeNode
    from ._recipes.unrecognized import UnrecognizedChild as UnrecognizedChild
    from ._recipes.unrecognized import unrecognized_children as unrecognized_children
    from ._recipes.values import SharedValueView as SharedValueView
    from ._recipes.values import Versioned as Versioned
    from ._recipes.view import ChildrenView as ChildrenView
    from ._recipes.view import DataView as DataView
    from ._recipes.view import View as View
    from ._util.statistics import ClientStatistics as ClientStatistics
    from ._util.statistics import TenureStatistics as TenureStatistics
    from ._wire.versions import Feature as Feature
else:
    from ._util.lazy import Exports

    _exports = Exports(
        __name__,
        {
            "_client.api.client": "ClientBackend ClientLease",
            "_client.api.client_watches": "ClientWatch WatchStream",
            "_client.api.session_states": "SessionChange SessionStates",
            "_client.api.transactions": "Fence FencedTransaction Reads Transaction",
            "_client.connect": "Connection",
            "_client.core": "PendingReply",
            "_client.watchdog": "OverdueHold Overrun",
            "_recipes.attempts": "DeadLetter",
            "_recipes.barriers": "BarrierMember",
            "_recipes.claims": "Claimed",
            "_recipes.codec": "Codec",
            "_recipes.condition": "ConditionHeld",
            "_recipes.config": "ConfigVersion ConfigView Published",
            "_recipes.election": "Campaign CampaignState ElectionObserver ElectionState",
            "_recipes.exclusive": "HeldName",
            "_recipes.group": "ChangeKind Member MemberChange MembersView Membership",
            "_recipes.hold": "Tenure",
            "_recipes.holding": "TenureContext",
            "_recipes.layouts": "Layout SequenceWarning",
            "_recipes.multi": "Holdable MultiHeld",
            "_recipes.once": "Run",
            "_recipes.persistent_node": "NodeState",
            "_recipes.queues": "Consumption QueueItem",
            "_recipes.read_write": "ReadLock WriteHeld WriteLock",
            "_recipes.service_registry": (
                "ConsistentHash DownPolicy InstanceSource LeastLoaded Picker "
                "Registration RoundRobin ServiceType ServiceView Strategy "
                "WeightedRandom"
            ),
            "_recipes.task_board": "BoardView Task TaskPhase TaskResult TaskState",
            "_recipes.tree_reader": "TreeEvent TreeEventType TreeEvents TreeNode",
            "_recipes.unrecognized": "UnrecognizedChild unrecognized_children",
            "_recipes.values": "SharedValueView Versioned",
            "_recipes.view": "ChildrenView DataView View",
            "_util.statistics": "ClientStatistics TenureStatistics",
            "_wire.versions": "Feature",
        },
    )
    __getattr__, __dir__, __all__ = _exports.get, _exports.names, _exports.all

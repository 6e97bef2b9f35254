"""The history of a run: events, and the recorder that programs report to.

    history = History(clock)
    history.joined("/jobs", "host1")
    async with lock.acquire() as held:
        history.entered("/jobs", "host1", held.token, path=held.path)
        ...

`aiolead.testing.invariants` says whether it may have happened.
"""

from .events import RESIGNED as RESIGNED
from .events import Acted as Acted
from .events import Began as Began
from .events import CallbackAdded as CallbackAdded
from .events import CallbackCalled as CallbackCalled
from .events import Cancelled as Cancelled
from .events import ClosedByGuardian as ClosedByGuardian
from .events import Continued as Continued
from .events import Counted as Counted
from .events import Ended as Ended
from .events import Entered as Entered
from .events import Event as Event
from .events import FaultBegan as FaultBegan
from .events import FaultEnded as FaultEnded
from .events import Healed as Healed
from .events import Hostile as Hostile
from .events import Joined as Joined
from .events import Killed as Killed
from .events import LeaderChanged as LeaderChanged
from .events import Left as Left
from .events import Leftover as Leftover
from .events import Lived as Lived
from .events import Logged as Logged
from .events import Looked as Looked
from .events import NodeCreated as NodeCreated
from .events import NodeDeleted as NodeDeleted
from .events import Notified as Notified
from .events import OfContender as OfContender
from .events import OfTurn as OfTurn
from .events import Peeked as Peeked
from .events import Reached as Reached
from .events import Read as Read
from .events import Requested as Requested
from .events import Revoked as Revoked
from .events import Session as Session
from .events import SessionOpened as SessionOpened
from .events import SessionOver as SessionOver
from .events import SteppedDown as SteppedDown
from .events import Stopped as Stopped
from .events import Value as Value
from .events import Withdrew as Withdrew
from .events import Wrote as Wrote
from .kinds import KINDS as KINDS
from .recorder import History as History
from .recorder import describe as describe
from .recorder import from_line as from_line
from .recorder import to_line as to_line

"""Leader election, locks and other coordination on ZooKeeper, as structured concurrency.

async with aiolead.connect("zk1,zk2,zk3/app") as client:
    election = aiolead.Election(client, "/scheduler")
    async with election.leadership() as term:
        await run_scheduler(fencing_token=term.token)
"""

from ._client.client import Client as Client
from ._client.connect import Connection as Connection
from ._client.connect import connect as connect
from ._client.fenced import Fence as Fence
from ._client.fenced import FencedTransaction as FencedTransaction
from ._client.reply import PendingReply as PendingReply
from ._client.states import SessionChange as SessionChange
from ._client.states import SessionStates as SessionStates
from ._client.transaction import Transaction as Transaction
from ._client.watch import ClientWatch as ClientWatch
from ._recipes.campaign import Campaign as Campaign
from ._recipes.campaign import CampaignState as CampaignState
from ._recipes.campaign import Phase as Phase
from ._recipes.election import Election as Election
from ._recipes.layout import Layout as Layout
from ._recipes.lock import Lock as Lock
from ._recipes.observer import ElectionObserver as ElectionObserver
from ._recipes.observer import ElectionState as ElectionState
from ._recipes.tenure import Held as Held
from ._recipes.tenure import Term as Term

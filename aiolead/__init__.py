"""Leader election, locks and other coordination on ZooKeeper, as structured concurrency."""

from ._client.client import Client as Client
from ._client.connect import Connection as Connection
from ._client.connect import connect as connect

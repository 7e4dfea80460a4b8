"""A client of NetCRAQ: get, put, delete, cas and add on keys, each linearizable, over UDP.

:class:`Client` blocks; :class:`netcraq.aio.Client` is for asyncio. Both need nothing but Python's library.
"""

from ._call import Result
from ._map import Chain, Map
from .client import Client
from .errors import (
    BadRequest,
    Busy,
    CASFailed,
    Closed,
    Denied,
    Error,
    Full,
    NoChain,
    NotCounter,
    NotFound,
    NotMine,
    OtherEpoch,
    OutcomeUnknown,
    Timeout,
    TooLarge,
    Unsent,
)

__version__ = "0.1.0"

__all__ = [
    "BadRequest", "Busy", "CASFailed", "Chain", "Client", "Closed", "Denied", "Error", "Full", "Map", "NoChain",
    "NotCounter", "NotFound", "NotMine", "OtherEpoch", "OutcomeUnknown", "Result", "Timeout", "TooLarge", "Unsent",
]

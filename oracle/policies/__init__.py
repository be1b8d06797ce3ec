"""When to stop drafting: the contract, the rules, their names as text, and what transformers knows of each.

Loads neither torch nor transformers.  Called, ``oracle.policies()`` lists every policy as ``list_policies`` does.
"""

import sys
from types import ModuleType

from oracle.policies.contract import Policy, Signals, State, TokenRule
from oracle.policies.names import POLICIES, USUAL, as_policy, list_policies, parse

__all__ = ["POLICIES", "USUAL", "Policy", "Signals", "State", "TokenRule", "as_policy", "list_policies", "parse"]


class _Listing(ModuleType):
    """A package whose call answers what is in it."""

    def __call__(self) -> dict[str, str]:
        return list_policies()


sys.modules[__name__].__class__ = _Listing

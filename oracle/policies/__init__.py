"""When to stop drafting: the contract, the rules, their names as text, and what transformers knows of each.

Loads neither torch nor transformers.
"""

from oracle.policies.contract import Policy, Signals, State, TokenRule
from oracle.policies.names import POLICIES, USUAL, as_policy, parse

__all__ = ["POLICIES", "USUAL", "Policy", "Signals", "State", "TokenRule", "as_policy", "parse"]

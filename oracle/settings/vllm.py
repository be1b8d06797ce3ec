"""vLLM: the server's speculative config for a draft model.

Read in the documentation of vLLM 0.32.0 (features/speculative_decoding: draft_model, adaptive_verification) and in
``vllm/config/speculative.py``.
"""

from __future__ import annotations

import json

from oracle.policies import Policy
from oracle.policies.counting import Plain
from oracle.policies.library import fixed_length
from oracle.policies.trained import Margin
from oracle.settings.shape import Settings

ENGINE, VERSION = "vllm", "0.32.0"


def settings(policy: Policy) -> Settings:
    """The command line of the server for ``policy``."""
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, "vllm serve TARGET", "No draft: the target alone.")
    length = fixed_length(policy)
    if length is not None:
        return Settings(ENGINE, VERSION, _serve({"num_speculative_tokens": length}), "The same rule.")
    if isinstance(policy, Margin):
        text = _serve({"num_speculative_tokens": policy.tokens, "enable_adaptive_verification": True})
        note = "Near: it drafts all tokens and cuts what is verified, by prices of its own; Model Runner V2 only."
        return Settings(ENGINE, VERSION, text, note)
    return Settings(ENGINE, VERSION, None, "Has no such rule for a draft model: a constant length is what can be set.")


def _serve(values: dict[str, int | bool]) -> str:
    config = {"method": "draft_model", "model": "DRAFT", **values}
    return f"vllm serve TARGET --speculative-config '{json.dumps(config)}'"

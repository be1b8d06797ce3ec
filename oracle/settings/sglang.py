"""SGLang: the server's flags for a draft model, which it calls STANDALONE.

Read in the source of SGLang 0.5.23 (``srt/arg_groups/fields/spec.py``, ``srt/speculative/adaptive_spec_params.py``).
"""

from __future__ import annotations

from oracle.policies import Policy
from oracle.policies.counting import Ema, Plain
from oracle.policies.library import fixed_length
from oracle.settings.shape import Settings

ENGINE, VERSION = "sglang", "0.5.23"
_SERVE = "python -m sglang.launch_server --model-path TARGET"


def settings(policy: Policy) -> Settings:
    """The command line of the server for ``policy``."""
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, _SERVE, "No draft: the target alone.")
    length = fixed_length(policy)
    if length is not None:
        # It counts the token that the target adds among those that are verified.
        text = (
            f"{_SERVE} --speculative-algorithm STANDALONE --speculative-draft-model-path DRAFT "
            f"--speculative-num-steps {length} --speculative-eagle-topk 1 --speculative-num-draft-tokens {length + 1}"
        )
        return Settings(ENGINE, VERSION, text, "The same rule.")
    if isinstance(policy, Ema):
        note = "Has this rule (--speculative-adaptive) for EAGLE heads only; with a draft model it stays constant."
        return Settings(ENGINE, VERSION, None, note)
    return Settings(ENGINE, VERSION, None, "Has no such rule for a draft model: a constant length is what can be set.")

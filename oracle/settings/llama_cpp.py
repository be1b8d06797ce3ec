"""llama.cpp: the server's flags for a draft model.

Read in the help of ``llama-server`` and checked by running build b11549: draft lengths and texts followed the rule.
"""

from __future__ import annotations

from oracle.policies import Policy
from oracle.policies.counting import Constant, Plain
from oracle.policies.library import fixed_length
from oracle.policies.thresholds import Dynamic, Kangaroo, MaxConfidence, PMin
from oracle.settings.shape import Settings

ENGINE, VERSION = "llama.cpp", "b11549"
_NEAR = (
    "Near: it drops the unlikely token instead of verifying it, and its probability is a share of the ten likeliest "
    "tokens only, so a little higher."
)


def settings(policy: Policy) -> Settings:
    """The command line of the server for ``policy``."""
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, "llama-server -m TARGET.gguf", "No draft: the target alone.")
    length = fixed_length(policy)
    if length is not None:
        return Settings(ENGINE, VERSION, _serve(length, 0, 0.0), "The same rule.")
    if isinstance(policy, PMin):
        return Settings(ENGINE, VERSION, _serve(policy.n_max, policy.n_min, policy.p_min), "The same rule.")
    if isinstance(policy, (Constant, Dynamic, MaxConfidence, Kangaroo)):
        note = _NEAR if policy.threshold > 0 else "The same rule."
        return Settings(ENGINE, VERSION, _serve(policy.tokens, 0, policy.threshold), note)
    note = "Has no such rule: a constant length, or a threshold on the draft's probability, is what can be set."
    return Settings(ENGINE, VERSION, None, note)


def _serve(most: int, least: int, p_min: float) -> str:
    # Its defaults changed between releases: every number is written out.
    return (
        "llama-server -m TARGET.gguf --model-draft DRAFT.gguf --spec-type draft-simple "
        f"--spec-draft-n-max {most} --spec-draft-n-min {least} --spec-draft-p-min {p_min:g}"
    )

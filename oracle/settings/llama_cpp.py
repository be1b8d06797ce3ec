"""llama.cpp: the server's flags for a draft model."""

from __future__ import annotations

from oracle.policies import Policy
from oracle.policies.counting import Plain
from oracle.policies.library import fixed_length
from oracle.policies.thresholds import Below, PMin
from oracle.settings.shape import Settings

ENGINE, VERSION = "llama.cpp", "b11549"


def settings(policy: Policy) -> Settings:
    """The server's command line for ``policy``."""
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, "llama-server -m TARGET.gguf", "No draft: the target alone.")
    length = fixed_length(policy)
    if length is not None:
        return Settings(ENGINE, VERSION, _flags(length, 0, 0.0), "The same rule.")
    if isinstance(policy, PMin):
        return Settings(ENGINE, VERSION, _flags(policy.n_max, policy.n_min, policy.p_min), "The same rule.")
    if isinstance(policy, Below) and judges_and_caps(policy):
        note = "Near: the unlikely token is dropped here, not verified, and its probability is among the ten likeliest."
        return Settings(ENGINE, VERSION, _flags(policy.tokens, 0, policy.threshold), note)
    return Settings(ENGINE, VERSION, None, "Has no such rule; a constant length or p-min is what can be set.")


def judges_and_caps(policy: Below) -> bool:
    """Whether the policy is nothing but a threshold on the confidence and a cap."""
    return type(policy).budget is Below.budget and policy.threshold > 0


def _flags(most: int, least: int, p_min: float) -> str:
    return (
        "llama-server -m TARGET.gguf --model-draft DRAFT.gguf --spec-type draft-simple "
        f"--spec-draft-n-max {most} --spec-draft-n-min {least} --spec-draft-p-min {p_min:g}"
    )

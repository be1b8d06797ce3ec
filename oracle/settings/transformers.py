"""transformers: assisted generation, set on the draft's own generation config."""

from __future__ import annotations

import json

from oracle.policies import Policy
from oracle.policies.counting import Plain
from oracle.policies.learning import Roc
from oracle.policies.library import fields_of, settable
from oracle.settings.shape import Settings

ENGINE, VERSION = "transformers", "5.24.0"
PLAIN = "output = target.generate(**inputs, do_sample=False)"
CALL = "output = target.generate(**inputs, assistant_model=draft, do_sample=False)"
# An encoder-decoder draft reads its whole text again in each iteration without it: see oracle/models/checks.py.
MASKED_CALL = """mask = torch.ones(1, 1, dtype=torch.long, device=target.device)  # else it reads its text anew
output = target.generate(**inputs, assistant_model=draft, do_sample=False, decoder_attention_mask=mask)"""
_REFITS = (
    "With scikit-learn installed, transformers from 5.20 on moves the threshold during each call: this is then the "
    "value that it starts from (policy roc). Uninstall scikit-learn to hold it"
)


def settings(policy: Policy, encoder_decoder: bool = False) -> Settings:
    """A fragment of the draft's generation_config.json, the same as Python lines, and the call of ``generate``."""
    call = MASKED_CALL if encoder_decoder else CALL
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, PLAIN, "No assistant_model: the target alone.")
    if isinstance(policy, Roc):
        values = fields_of(policy)
        note = "Needs scikit-learn beside it: without, the threshold stays."
        return Settings(ENGINE, VERSION, _text(values, call), note)
    if not settable(policy):
        return Settings(ENGINE, VERSION, None, "Has no such rule; its own are constant, heuristic and dynamic.")
    values = fields_of(policy)
    note = "Belongs to the draft's generation config: given to generate it is silently ignored"
    refits = f". {_REFITS}" if values["assistant_confidence_threshold"] else ""
    return Settings(ENGINE, VERSION, _text(values, call), f"{note}{refits}.")


def lines(policy: Policy) -> str:
    """The same as Python lines on a draft that is in memory.  Raises ValueError for a policy that no lines can set."""
    return "\n".join(
        f"assistant_model.generation_config.{name} = {value!r}" for name, value in fields_of(policy).items()
    )


def _text(values: dict[str, float | int | str], call: str) -> str:
    """The fragment, then the call."""
    fragment = json.dumps(values, indent=2)
    return f"# in the draft's generation_config.json\n{fragment}\n# the call\n{call}"

"""transformers: assisted generation, set on the draft's own generation config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from oracle.policies import Policy
from oracle.policies.counting import Plain
from oracle.policies.learning import Roc
from oracle.policies.library import fields_of, fixed_length, settable
from oracle.settings.shape import Settings

ENGINE, VERSION = "transformers", "5.24.0"
PLAIN = "output = target.generate(**inputs, do_sample=False)"
CALL = "output = target.generate(**inputs, assistant_model=draft, do_sample=False)"
# An encoder-decoder draft reads its whole text again in each iteration without it: see oracle/models/checks.py.
MASKED_CALL = """mask = torch.ones(1, 1, dtype=torch.long, device=target.device)  # else it reads its text anew
output = target.generate(**inputs, assistant_model=draft, do_sample=False, decoder_attention_mask=mask)"""
_MODEL: Mapping[str, Any] = MappingProxyType({})  # a draft of which nothing is said is a model of its own
_REFITS = (
    "With scikit-learn installed, transformers from 5.20 on moves the threshold during each call: this is then the "
    "value that it starts from (policy roc). Uninstall scikit-learn to hold it"
)


def settings(policy: Policy, draft: Mapping[str, Any] = _MODEL) -> Settings:
    """A fragment of the draft's generation_config.json, the same as Python lines, and the call of ``generate``.

    ``draft`` is what a trace's meta says of it: where the target drafts for itself the settings are others.
    """
    call = MASKED_CALL if draft.get("encoder_decoder") is True else CALL
    if type(policy) is Plain:
        return Settings(ENGINE, VERSION, PLAIN, f"No {argument(draft)}: the target alone.")
    if draft.get("kind") == "prompt-lookup":
        return _looked_up(policy, draft.get("ngram"))
    if draft.get("kind") == "first-layers":
        return _left_early(policy, draft.get("layers"))
    if type(policy) is Roc:  # one that is named for a release is set by that release alone
        values = fields_of(policy)
        note = "Needs scikit-learn beside it: without, the threshold stays."
        return Settings(ENGINE, VERSION, _text(values, call), note)
    if not settable(policy):
        return Settings(ENGINE, VERSION, None, "Has no such rule; its own are constant, heuristic and dynamic.")
    values = fields_of(policy)
    note = "Belongs to the draft's generation config: given to generate it is silently ignored"
    refits = f". {_REFITS}" if values["assistant_confidence_threshold"] else ""
    return Settings(ENGINE, VERSION, _text(values, call), f"{note}{refits}.")


def told(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the meta of a trace says of its draft; nothing where it says nothing."""
    draft = meta.get("draft")
    return draft if isinstance(draft, Mapping) else _MODEL


def argument(draft: Mapping[str, Any]) -> str:
    """The argument of ``generate`` that makes it draft so."""
    names = {"prompt-lookup": "prompt_lookup_num_tokens", "first-layers": "assistant_early_exit"}
    return names.get(str(draft.get("kind")), "assistant_model")


def alone_has(draft: Mapping[str, Any]) -> bool:
    """Whether a trace's meta says of the draft that it is one that no other engine here has."""
    return draft.get("kind") in ("first-layers", "prompt-lookup") or draft.get("encoder_decoder") is True


def _looked_up(policy: Policy, ngram: object) -> Settings:
    length = fixed_length(policy)
    if length is None or not isinstance(ngram, int):
        return Settings(ENGINE, VERSION, None, "Has no such rule where tokens are looked up: constant lengths only.")
    call = f"prompt_lookup_num_tokens={length}, max_matching_ngram_size={ngram}, do_sample=False"
    return Settings(ENGINE, VERSION, f"output = target.generate(**inputs, {call})", "Arguments of the call: no draft.")


def _left_early(policy: Policy, layers: object) -> Settings:
    if not settable(policy) or not isinstance(layers, int):
        return Settings(ENGINE, VERSION, None, "Has no such rule; its own are constant, heuristic and dynamic.")
    fragment = json.dumps(fields_of(policy), indent=2)
    call = f"output = target.generate(**inputs, assistant_early_exit={layers}, do_sample=False)"
    note = "Belongs to the target's own generation config: given to generate it is silently ignored."
    text = f"# in the target's generation_config.json\n{fragment}\n# the call\n{call}"
    return Settings(ENGINE, VERSION, text, note)


def lines(policy: Policy) -> str:
    """The same as Python lines on a draft that is in memory.  Raises ValueError for a policy that no lines can set."""
    return "\n".join(
        f"assistant_model.generation_config.{name} = {value!r}" for name, value in fields_of(policy).items()
    )


def _text(values: dict[str, float | int | str], call: str) -> str:
    """The fragment, then the call."""
    fragment = json.dumps(values, indent=2)
    return f"# in the draft's generation_config.json\n{fragment}\n# the call\n{call}"

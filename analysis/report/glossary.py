"""The glossary of the report: our words, each explained once."""

from __future__ import annotations

from analysis.report.markup import Markup, tag

GLOSSARY = {
    "target, draft": "The large model whose text is wanted, and the small one that proposes tokens.",
    "lookahead (SL)": "How many tokens the draft proposes before the target checks them all in one pass.",
    "iteration": "One drafting phase and the target pass that verifies it.",
    "drafted": "Tokens proposed in an iteration.",
    "accepted": "The leading drafted tokens that equal the target's own.",
    "rejected": "The first drafted token that does not; it is replaced by the target's.",
    "overrun": "What the draft went on to say after its first wrong token, on its own text.",
    "wasted": "Drafted and not kept: the rejected token and the overrun after it.",
    "target's own token": (
        "Each target pass adds one token of the target's: a correction in place of the rejected one, "
        "or a bonus after a draft that was accepted whole. So an iteration yields accepted + 1 tokens."
    ),
    "run length": "How many draft tokens would be accepted from a position if drafting never stopped.",
    "oracle SL": (
        "The best lookahead of an iteration, known only afterwards. Two conventions: accepted = the run length; detect"
        " = the run length + 1, where the draft pass that disagrees is counted too (published tables behave like it)."
    ),
    "oracle:detect": "Drafts until the draft disagrees, and pays for the pass that disagrees.",
    "oracle:clairvoyant": "Stops just before the draft disagrees.",
    "oracle:optimal": (
        "The cheapest way to produce this text under the given costs, for one who knows it: plain steps where a draft"
        " would not pay. No policy is cheaper in replay, the target alone included."
    ),
    "shuffled tokens": (
        "The same tokens in another order, each with what the draft said there: what an oracle gains on them needs no"
        " more than coin flips of the same agreement."
    ),
    "held out": "Chosen on one part of the prompts, or of a text, and judged on the other: luck does not count.",
    "constant": "Drafts the same number of tokens every time.",
    "heuristic": "Two tokens more after a draft that was accepted whole, one less otherwise.",
    "dynamic": "Stops drafting when the draft's confidence falls below a threshold.",
    "censored": "A run that the end of the text cut short: its true length is at least what was seen.",
    "confidence": "The draft's probability of the token that it selected.",
    "entropy, margin": (
        "Of the draft's next-token distribution: its uncertainty in nats; its first minus its second probability."
    ),
    "draft cost": "Time of a draft step over the time of a one-token step of the target.",
    "speedup": (
        "Time of plain target decoding of the same tokens over the time with the policy: a ratio of totals over all"
        " prompts. Below 1 it is a loss."
    ),
    "interval": (
        "95 %, over prompts: the iterations of one prompt are not independent. Ratios of totals have a Student's t"
        " interval on the log of the ratio."
    ),
    "AIC": (
        "Fit of a distribution, its number of parameters charged for; smaller is better, the difference is what counts."
    ),
    "AUC": "Chance that an accepted token has a better signal than a rejected one: 0.5 is guessing, 1 is perfect.",
}


def glossary() -> Markup:
    """The words and what they mean."""
    return tag(
        "dl",
        *(part for word, meaning in GLOSSARY.items() for part in (tag("dt", word), tag("dd", meaning))),
        class_="glossary",
    )

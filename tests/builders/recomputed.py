"""What a trace must hold, recomputed from the start, without a cache, one text at a time."""

import numpy as np
import torch

from oracle.models.configs import eos_token_ids, start_token_id
from oracle.records.trace import iter_records


def choices(model, ids, first, source=None):
    """After each of ids[first:]: token, its probability, entropy, lead in probability and in logits; one plain pass.

    ``source`` is what an encoder reads; ``ids`` are the decoder's then.
    """
    read = {"input_ids": ids} if source is None else {"input_ids": source, "decoder_input_ids": ids}
    with torch.inference_mode():
        logits = model(**{name: torch.tensor([row]) for name, row in read.items()}).logits[0, first:].double()
    chance = logits.softmax(-1).sort(-1, descending=True).values
    lead = logits.sort(-1, descending=True).values
    entropy = -(chance * chance.clamp(min=1e-300).log()).sum(-1)
    columns = (logits.argmax(-1), chance[:, 0], entropy, chance[:, 0] - chance[:, 1], lead[:, 0] - lead[:, 1])
    return [column.numpy() for column in columns]


def continuation(model, ids, most, stop):
    """The greedy text, recomputed from the start for every token."""
    said = []
    while len(said) < most and not (said and said[-1] in stop):
        said.append(int(choices(model, [*ids, *said], -1)[0][0]))
    return said


def expect_equals_recomputation(pair, trace, prompts, max_overrun):
    """Every field of every record.  That each token is the argmax after those before it makes a text the greedy one."""
    stop, start = eos_token_ids(pair), start_token_id(pair)
    for row, prompt in zip(iter_records(trace), prompts, strict=True):
        assert row.prompt_tokens.tolist() == list(prompt)
        source, prompt = (None, list(prompt)) if start is None else (list(prompt), [start])
        text, last = row.target_tokens.tolist(), len(prompt) - 1
        tokens, _, _, _, lead = choices(pair.target, prompt + text[:-1], last, source)
        assert text == tokens.tolist()
        assert row.finish == ("eos" if text[-1] in stop else "length") and not set(text[:-1]) & set(stop)
        assert len(text) == row.max_new_tokens or row.finish == "eos"
        np.testing.assert_allclose(row.target_margin, lead, atol=1e-4)
        tokens, *signals, _ = choices(pair.draft, prompt + text[:-1], last, source)
        assert row.draft_tokens.tolist() == tokens.tolist()
        np.testing.assert_allclose([row.confidence, row.entropy, row.margin], signals, atol=1e-4)
        assert row.overrun_position.tolist() == [at for at, token in enumerate(text) if tokens[at] != token]
        for m, at in enumerate(row.overrun_position.tolist()):
            said = row.overrun_tokens[m].tolist()
            room = 0 if tokens[at] in stop else max(0, min(max_overrun, row.max_new_tokens - at - 2))
            assert len(said) == room or (said and said[-1] in stop and len(said) < room)
            assert not set(said[:-1]) & set(stop)
            before = prompt + text[:at] + [int(tokens[at])]
            after, *signals, _ = choices(pair.draft, before + said, len(before) - 1, source)
            assert after[:-1].tolist() == said  # the last one is what would come next
            found = [row.overrun_confidence[m], row.overrun_entropy[m], row.overrun_margin[m]]
            np.testing.assert_allclose(found, [column[:-1] for column in signals], atol=1e-4)

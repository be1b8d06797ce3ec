"""The replay rule token by token, as the real loop lives it: slow, plain, and what every faster walk must equal."""

import numpy as np

from analysis.replay.drafts import NotRecorded
from builders.traces import EOS
from oracle.policies import Signals
from oracle.policies.contract import SIGNALS, after_prompt, budget_of, sent_of, stops_at


def known_draft(t, at, end):
    """What the draft would say from flat position ``at`` of a text, as far as recorded: [(token, signals), ...]."""
    found = []
    for place in range(at, end):
        found.append((int(t.draft_tokens[place]), [getattr(t, name)[place] for name in SIGNALS]))
        if t.draft_tokens[place] != t.target_tokens[place]:
            row = int(np.flatnonzero(t.overruns.position == place)[0])
            for entry in range(t.overruns.offsets[row], t.overruns.offsets[row + 1]):
                signals = [getattr(t.overruns, name)[entry] for name in SIGNALS]
                found.append((int(t.overruns.tokens[entry]), signals))
            break
    return found


def row_of(tokens):
    """Signals of one draft, float32 [1, k] each."""
    columns = np.array([signals for _, signals in tokens], np.float32).reshape(len(tokens), len(SIGNALS)).T
    return Signals.of(*columns[:, None, :])


def draft(t, policy, state, known, limit):
    """(tokens sent, passes): the policy is asked after each token, with the row of the draft so far."""
    passes, stopped = 0, False
    while passes < limit and not stopped:
        passes += 1
        signals = row_of(known[:passes])
        answer = stops_at(policy, signals, state)
        if passes > len(known):
            if signals.were_read:
                raise NotRecorded(f"token {passes} of {len(known)}")
            continue  # a policy that only counts goes on
        stopped = answer is not None and bool(answer[0, -1])
        if known[passes - 1][0] == EOS:
            break
    return int(sent_of(policy, np.array([passes]), np.array([stopped]), state)[0]), passes


def reference(t, policy):
    """(prompt, position, drafted, accepted, passes) of every iteration.  Raises `NotRecorded` like the replay."""
    found, state = [], policy.start(1)
    for number in range(t.prompts):
        start, end = int(t.offsets[number]), int(t.offsets[number + 1])
        at = start
        while at < end:
            limit = min(int(np.max(budget_of(policy, state))), int(t.max_new_tokens[number]) - (at - start) - 1)
            known = known_draft(t, at, end)
            drafted, passes = draft(t, policy, state, known, limit)
            matches = 0
            while matches < min(drafted, len(known)) and at + matches < end:
                if known[matches][0] != t.target_tokens[at + matches]:
                    break
                matches += 1
            accepted = min(matches, end - 1 - at)
            found.append((number, at - start, drafted, accepted, passes))
            signals = row_of(known[:drafted])
            state = policy.update(state, np.array([drafted]), np.array([accepted]), signals)
            if drafted > len(known) and signals.were_read:
                raise NotRecorded(f"{drafted} of {len(known)}")
            at += accepted + 1
        state = after_prompt(policy, state)
    return found


def random_trace(seed, prompts=5, overrun=12, longest=14, hits=0.6):
    """Short random texts, some that end in EOS, with EOS in drafts and overruns too."""
    from builders.traces import record, trace

    generator = np.random.default_rng(seed)
    records = []
    for index in range(prompts):
        size = int(generator.integers(1, longest))
        target = generator.integers(2, 6, size)
        if generator.random() < 0.5:
            target[-1] = EOS
        limit = size if target[-1] != EOS else size + int(generator.integers(0, 4))
        drafted = np.where(generator.random(size) < hits, target, generator.integers(0, 6, size))
        branches = {}
        for miss in np.flatnonzero(drafted != target):
            branch = []
            while drafted[miss] != EOS and len(branch) < overrun and (not branch or branch[-1][0] != EOS):
                branch.append((int(generator.integers(0, 6)), float(np.float32(generator.random()))))
            branches[int(miss)] = branch
        confidence = generator.random(size).astype(np.float32)
        records.append(record(target, drafted, confidence=confidence, overruns=branches, limit=limit, index=index))
    return trace(*records, max_overrun=overrun)

"""The number of threads that is chosen, on a clock that says what each takes."""

import pytest
import torch
from builders.encoders import tiny_encoder_pair
from builders.pairs import tiny_pair

from oracle.models import threads
from oracle.models.threads import choose


class Clock:
    """A pass takes what ``seconds`` says for the threads in force; so does each look at the clock."""

    def __init__(self, seconds):
        self.now, self.seconds = 0.0, seconds

    def __call__(self):
        self.now += self.seconds[torch.get_num_threads()]
        return self.now


@pytest.fixture
def four_threads(monkeypatch):
    force = {"threads": 4}
    monkeypatch.setattr(torch, "get_num_threads", lambda: force["threads"])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: force.update(threads=number))
    return force


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({1: 0.1, 2: 0.2, 4: 0.9}, 1),  # a small model, or a busy machine
        ({1: 0.4, 2: 0.2, 4: 0.1}, 4),
        ({1: 0.4, 2: 0.105, 4: 0.1}, 2),  # fewer where more are hardly faster
    ],
)
def test_the_fastest_number_is_set_and_said(four_threads, seconds, chosen):
    found = choose(tiny_pair(), Clock(seconds))
    assert found.threads == four_threads["threads"] == chosen and list(found.seconds) == [1, 2, 4]
    assert str(found).startswith(f"{chosen} (a token of both models takes ") and "--threads sets another" in str(found)


def test_nothing_is_tried_where_there_is_no_choice(four_threads, monkeypatch):
    pair = tiny_pair()
    monkeypatch.setattr(threads, "_on_processor", lambda pair: [])
    assert choose(pair) is None and four_threads["threads"] == 4
    four_threads["threads"] = 1
    assert choose(pair) is None


@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_models_with_encoders_are_tried_too(four_threads, kind):
    assert choose(tiny_encoder_pair(kind), Clock({1: 0.1, 2: 0.2, 4: 0.9})).threads == 1

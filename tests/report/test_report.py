"""The report page: what is in it, that nothing in it can run or load anything, and that odd traces do not break it."""

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import numpy as np
import pytest
from builders.found import found as diagnosis
from builders.traces import EOS, pattern, record, trace

from analysis import CostModel, simulate
from analysis.diagnosis import words
from analysis.examine import STEPS, unique_names, with_measured
from analysis.replay.sweep import library_policies, sweep
from analysis.report.markup import Markup, escape, json_block, table, tag
from analysis.report.page import Source, report, steps
from analysis.report.policies import _alike
from analysis.report.prompt_view import enter_words, share_out, view_prompts
from oracle.policies import parse
from oracle.policies.counting import Plain
from oracle.records.runs import Call, Runs
from oracle.settings.transformers import PLAIN, lines
from oracle.workflows.questions import fit

HOSTILE = (
    "</script><script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "<!--<script>",
    "a\u2028b\u2029&amp;",
    "\ud800",
)
POLICIES = ("constant:tokens=5", "dynamic", "oracle:detect")
FEW_DRAWS = 19


class Elements(HTMLParser):
    """Collects start tags and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.raw, self.text, self.inside = [], [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        self.inside = name if name in ("script", "style") else None
        if self.inside:
            self.raw.append((name, dict(attributes), ""))

    def handle_data(self, data):
        if self.inside:
            name, attributes, text = self.raw[-1]
            self.raw[-1] = (name, attributes, text + data)
        else:
            self.text.append(data)

    def handle_endtag(self, name):
        self.inside = None

    def named(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


def hostile_decode(ids):
    return [HOSTILE[token % len(HOSTILE)] for token in ids]


def hostile_trace():
    overruns = {at: [(99, 0.3)] * 4 for at in (3, 6, 7, 13)}
    rows = [pattern("+++-++--+++++-++", index=index, overruns=overruns) for index in range(6)]
    return trace(
        *rows,
        target={"model": HOSTILE[0]},
        draft={"model": HOSTILE[1]},
        skipped=[{"index": 9, "reason": HOSTILE[1]}],
        dtype=HOSTILE[0],
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The parsed report of a trace whose every text is an attack, and its HTML."""
    out = tmp_path_factory.mktemp("report") / "new" / "report.html"
    report([Source(hostile_trace(), name=HOSTILE[1], decode=hostile_decode)], out, policies=POLICIES)
    text = out.read_text(encoding="utf-8")
    return Elements(text), text


@pytest.fixture
def undrawn(monkeypatch):
    """Leaves out the slow half of drawing, writing SVG, and draws little: for tests that look at words and data."""
    monkeypatch.setattr("analysis.report.figures.svg", lambda drawing: b"<svg/>")
    for module in ("analysis.examine",):
        monkeypatch.setattr(f"{module}.DRAWS", FEW_DRAWS)


def test_every_section_is_there_and_linked(page):
    elements, _ = page
    names = [each["id"] for each in elements.named("section")]
    assert names == [
        "answer",
        "glance",
        "collected",
        "policies",
        "ladder",
        "gains",
        "settings",
        "prompts",
        "lookahead",
        "distributions",
        "signals",
        "published",
        "glossary",
    ]
    links = [each["href"] for each in elements.named("a")]
    assert {"#" + name for name in names} <= set(links)
    seen = [each["id"] for _, each in elements.tags if "id" in each]
    assert len(seen) == len(set(seen))


def test_nothing_is_loaded_from_elsewhere(page):
    elements, text = page
    addresses = [
        each[key] for _, each in elements.tags for key in ("src", "href", "srcset", "action", "data") if key in each
    ]
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"@import|url\(|http-equiv=.refresh", text)
    policy = next(
        each["content"] for each in elements.named("meta") if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; img-src data:;") and "unsafe" not in policy


def test_the_content_policy_admits_exactly_the_style_and_the_script(page):
    elements, text = page
    assert len(elements.raw) == 3
    for name, attributes, content in elements.raw:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert (f"{name}-src 'sha256-{digest}'" in text) == ("type" not in attributes)
    assert not any("style" in each or any(key.startswith("on") for key in each) for _, each in elements.tags)


def test_hostile_text_stays_text(page):
    elements, text = page
    assert len(elements.named("script")) == 2  # the data and the program
    assert all(each["src"].startswith("data:image/svg+xml;base64,") and each["alt"] for each in elements.named("img"))
    assert "hacked=1>" not in text.replace(escape(HOSTILE[1]), "").replace(escape(HOSTILE[0]), "")
    shown = "".join(elements.text)
    assert HOSTILE[0] in shown and HOSTILE[1] in shown


def test_the_data_of_the_view_survives_the_page(page):
    elements, _ = page
    data = json.loads(next(content for name, attributes, content in elements.raw if "type" in attributes))
    assert set(data["words"]) == set(HOSTILE)
    (source,) = data["sources"]
    assert source["name"] == HOSTILE[1] and set(POLICIES) <= set(source["policies"])
    assert source["note"] in ("advised", "fastest that was tried") and 0 <= source["best"] < len(source["policies"])
    assert all(len(each["rounds"]) == len(source["policies"]) for each in data["prompts"])
    assert [each["id"] for each in data["prompts"]] == [f"p{index}" for index in range(6)]


def test_images_have_words_and_tables_have_names(page):
    elements, _ = page
    assert len(elements.named("img")) >= 8
    regions = [each for each in elements.named("div") if each.get("class") == "scroll"]
    assert regions and all(each["tabindex"] == "0" and each["aria-label"] for each in regions)
    assert all(each.get("scope") in ("row", "col") for each in elements.named("th"))


def test_view_by_hand():
    # The draft is right at 0 and 1, wrong at 2, and would go on with 50, 51, 52; right again from 3 on.
    row = record(
        [10, 11, 12, 13, 14, 15],
        [10, 11, 99, 13, 14, 15],
        confidence=[0.9, 0.8, 0.5, 0.7, 0.6, 0.12345],
        overruns={2: [(50, 0.4), (51, 0.3), (52, 0.2)]},
    )
    data = trace(row)
    results = [simulate(data, policy) for policy in ("constant:tokens=4", "oracle:clairvoyant", "none")]
    words: dict[str, int] = {}
    (view,) = view_prompts(0, data, results, np.array([0]), lambda ids: [f"<{token}>" for token in ids], words)
    text = list(words)
    assert [text[number] for number in view["target"]] == [f"<{token}>" for token in range(10, 16)]
    assert text[view["draft"][2]] == "<99>" and [text[number] for number in view["prompt"]] == ["<7>", "<8>", "<9>"]
    # constant 4: drafts 10 11 99 50, of which 2 are accepted, then (budget 6 - 3 - 1 = 2) 13 14, both accepted.
    assert view["rounds"] == [[0, 4, 2, 3, 2, 2], [0, 2, 2, 3, 2, 2], [at for n in range(6) for at in (n, 0, 0)]]
    assert list(view["overruns"]) == ["2"]
    assert [text[number] for number in view["overruns"]["2"][0]] == ["<50>"] and view["overruns"]["2"][1] == [0.4]
    assert view["confidence"] == [0.9, 0.8, 0.5, 0.7, 0.6, 0.123]
    assert view["speedups"] == [round(6 / (2 + 0.1 * 6), 3), round(6 / (2 + 0.1 * 4), 3), 1.0]


def test_an_end_of_text_that_the_draft_proposed_has_no_overrun():
    data = trace(record([10, 11, EOS], [10, 11, EOS], limit=8))
    (view,) = view_prompts(0, data, [simulate(data, "constant:tokens=5")], np.array([0]), None, {})
    assert view["rounds"] == [[0, 3, 2]] and view["overruns"] == {} and view["finish"] == "eos"


def test_every_policy_leaves_the_same_text():
    data = trace(
        *(pattern("++-+++-+", index=index, overruns={2: [(50, 0.9)] * 4, 6: [(51, 0.1)] * 4}) for index in range(3))
    )
    results = [simulate(data, policy) for policy in (*POLICIES, "heuristic:tokens=2", "none")]
    for view in view_prompts(0, data, results, np.arange(3), None, {}):
        for rounds in view["rounds"]:
            position, drafted, accepted = np.array(rounds).reshape(-1, 3).T
            assert np.array_equal(position, np.cumsum(np.append(0, accepted[:-1] + 1)))
            assert position[-1] + accepted[-1] + 1 == len(view["target"]) and np.all(drafted >= accepted)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([3], [3]),
        ([100], [40]),
        ([100, 100], [20, 20]),
        ([5, 100], [5, 35]),
        ([100, 1, 100], [19, 1, 20]),
        ([1] * 50, None),
    ],
)
def test_prompts_are_shared_out(sizes, expected):
    chosen = share_out(sizes)
    counts = [len(each) for each in chosen]
    assert sum(counts) == min(sum(sizes), 40) and (expected is None or counts == expected)
    for size, each in zip(sizes, chosen, strict=True):
        assert len(set(each.tolist())) == len(each) and (not len(each) or (each[0] == 0 and each[-1] < size))


def test_decode_must_give_a_string_for_each_token():
    with pytest.raises(ValueError, match="1 strings for 2 token ids"):
        enter_words(lambda ids: ["one"], np.array([4, 5, 4]), {})


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([pattern("+" * 12)], id="always right"),
        pytest.param([pattern("-" * 12)], id="always wrong"),
        pytest.param([record([EOS], [EOS])], id="one token"),
        pytest.param([record([10], [11]), record([10, 11], [10, 11])], id="tiny"),
    ],
)
def test_odd_traces_have_a_report(tmp_path, undrawn, rows):
    out = report([Source(trace(*rows))], tmp_path / "report.html", policies=["constant:tokens=3", "oracle:optimal"])
    text = out.read_text(encoding="utf-8")
    assert text.count("<section") == 13 and "NaN" not in text


def test_large_traces_show_a_selection_and_say_so(tmp_path, undrawn):
    rows = [pattern("++-+", index=index) for index in range(55)]
    sources = [Source(trace(*rows), name="same"), Source(trace(*rows[:4]), name="same")]
    text = report(sources, tmp_path / "report.html", policies=["constant:tokens=2"]).read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="view-data">(.*?)</script>', text).group(1))
    assert len(data["prompts"]) == 40 and sum(each["source"] == 1 for each in data["prompts"]) == 4
    assert "40 of 59 prompts, evenly spaced" in text
    assert [each["name"] for each in data["sources"]] == ["same (1)", "same (2)"]


def test_names_come_from_the_data_set():
    one = trace(pattern("+-"), prompts={"dataset": "org/set"})
    assert unique_names([Source(one), Source(trace(pattern("+"))), Source(one, name="mine")]) == [
        "org/set",
        "prompts",
        "mine",
    ]


def measured_runs(data, policies, *, draft, seconds=0.01):
    """Runs as a machine would measure them on which a draft step costs ``draft`` and a target pass ``seconds``."""
    calls = []
    for policy in ("none", *policies):
        result = simulate(data, policy)
        for prompt in range(data.prompts):
            here = result.prompt == prompt
            drafted, count = result.drafted[here], int(here.sum())
            columns = {
                "position": result.position[here],
                "drafted": drafted,
                "accepted": result.accepted[here],
                "passes": result.passes[here],
                "budget": drafted,
                "threshold": np.zeros(count),
                "draft_seconds": draft * drafted,
                "verify_seconds": np.full(count, seconds),
                "forward_seconds": np.full(count, seconds),
                "rest_seconds": np.zeros(count),
            }
            each = columns["draft_seconds"] + columns["verify_seconds"]
            text = data.target_tokens[data.offsets[prompt] : data.offsets[prompt + 1]]
            facts = {
                "prompt": prompt,
                "id": data.ids[prompt],
                "policy": policy,
                "repeat": 0,
                "order": len(calls),
                "generator": "library",
            }
            times = {"total_seconds": float(each.sum()), "prefill_seconds": float(each[0])}
            same = {"equal": True, "first_difference": None, "difference_margin": None}
            calls.append(
                Call(
                    **facts,
                    **times,
                    **same,
                    **columns,
                    max_new_tokens=len(text),
                    prompt_tokens=data.prompt_tokens[data.prompt_offsets[prompt] : data.prompt_offsets[prompt + 1]],
                    tokens=text,
                )
            )
    return Runs({"machine": {"processor": "abacus"}}, tuple(calls))


def test_measured_speedups_stand_beside_the_simulated_ones(tmp_path, undrawn):
    data = trace(*(pattern("+++-" * 4, index=index, overruns={3: [(9, 0.9)] * 4}) for index in range(3)))
    runs = measured_runs(data, ["constant:tokens=3", "dynamic:threshold=0.4,tokens=3"], draft=0.001)
    source = Source(data, runs=runs)
    listed, measured = with_measured(["constant", "dynamic:tokens=3"], runs)
    assert listed == ["constant", "dynamic:tokens=3", "constant:tokens=3"]
    assert list(measured) == ["constant:tokens=3", "dynamic:tokens=3"]
    # After the first pass 12 tokens are left: 12 plain passes of 10 ms against 3 rounds of 10 + 3 ms.
    assert measured["constant:tokens=3"].decoding.value == pytest.approx(120 / (3 * 13))
    text = report([source], tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    assert "Measured speedup" in text and '<td class="number">3.08<small>' in text and "abacus" in text
    assert "every text equals plain decoding" in text


def test_a_policy_that_needs_more_overrun_is_left_out_and_named(tmp_path, undrawn):
    rows = [
        pattern("+++-++++++++", index=index, confidence=[0.9] * 12) for index in range(2)
    ]  # nothing recorded after the miss
    data = trace(*rows, max_overrun=0)
    text = report([Source(data)], tmp_path / "a.html", policies=["dynamic", "oracle:detect"]).read_text(
        encoding="utf-8"
    )
    assert "dynamic is left out: this policy reads signals" in text
    with pytest.raises(ValueError, match="none of the policies can be replayed"):
        report([Source(data)], tmp_path / "b.html", policies=["dynamic"])


def test_what_cannot_be_done_is_said(tmp_path, undrawn):
    source = Source(trace(pattern("+-+")))
    with pytest.raises(ValueError, match="at least one trace"):
        report([], tmp_path / "a.html")
    with pytest.raises(ValueError, match="at least one policy"):
        report([source], tmp_path / "a.html", policies=[])
    with pytest.raises(ValueError, match="unknown policy 'dynamik'"):
        report([source], tmp_path / "a.html", policies=["dynamik"])
    (tmp_path / "file").write_text("")
    with pytest.raises(RuntimeError, match="cannot be written there"):
        report([source], tmp_path / "file" / "a.html")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, undrawn, monkeypatch):
    out = report([Source(trace(pattern("+-+")))], tmp_path / "a.html", policies=["none"])
    old = out.read_text(encoding="utf-8")

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(RuntimeError, match=r"a\.html: the report cannot be written there \(No space left"):
        report([Source(trace(pattern("+-+")))], out, policies=["none"])
    assert out.read_text(encoding="utf-8") == old and list(tmp_path.iterdir()) == [out]


def test_a_folder_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.report.page.examine", lambda *args: pytest.fail("worked for nothing"))
    with pytest.raises(RuntimeError, match="it is a folder"):
        report([Source(trace(pattern("+-+")))], tmp_path)


def test_settings_to_paste():
    assert lines(parse("constant:tokens=7")).splitlines() == [
        "assistant_model.generation_config.num_assistant_tokens = 7",
        "assistant_model.generation_config.num_assistant_tokens_schedule = 'constant'",
        "assistant_model.generation_config.assistant_confidence_threshold = 0.0",
    ]
    assert "num_assistant_tokens_schedule = 'heuristic_transient'" in lines(parse("heuristic_transient"))
    assert "assistant_confidence_threshold = 0.4" in lines(parse("dynamic"))
    with pytest.raises(ValueError, match="not a policy of transformers' own"):
        lines(Plain())


def test_sweep_finds_the_constant_that_fits_the_runs():
    data = trace(*(pattern("+++-" * 6, index=index) for index in range(3)), max_overrun=32)
    found = sweep(data, CostModel(draft=0.1))
    assert found.best_constant().policy == "constant:tokens=3"  # every run is three tokens long
    speedups = [result.speedup for result in found.results]
    assert speedups == sorted(speedups, reverse=True) and len(found.results) + len(found.left_out) == len(
        library_policies()
    )


@pytest.mark.parametrize(
    ("draft", "call"),
    [
        ({"kind": "first-layers", "layers": 1}, "assistant_early_exit=1"),
        ({"encoder_decoder": True}, "decoder_attention_mask=mask"),
    ],
)
def test_what_is_pasted_and_said_fits_the_kind_of_draft(draft, call, tmp_path, undrawn):
    data = trace(*(pattern("+++-" * 6, index=index, confidence=[0.9] * 24) for index in range(3)), max_overrun=32)
    data = dataclasses.replace(data, meta=data.meta | {"draft": draft})
    page = report([Source(data)], tmp_path / "report.html", policies=["constant:tokens=3"]).read_text(encoding="utf-8")
    answer = page[page.index('id="answer"') : page.index('id="settings"')]
    assert call in answer and "assistant_model.generation_config" not in page and "Other engines" not in answer
    assert ("is installed (roc)" in page or "policy roc" in page) == (
        "kind" not in draft
    )  # an early exit refits nothing


def test_a_policy_is_called_this_one_by_all_of_its_text():
    said = {"dynamic": "policy dynamic:tokens=20,threshold=0.4 needs it", "svip": "policy svip needs that"}
    assert [words for *_, words in _alike(said)] == ["this policy needs it", "this policy needs that"]


def test_a_draft_that_does_not_pay_is_left_out_by_its_own_argument(tmp_path, undrawn):
    data = trace(*(pattern("-" * 8, index=index) for index in range(3)))
    data = dataclasses.replace(data, meta=data.meta | {"draft": {"kind": "first-layers", "layers": 1}})
    page = report([Source(data, cost=CostModel(draft=0.5))], tmp_path / "a.html", policies=["constant"])
    text = page.read_text(encoding="utf-8")
    assert "Leave assistant_early_exit out." in text and "leave assistant_early_exit out" in text
    assert "so few prompts say nothing about others" in text and "assistant_model" not in text


def test_a_loss_is_called_a_loss(tmp_path, undrawn):
    data = trace(*(pattern("-" * 8, index=index) for index in range(3)))
    source = Source(data, cost=CostModel(draft=0.5))
    text = report([source], tmp_path / "report.html", policies=["constant:tokens=5"]).read_text(encoding="utf-8")
    assert "none is seen to beat plain decoding here" in text and "num_assistant_tokens =" not in text


def test_policies_stand_beside_the_best_constant_and_the_settings_in_their_group(tmp_path, undrawn):
    data = trace(*(pattern("+++-" * 6, index=index) for index in range(12)), max_overrun=32)
    source = Source(data, cost=CostModel(draft=0.1))
    text = report([source], tmp_path / "report.html", policies=["constant:tokens=1"]).read_text(encoding="utf-8")
    # A text takes 6 rounds of 3 tokens and 1.3 steps, or 12 of one token and 1.1 steps.
    assert "Gain: how much faster than constant:tokens=3, the best constant lookahead on these prompts" in text
    assert '<td class="number">-40.9<small>-40.9 to -40.9</small>' in text and ">baseline<" in text
    assert "Use constant:tokens=3: 3.08 (3.08 to 3.08) times as fast as no draft" in text
    assert re.search(r"Not distinguishable from the best \(95 %, all at once\) are \d+ of \d+ settings", text)
    data = trace(pattern("++++++++-" * 3), pattern("+-" * 9, index=1), pattern("+++-" * 5, index=2), max_overrun=32)
    text = report([Source(data)], tmp_path / "few.html", policies=["constant:tokens=1"]).read_text(encoding="utf-8")
    assert "vllm 0." in text and "--speculative-config" in text and "--spec-draft-n-max" in text
    assert "With 3 prompts no choice can be judged on others" in text


def test_markup_escapes_what_is_not_markup():
    assert tag("b", "<", Markup("<i>"), title='"&') == '<b title="&quot;&amp;">&lt;<i></b>'
    assert escape("a\x00\x1b[1m\u202eb\n") == "a��[1m�b\n" and "\x07" not in tag("b", title="\x07")
    assert '<td class="number">&lt;1</td>' in table(["a", "b"], [["x", "<1"]], caption="c")
    assert json_block({"a": "</script>&\u2028"}) == '{"a":"\\u003c/script\\u003e\\u0026\\u2028"}'
    with pytest.raises(ValueError):
        json_block({"a": float("nan")})


def section_of(text, name):
    return re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)[0]


def words_of(markup):
    return " ".join(Elements(markup).text)


def some_rows(flags="+++-" * 6, count=12):
    return [pattern(flags, index=index) for index in range(count)]


def test_the_page_opens_with_the_answer(tmp_path, undrawn):
    data = trace(*some_rows(), max_overrun=32)
    text = report([Source(data)], tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    opening = section_of(text, "answer")
    assert text.index('id="answer"') < text.index('id="glance"') and opening.count("<h3") == 3
    # Assumed prices come before everything else.
    assert opening.index("Prices are assumed, not measured") < opening.index("Faster.") < opening.index("Why")
    # 24 tokens are 6 rounds of three draft steps at 0.1 and one check: (0.3 + 1) / 4 of a step for a token.
    assert "Use constant:tokens=3: 3.08 (3.08 to 3.08) times as fast as no draft" in opening
    bars = re.findall(r"<li><code>([^<]*)</code><b>([^<]*)</b>", opening)
    assert bars[0] == ("constant:tokens=3", "0.33") and bars[-1] == ("no draft", "1.00")
    assert "draft tokens kept 23%" in words_of(opening) and "draft tokens refused 0%" in words_of(opening)
    assert lines(parse("constant:tokens=3")) in words_of(opening) and 'data-what="the settings"' in opening
    assert "Left undecided:" in opening and "Simulated on 12 prompts (288 tokens)" in opening


def test_measured_prices_are_not_called_assumed(tmp_path, undrawn):
    cost = CostModel(draft=0.1, machine={"processor": "abacus"})
    source = Source(trace(*some_rows()), cost=cost)
    text = report([source], tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    opening = words_of(section_of(text, "answer"))
    assert "assumed" not in opening and "Prices measured on a machine (processor abacus)" in opening


def test_a_loss_opens_with_slower_and_the_call_without_a_draft(tmp_path, undrawn):
    source = Source(trace(*some_rows("-" * 8)), cost=CostModel(draft=0.5))
    text = report([source], tmp_path / "a.html", policies=["constant:tokens=5"]).read_text(encoding="utf-8")
    opening = words_of(section_of(text, "answer"))
    assert "Slower." in opening and "Use no draft" in opening and PLAIN in opening
    data = json.loads(re.search(r'id="view-data">(.*?)</script>', text).group(1))
    assert data["sources"][0]["note"] == "fastest that was tried"


def test_a_diagnosis_is_what_the_page_opens_with(tmp_path, undrawn):
    found = diagnosis()
    source = Source(trace(*some_rows()), cost=CostModel(draft=0.3), diagnosis=found)
    text = report([source], tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    opening = words_of(section_of(text, "answer"))
    now, advice = words.headline(found)
    assert "Faster." in opening and advice.removeprefix("ADVICE: ") in opening
    assert now.partition(". ")[2] in opening and " ".join(words.change(found)) in opening
    assert all(each in opening for each in words.surer(found)) and "dynamic (nothing set)" in opening
    slower = diagnosis(now=0.8, best=0.9, over=1.1)
    source = Source(trace(*some_rows()), cost=CostModel(draft=0.3), diagnosis=slower)
    text = report([source], tmp_path / "b.html", policies=["constant"]).read_text(encoding="utf-8")
    assert "Slower." in text and PLAIN in words_of(section_of(text, "answer"))


def test_two_traces_share_what_is_assumed_and_have_an_answer_each(tmp_path, undrawn):
    sources = [Source(trace(*some_rows()), name=name) for name in ("one", "two")]
    text = report(sources, tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    opening = section_of(text, "answer")
    assert opening.count("Prices are assumed") == 1 and opening.count('class="lead"') == 2


def test_the_same_warning_of_several_policies_is_one(tmp_path, undrawn):
    data = trace(*(pattern("+++-++++++++", index=index, confidence=[0.9] * 12) for index in range(2)), max_overrun=0)
    cost = CostModel(draft=0.1, verify=((1, 1.0), (2, 1.1)), measured_range={"tokens": [1, 2], "context": [1, 500]})
    chosen = ["dynamic:tokens=6", "dynamic:tokens=9", "constant:tokens=4", "constant:tokens=7", "constant:tokens=1"]
    text = report([Source(data, cost=cost)], tmp_path / "a.html", policies=chosen).read_text(encoding="utf-8")
    said = re.findall(r"<li>(.*?)</li>", re.search(r'<ul class="warning">(.*?)</ul>', text, re.DOTALL)[1])
    left_out = [each for each in said if "left out" in each]
    assert len(left_out) == 1 and left_out[0].startswith("dynamic:tokens=6, dynamic:tokens=9 are left out: at most")
    outside = [each for each in said if "outside the measured 1-2" in each]
    assert len(outside) == 1 and "constant:tokens=4, constant:tokens=7" in outside[0] and "tokens=1," not in outside[0]


def test_every_family_is_tested_as_fit_tests_it(tmp_path, undrawn):
    rows = [pattern("+-" * (5 + index) + "+" * index + "-", index=index) for index in range(9)]
    data = trace(*rows)
    text = report([Source(data)], tmp_path / "a.html", policies=["constant"]).read_text(encoding="utf-8")
    shown = re.findall(r'<th scope="row">([a-z-]+)</th>(.*?)</tr>', section_of(text, "distributions"))
    tested = fit(data, FEW_DRAWS)
    assert [family for family, _ in shown] == [each.family for each in tested.fits]
    for (_, row), test in zip(shown, tested.goodness, strict=True):
        p = re.findall(r'<td class="number">([^<]*)</td>', row)[-1]
        assert p == escape(test.p_words)


def test_a_prompt_has_an_address_of_its_own(page):
    elements, _ = page
    (address,) = [each["href"] for each in elements.named("a") if each["href"].startswith("#prompt=")]
    assert address == f"#prompt=p0&trace={quote(HOSTILE[1], safe='')}"


def test_steps_are_told_as_they_begin(tmp_path, undrawn):
    told = []
    sources = [Source(trace(*some_rows(count=2))), Source(trace(*some_rows(count=3)))]
    report(sources, tmp_path / "a.html", policies=["constant"], tell=told.append)
    assert len(told) == steps(2) and told == [*STEPS, *STEPS, "drawing"]

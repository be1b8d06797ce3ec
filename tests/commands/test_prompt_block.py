"""The block of `collect` that says what the models read, and the options that decide it."""

import json

import pytest
from builders.pairs import tiny_pair
from builders.tokenizers import save, word_tokenizer
from test_cli import run
from tokenizers import processors
from typer.main import get_command

from oracle.cli import app
from oracle.commands.options import ChoiceOptions, template_arguments
from oracle.commands.prompts import show_prompts
from oracle.prompts.chat import Chat
from oracle.prompts.facts import PromptFacts
from oracle.records.trace import FOLDER

TEMPLATE = "{{ bos_token }} {% for m in messages %}{{ m.content }} {% endfor %}{{ strftime_now('w%d') }}"
COLUMNS = {"response": "w1", "category": "w2", "source": "w3", "images": ["w4"], "annotator": "w5", "licence": "w6"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A pair whose tokenizer adds an end token, and one with a chat template."""
    root, models = tmp_path_factory.mktemp("pairs"), tiny_pair("llama")
    for model in (models.target, models.draft):
        model.generation_config.eos_token_id = model.config.eos_token_id = 2
    odd, sound = word_tokenizer(), word_tokenizer(chat_template=TEMPLATE)
    odd.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    for kind, tokenizer in (("odd", odd), ("sound", sound)):
        models.target.generation_config.eos_token_id = 2 if kind == "sound" else []
        for role in ("target", "draft"):
            save(root / kind / role, getattr(models, role), tokenizer)
    return root


def collected(folders, kind, rows, tmp_path, *words):
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pair = ("--target", folders / kind / "target", "--draft", folders / kind / "draft", "--device", "cpu")
    settings = ("--dtype", "float32", "--max-new-tokens", "4", "--dataset", file)
    return run("collect", *map(str, (tmp_path / "out", *pair, *settings, *words)))


def block(done):
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("Prompts, as the models read them"))
    found = lines[begin : lines.index("", begin)]
    assert len(found) <= 15 and max(map(len, found)) <= 80, found
    return found


def test_the_block_of_a_sound_pair_is_short(folders, tmp_path):
    rows = [{"instruction": "w5", "context": "w6 w7", **COLUMNS}, {"instruction": "w8"}]
    found = block(collected(folders, "sound", rows, tmp_path, "--chat", "--system", "w9", "--date", "2026-12-11"))
    assert not any(line.startswith("!") for line in found[1:])
    text = "\n".join(found)
    for words in (
        "2; 4 to 6 tokens, median 5", "alpaca, in the chat template", "response, category, source, images, annotator",
        "'<s> w9 w5 w6 w7 w11'", "'<s>' once, in all prompts", "never '</s>'", "'</s>' (2)", "of 2 by themselves",
        "2026-12-11; --date gives it again",
    ):  # fmt: skip
        assert words in text, (words, text)


def test_the_block_says_six_odd_things_in_fifteen_lines(folders, tmp_path):
    odd = {"system": "w10 " * 9, "history": [["w11", "w12"]]}
    rows = [{"instruction": "w5", **COLUMNS, **odd}, {"instruction": ""}, {"instruction": "w6 " * 3000}]
    field = [{"prompt": f"<s> {row['instruction']}" if row["instruction"] else "", **row} for row in rows]
    done = collected(folders, "odd", field, tmp_path, "--prompt-field", "prompt")
    found = block(done)
    text = "\n".join(found)
    for words in (
        "! left out", "1 empty, 1 too long", "instruction", "! turns left out", "message of 1, earlier turns of 1",
        "! texts end at", "no token ends a text", "! first token", "all of 1 begin with <s> twice", "! last token",
        "all of 1 end in </s>: the tokenizer adds it",
    ):  # fmt: skip
        assert words in text, (words, text)
    for warning in ("begin with <s> twice", "end in </s>", "--chat takes them"):
        assert "Warning: prompts, " in done.output and warning in done.output


def test_everything_odd_at_once_is_still_fifteen_lines(capsys):
    long = "w5 " * 200
    odd = dict.fromkeys(("begins", "ends", "eos", "turns", "skipped", "ended"), long)
    facts = PromptFacts(
        prompts=1000, lengths=(1, 2.5, 4096), first=long, last="\x1b" * 500, bos="<s>", with_bos=1, twice_bos=1,
        eos=((2, "</s>"),), ends_in_eos=1, chat=True, form="alpaca", left_out=dict.fromkeys([*COLUMNS, "n" * 90], 1),
        without_system=1, without_history=1, skipped={"empty": 1}, date="2026-12-11T00:00:00", ended=3, odd=odd,
    )  # fmt: skip
    show_prompts(facts, 128)
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 80, lines
    assert sum(line.startswith("! ") for line in lines) == 6 and any(line.endswith(" ...") for line in lines)


def test_the_facts_are_in_json_and_in_the_trace(folders, tmp_path):
    rows = [{"instruction": "w5", **COLUMNS}]
    done = collected(folders, "odd", rows, tmp_path, "--json")
    facts = json.loads(done.stdout)["facts"]
    assert facts["left_out"] == dict.fromkeys(COLUMNS, 1) and facts["ends_in_eos"] == 1 and facts["eos"] == []
    meta = FOLDER.read_meta(tmp_path / "out")
    assert meta["prompts"]["left_out"] == facts["left_out"] and meta["encoded"]["odd"] == facts["odd"]


def test_names_of_columns_and_texts_never_act_on_the_terminal(folders, tmp_path):
    rows = [{"instruction": "w5 \x1b[2J", "\x1b]52;c;QQ\x07": "x", "\u202e": "y", "n" * 5000: "z"}]
    done = collected(folders, "sound", rows, tmp_path)
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output)
    block(done)


def test_measuring_says_the_date_of_its_prompts(folders, tmp_path):
    pair = ("--target", folders / "sound" / "target", "--draft", folders / "sound" / "draft", "--device", "cpu")
    (tmp_path / "a.txt").write_text("w5\n", "utf-8")
    words = ("--dataset", tmp_path / "a.txt", "--chat", "--date", "2026-12-11", "-p", "constant:tokens=2")
    sizes = ("--repeats", "1", "--max-new-tokens", "4", "--dtype", "float32")
    done = run("measure", *map(str, (tmp_path / "runs", *pair, *words, *sizes)))
    assert done.exit_code == 0 and "--date 2026-12-11 gives the same ones again" in done.output, done.output


def test_options_are_the_form_of_the_chat():
    options = ChoiceOptions(
        use_chat=True, system="Be brief.", template_arg=["a=false", "b=text", "c=[1]"], date="2026-12-01"
    )
    assert options.chat == Chat("Be brief.", {"a": False, "b": "text", "c": [1]}, "2026-12-01")
    assert ChoiceOptions().chat is False and ChoiceOptions(use_chat=True).chat == Chat()
    assert template_arguments(["a==", "b=", "c=" + "[" * 5000]) == {"a": "=", "b": "", "c": "[" * 5000}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--system", "x"], "--system is about the chat template: give --chat too"),
        (["--template-arg", "a=1"], "--template-arg is about the chat template"),
        (["--date", "2026-12-01"], "--date is about the chat template"),
        (["--chat", "--template-arg", "a"], "--template-arg is 'a'; give NAME=VALUE"),
        (["--chat", "--template-arg", "a=1", "--template-arg", "a=2"], "'a' is given twice"),
        (["--chat", "--template-arg", "messages=1"], "'messages' is no name"),
        (["--chat", "--date", "today"], "the date is 'today'"),
    ],
)
@pytest.mark.parametrize("command", ["collect", "measure", "calibrate", "validate"])
def test_what_the_options_refuse(command, words, message):
    done = run(command, *words)
    assert done.exit_code == 2 and message in done.output, done.output


def test_every_command_that_takes_prompts_takes_all_of_their_options():
    for name, command in get_command(app).commands.items():
        flags = {flag for option in command.params for flag in option.opts}
        if "--chat" in flags:
            assert {"--prompt-field", "--system", "--template-arg", "--date", "--dataset"} <= flags, name

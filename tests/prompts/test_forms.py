"""Whatever a row holds is in its prompt or is named: every form with a field more, one less, an empty one, a null."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracle.prompts.fields import Turn
from oracle.prompts.sets import load_prompts

CHAT = [{"role": "system", "content": "wsys"}, {"role": "user", "content": "wone"}]
ROWS = {
    "mbpp": {
        "task_id": "k", "text": "wtask", "code": "wcode", "test_list": ["assert wa", "assert wb"], "test_setup": "wset",
    },
    "humaneval": {
        "task_id": "k", "prompt": "def wf():", "canonical_solution": "wsol", "entry_point": "wf", "test": "wtest",
    },
    "humanevalpack": {"prompt": "def wf():", "declaration": "wdecl", "instruction": "wins", "buggy_solution": "wbug"},
    "alpaca": {
        "instruction": "wins", "input": "wput", "output": "wout", "system": "wsys",
        "history": [["wq", "wa"], ["wr", "wb"]],
    },
    "dolly": {"instruction": "wins", "context": "wcon", "response": "wres", "category": "wcat"},
    "both": {"instruction": "wins", "input": "wput", "context": "wcon", "images": ["wpath.png"]},
    "cnn_dailymail": {"id": "k", "article": "wart", "highlights": "whigh"},
    "plain": {"id": "k", "prompt": "wask", "answer": "wans", "score": 3, "flags": {"a": None, "b": "wflag"}},
    "openai": {"messages": [*CHAT, {"role": "assistant", "content": "wans"}, {"role": "user", "content": "wtwo"}]},
    "answered": {"messages": [*CHAT, {"role": "assistant", "content": "wans"}], "source": "wsrc"},
    "parts": {
        "messages": [
            {"role": "user", "name": "wname", "content": [
                {"type": "text", "text": "wlook"}, {"type": "image_url", "image_url": {"url": "wurl"}}
            ]},
        ],
        "system_prompt": "wsys",
    },
    "sharegpt": {
        "id": "k",
        "conversations": [
            {"from": "system", "value": "wsys"}, {"from": "gpt", "value": "whello"}, {"from": "human", "value": "wone"},
            {"from": "gpt", "value": "wans"}, {"from": "human", "value": "wtwo"},
        ],
    },
    "mt_bench": {"question_id": 81, "category": "wcat", "turns": ["wone", "wtwo"], "reference": ["wref"]},
    "mt_bench_hub": {"prompt_id": 81, "prompt": ["wone", "wtwo"]},
    "gsm8k": {"question": "wq", "answer": "wans"},
    "math": {"problem": "wp", "solution": "wsol", "level": "wlev"},
    "squad": {"id": "k", "question": "wq", "context": "wcon", "answers": {"text": ["wtext"]}},
    "orca": {"id": "k", "system_prompt": "wsys", "question": "wq", "response": "wres"},
}  # fmt: skip


def leaves(value):
    """Every word of the kind that these rows are made of, and every number."""
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [word for word in str(value).replace("def ", "").replace("assert ", "").split() if value is not None]


def named(column, left_out):
    """Whether a column, or a part of one, is among those left out."""
    return [
        name for name in left_out if name == column or name.startswith(f"{column} ") or name.endswith(f"in {column}")
    ]


def expect_whole(row, prompt, left_out):
    there = "\n".join(
        [prompt.text, prompt.user_turn, prompt.id, *(f"{turn.role} {turn.content}" for turn in prompt.before), "user"]
    )
    for column, value in row.items():
        missing = [leaf for leaf in leaves(value) if leaf not in there]
        assert not missing or named(column, left_out), (column, missing, there, left_out)


def changed(row):
    """The row as it is, and with one field more, one less, an empty one, a null."""
    yield "as it is", row
    yield "extra", row | {"wmore": "wmuch"}
    for field in row:
        yield f"{field} missing", {key: value for key, value in row.items() if key != field}
        for empty in ("", None, "  "):
            yield f"{field} {empty!r}", row | {field: empty}


@pytest.mark.parametrize("kind", ROWS)
def test_what_a_row_holds_is_in_its_prompt_or_named(kind, tmp_path):
    row, file, refused, read = ROWS[kind], tmp_path / "rows.json", 0, 0
    for words, one in changed(row):
        file.write_text(json.dumps([one, row]), "utf-8")
        try:
            found = load_prompts(file)
        except ValueError as error:  # in words that name the row and its fields
            assert "rows.json, row 1: expected the fields" in str(error) or "row 2: expected" in str(error), (
                words,
                error,
            )
            refused += 1
            continue
        read += 1
        for given, prompt in zip((one, row), found, strict=True):
            expect_whole(given, prompt, found.source["left_out"])
        if words == "extra":
            assert found.source["left_out"]["wmore"] == 1
    assert read >= refused + 2, (read, refused)


def test_only_what_has_content_is_named_and_how_often(tmp_path):
    rows = [
        {"prompt": "a", "answer": "b", "empty": ""},
        {"prompt": "c", "answer": None, "empty": [], "none": {"x": None}},
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    assert load_prompts(tmp_path / "a.json").source["left_out"] == {"answer": 1}


def first(tmp_path, row, **options):
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    found = load_prompts(tmp_path / "a.jsonl", **options)
    return found.prompts[0], found.source


def test_context_is_the_input_of_an_instruction(tmp_path):
    dolly, _ = first(tmp_path, ROWS["dolly"])
    alpaca, _ = first(tmp_path, {"instruction": "wins", "input": "wcon"})
    assert (dolly.text, dolly.user_turn) == (alpaca.text, "wins\n\nwcon")
    both, source = first(tmp_path, ROWS["both"])
    assert both.user_turn == "wins\n\nwput" and source["left_out"] == {"context": 1, "images": 1}


def test_code_to_complete_is_the_prompt_and_not_its_description(tmp_path):
    prompt, source = first(tmp_path, ROWS["humanevalpack"])
    assert prompt.text == prompt.user_turn == "def wf():" and source["format"] == "humaneval"
    assert source["left_out"] == {"declaration": 1, "instruction": 1, "buggy_solution": 1}


def test_a_chat_is_asked_up_to_its_last_question(tmp_path):
    prompt, source = first(tmp_path, ROWS["openai"])
    before = (Turn("system", "wsys"), Turn("user", "wone"), Turn("assistant", "wans"))
    assert (prompt.text, prompt.before, prompt.chat_only, source["left_out"]) == ("wtwo", before, True, {})
    prompt, source = first(tmp_path, ROWS["answered"])
    assert (prompt.text, prompt.before) == ("wone", before[:1])
    assert source["left_out"] == {"messages after the last question": 1, "source": 1}


def test_a_recorded_conversation_is_asked_its_first_question(tmp_path):
    prompt, source = first(tmp_path, ROWS["sharegpt"])
    assert (prompt.text, prompt.before, prompt.chat_only) == ("wone", (Turn("system", "wsys"),), False)
    assert source["left_out"] == {
        "conversations before the first question": 1, "conversations after the first question": 1,
    }  # fmt: skip


def test_parts_of_a_turn_that_are_no_text_are_named(tmp_path):
    prompt, source = first(tmp_path, ROWS["parts"])
    assert (prompt.text, prompt.before) == ("wlook", (Turn("system", "wsys"),))
    assert source["left_out"] == {"image_url in messages": 1, "name in messages": 1}


def test_earlier_turns_of_an_instruction_come_before_it_in_a_chat(tmp_path):
    prompt, source = first(tmp_path, ROWS["alpaca"])
    roles = [(turn.role, turn.content) for turn in prompt.before]
    assert roles == [("system", "wsys"), ("user", "wq"), ("assistant", "wa"), ("user", "wr"), ("assistant", "wb")]
    assert source["left_out"] == {"output": 1}
    other, source = first(tmp_path, {"prompt": "x", "history": "in 1901", "system": 3})
    assert other.before == () and source["left_out"] == {"history": 1, "system": 1}


@pytest.mark.parametrize("kind", ["mt_bench", "mt_bench_hub"])
def test_of_turns_the_first_is_asked(kind, tmp_path):
    prompt, source = first(tmp_path, ROWS[kind])
    assert (prompt.text, prompt.chat_only) == ("wone", False)
    assert any(name.endswith("after the first turn") for name in source["left_out"])


def test_a_column_by_name_is_taken_as_it_stands(tmp_path):
    prompt, source = first(tmp_path, ROWS["dolly"], prompt_field="context")
    assert prompt.text == prompt.user_turn == "wcon"
    assert (source["format"], source["prompt_field"]) == ("field", "context")
    assert source["left_out"] == {"instruction": 1, "response": 1, "category": 1}
    assert first(tmp_path, ROWS["openai"] | {"prompt": "x"}, prompt_field="messages")[0].text == "wtwo"
    with pytest.raises(ValueError, match=r"line 1: there is no column 'contxt'. Columns: instruction.*mean 'context'"):
        first(tmp_path, ROWS["dolly"], prompt_field="contxt")
    (tmp_path / "b.jsonl").write_text('{"q": "x"}\n{"p": "y"}\n', "utf-8")
    with pytest.raises(ValueError, match="line 2: expected the fields q as in .*line 1, got p"):
        load_prompts(tmp_path / "b.jsonl", prompt_field="q")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"messages": ["x", {"role": "user", "content": "y"}]}, 'turn 1 of messages: expected {"role"'),
        ({"messages": [{"role": "user", "content": 3}]}, "content must be text, got int"),
        ({"messages": [{"speaker": "user", "content": "x"}]}, 'expected {"role"'),
        ({"turns": [["x"]]}, "turn 1 of turns: expected"),
        ({"question": 5}, "question must be text"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "half a surrogate pair"),
        ({"text": "x"}, "name the column to take (--prompt-field)"),
    ],
)
def test_turns_that_are_none(row, words, tmp_path):
    with pytest.raises(ValueError) as caught:
        first(tmp_path, row)
    assert words in str(caught.value) and "a.jsonl, line 1" in str(caught.value)


def test_nobody_asks(tmp_path):
    for row in ({"messages": []}, {"messages": [{"role": "assistant", "content": "x"}]}, {"turns": ["", None]}):
        prompt, source = first(tmp_path, row)
        assert prompt.text == "" and source["empty"] == 1
        assert bool(source["left_out"]) == ("assistant" in json.dumps(row))


def test_a_turn_without_content_asks_nothing(tmp_path):
    user, answer = ({"role": role, "content": f"w{role}"} for role in ("user", "assistant"))
    prompt, source = first(tmp_path, {"messages": [user, answer, user | {"content": None}]})
    assert prompt.text == "wuser" and source["left_out"] == {"messages after the last question": 1}
    prompt, source = first(tmp_path, {"messages": [user, answer | {"content": ""}]})
    assert prompt.text == "wuser" and source["left_out"] == {}
    turns = [{"from": "human", "value": ""}, {"from": "human", "value": "x"}]
    prompt, source = first(tmp_path, {"conversations": turns})
    assert prompt.text == "x" and source["left_out"] == {}


def test_roles_are_known_however_they_are_written_and_others_are_named(tmp_path):
    for user, other in (("User", "Assistant"), ("Human", "GPT"), ("prompter", "bot")):
        turns = [{"from": user, "value": "x"}, {"from": other, "value": "y"}]
        prompt, source = first(tmp_path, {"conversations": turns})
        assert prompt.text == "x" and source["left_out"] == {"conversations after the first question": 1}
    turns = [{"from": "alice", "value": "x"}, {"from": "bob", "value": "y"}]
    prompt, source = first(tmp_path, {"conversations": turns})
    assert prompt.text == "" and source["left_out"] == {"conversations in which no user asks (roles: alice, bob)": 1}


def test_an_input_without_an_instruction_is_all_that_is_asked(tmp_path):
    assert first(tmp_path, {"instruction": "", "input": "wput"})[0].user_turn == "wput"


# --- tables and texts -------------------------------------------------------------------------------------------------


def test_a_table_of_texts_is_read_as_its_rows_elsewhere(tmp_path):
    rows = [
        {"instruction": 'Say, "wave"\nand nod', "input": "", "output": "é \u2028 ,"},
        {"instruction": "Nod", "input": " x ", "output": ""},
    ]
    for ending, separator in ((".csv", ","), (".tsv", "\t")):
        out = io.StringIO(newline="")
        writer = csv.DictWriter(out, rows[0], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
        (tmp_path / f"a{ending}").write_bytes(b"\xef\xbb\xbf" + (out.getvalue() + "\r\n").encode())
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    found = [load_prompts(tmp_path / f"a{ending}") for ending in (".csv", ".tsv", ".json")]
    assert found[0].prompts == found[1].prompts == found[2].prompts
    assert [each.source["left_out"] for each in found] == [{"output": 1}] * 3
    assert [each.source["blank_lines"] for each in found] == [1, 1, 0]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_with_the_separator_of_its_first_line(separator, tmp_path):
    lines = (separator.join(cells) for cells in (('"a,b"', "prompt"), ("1", '"x, y; z"')))
    (tmp_path / "a.csv").write_text("\n" + "\n".join(lines) + "\n", "utf-8")
    found = load_prompts(tmp_path / "a.csv")
    assert [prompt.text for prompt in found] == ["x, y; z"] and found.source["left_out"] == {"a,b": 1}


TURNS = [{"role": "user", "content": "wone"}, {"role": "assistant", "content": "wans"}]


@pytest.mark.parametrize(
    ("column", "value", "text", "chat_only"),
    [
        ("messages", TURNS, "wone", True),
        ("conversations", [{"from": "human", "value": "wone"}], "wone", False),
        ("turns", ["wone", "wtwo"], "wone", False),
        ("prompt", TURNS, "wone", True),
        ("prompt", ["wone"], '["wone"]', False),  # may be meant as it stands
        ("prompt", [1, 2], "[1, 2]", False),
    ],
)
def test_a_list_in_a_table_of_texts_is_the_list(column, value, text, chat_only, tmp_path):
    with open(tmp_path / "a.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[column], [json.dumps(value)]])
    (found,) = load_prompts(tmp_path / "a.csv")
    assert (found.text, found.chat_only) == (text, chat_only)


def test_a_long_cell_and_a_column_without_a_name(tmp_path):
    (tmp_path / "a.csv").write_text(f",prompt\n0,{'x' * 200_000}\n", "utf-8")
    found = load_prompts(tmp_path / "a.csv")
    assert len(found.prompts[0].text) == 200_000 and found.source["left_out"] == {"column 1": 1}
    assert csv.field_size_limit() == 131_072


def test_a_text_file_is_a_prompt_a_line_as_it_stands(tmp_path):
    (tmp_path / "a.txt").write_bytes('\ufeff one \u2028 two\r\n\n{"prompt": 1}\n   \nlast'.encode())
    found = load_prompts(tmp_path / "a.txt")
    assert [prompt.text for prompt in found] == [" one \u2028 two", '{"prompt": 1}', "last"]
    assert (found.source["blank_lines"], found.source["format"], found.source["left_out"]) == (2, "plain", {})


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"prompt,answer\nx,y,z\n", ["line 2: 3 cells, but 2 columns (prompt, answer)"]),
        ("a.csv", b'prompt,answer\n"a\nb",c\nd\n', ["line 4: 1 cells"]),
        ("a.csv", b"prompt,prompt\nx,y\n", ["line 1: two columns are named 'prompt'"]),
        ("a.csv", b'prompt\n"x"y\n', ["line 2: no readable table"]),
        ("a.csv", b'prompt\n"x\n', ["no readable table"]),
        ("a.csv", b"id;prompt\n1;x;y\n", ["line 2: 3 cells, but 2 columns", "Put a text that holds ';' in quotes"]),
        ("a.csv", b"messages\n\"[{'role': 'user', 'content': 'x'}]\"\n", ["line 2: messages", "no JSON"]),
        ("a.csv", b"turns\n['x' 'y']\n", ["line 2: turns looks like a list and is no JSON", "double quotes"]),
        ("a.csv", b"prompt\n", ["no rows"]),
        ("a.tsv", b"prompt\n\xff\n", ["not UTF-8"]),
        ("a.txt", b"\n\n", ["no rows"]),
        ("a.txt", b"ok\n\xff\n", ["a.txt, line 2", "not UTF-8"]),
        ("a.jsonl", b'{"prompt": "a", "prompt": "b"}\n', ["line 1", "the field 'prompt' is there twice"]),
    ],
)
def test_bad_tables(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load_prompts(tmp_path / name)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path):
    table = pa.table({"prompt": ["x"]}).append_column("prompt", pa.array(["y"]))
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="two columns are named 'prompt'"):
        load_prompts(tmp_path / "a.parquet")


# --- the hub ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    """A hub with one data set of a single split, `train`; what was asked of it."""
    import datasets

    from oracle.prompts import hub as prompt_hub

    asked = []

    def load(hub_id, config, split, revision):
        asked.append((hub_id, config, split))
        if config == "missing":
            raise ValueError(
                "Config name is missing.\nPlease pick one among the available configs: ['main', 'b']\nExample"
            )
        if split != "train":
            raise ValueError(f"Unknown split {split!r}. Should be one of ['train'].")
        return datasets.Dataset.from_dict(
            {"id": [7, 7], "question": ["q", "r"], "answer": ["a", None], "hint": ["", "h"]}
        )

    monkeypatch.setattr(datasets, "load_dataset", load)
    monkeypatch.setattr(prompt_hub, "probe_hub", lambda *given: (None, "d" * 40))
    return asked


def test_any_data_set_of_the_hub(hub):
    found = load_prompts("org/sums-v1.1")
    assert [prompt.text for prompt in found] == ["q", "r"] and [prompt.id for prompt in found] == ["0", "1"]
    assert hub == [("org/sums-v1.1", None, "test"), ("org/sums-v1.1", None, "train")]
    assert (found.source["split"], found.source["left_out"]) == ("train", {"id": 2, "answer": 1, "hint": 1})
    hints = load_prompts("org/sums:main", split="train", prompt_field="hint", limit=1)
    assert (hints.name, hints.source["config"], [prompt.text for prompt in hints]) == ("org/sums-main", "main", [""])
    with pytest.raises(ValueError, match=r"split tests\) does not exist.*Should be one of \['train'\]"):
        load_prompts("org/sums", split="tests")
    with pytest.raises(ValueError, match=r"name one, as org/sums:NAME.*\['main', 'b'\]"):
        load_prompts("org/sums:missing")


def test_a_folder_that_is_there_makes_it_a_path(hub, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="mine/prompts: unknown ending"):
        load_prompts("mine/prompts")
    with pytest.raises(ValueError, match=r"a/b.jsnl: unknown ending '.jsnl'"):
        load_prompts("a/b.jsnl")
    assert hub == []

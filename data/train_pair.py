"""Make the embedded pair, stage by stage: tokenizer, target, texts, draft; `check` measures the result.

Everything but the finished pair goes to a work directory; an interrupted training goes on with `--resume`.
"""

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pair_check
import torch
import typer
from pair_corpus import build_corpus
from pair_distil import Texts, distillation_loss, join, read, say
from pair_training import EOS_ID, VOCABULARY, WORKERS, Log, LossesOfStep, export, llama, train
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from oracle.prompts.sets import DEMOS, load_prompts

EOS = "<|endoftext|>"
LENGTH = 256  # tokens of a training row
HELD_OUT = 400  # documents that nothing is trained on
LONGEST_PROMPT = 160
NEW_TOKENS = 128
FORMS = ("code", "text")

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Work = Annotated[Path, typer.Option(help="Directory of checkpoints, logs and intermediate data.")]
Out = Annotated[Path, typer.Option(help="Directory of the finished pair.")]
Resume = Annotated[bool, typer.Option(help="Go on after the last checkpoint in the work directory.")]
Seed = Annotated[int, typer.Option(help="Seed of the weights and of the order of the data.")]
WORK, OUT = Path("pair-work"), Path(__file__).parent / "pair"


@app.command()
def tokenizer(work: Work = WORK, out: Out = OUT, seed: Seed = 0) -> None:
    """Build the corpus, learn its vocabulary and store the documents as token ids."""
    work.mkdir(parents=True, exist_ok=True)
    documents = build_corpus(seed)
    bpe = learn_bpe([d.prompt + d.answer for d in documents])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=EOS, pad_token=EOS, model_max_length=1024, clean_up_tokenization_spaces=False
    )
    for name in ("target", "draft"):
        fast.save_pretrained(out / name)
    with (work / "documents.jsonl").open("w") as file:
        for d in documents:
            row = {"form": d.form, "prompt": bpe.encode(d.prompt).ids, "answer": bpe.encode(d.answer).ids}
            file.write(json.dumps(row) + "\n")
    rows = read_documents(work)
    print(
        f"{len(rows)} documents, {sum(len(r['prompt']) + len(r['answer']) + 1 for r in rows)} tokens, "
        f"median answer {np.median([len(r['answer']) for r in rows]):.0f} tokens"
    )


def learn_bpe(texts: list[str]) -> Tokenizer:
    """A byte-level BPE of `VOCABULARY` entries, the first of them EOS; it decodes to the very text it encoded."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY, special_tokens=[EOS], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return bpe


def read_documents(work: Path) -> list[dict]:
    """Documents as token ids: `form`, `prompt`, `answer`; the first `HELD_OUT` are for checks."""
    with (work / "documents.jsonl").open() as file:
        return [json.loads(line) for line in file]


@app.command()
def target(
    work: Work = WORK, out: Out = OUT, tokens: int = 1_843_200, batch: int = 8, seed: Seed = 0, resume: Resume = False
) -> None:
    """Train the target on packed documents and export it."""
    torch.manual_seed(seed)
    documents = read_documents(work)
    model = LlamaForCausalLM(llama(layers=10, width=256, heads=4))
    rows = packed_rows(documents[HELD_OUT:], tokens, seed)
    held_out = packed_rows(documents[:HELD_OUT], 64 * LENGTH, seed)

    def loss_of(chosen: np.ndarray) -> Tensor:
        ids = torch.from_numpy(chosen)
        return model(input_ids=ids, labels=ids).loss

    train(
        model,
        len(rows) // batch,
        in_parts(rows, batch, loss_of),
        (0.02, 4e-3),
        Log(work / "target", resume, lambda: loss_of(held_out).item()),
    )
    export(model, out / "target")


def packed_rows(documents: list[dict], tokens: int, seed: int) -> np.ndarray:
    """int64 [tokens // LENGTH, LENGTH]: documents one after the other, in a new order each time round."""
    draw, stream = random.Random(seed), []
    while len(stream) < tokens:
        for d in draw.sample(documents, len(documents)):
            stream += [*d["prompt"], *d["answer"], EOS_ID]
    rows = tokens // LENGTH
    return np.array(stream[: rows * LENGTH], dtype=np.int64).reshape(rows, LENGTH)


def in_parts(rows: np.ndarray, batch: int, loss_of: Callable[[np.ndarray], Tensor]) -> LossesOfStep:
    """The losses of a step: those of its rows, one part for each worker."""

    def losses(step: int) -> list[Callable[[], Tensor]]:
        return [partial(loss_of, part) for part in np.array_split(rows[step * batch : (step + 1) * batch], WORKERS)]

    return losses


@app.command()
def texts(work: Work = WORK, out: Out = OUT, prompts: int = 512, documents: int = 1000, seed: Seed = 0) -> None:
    """Let the exported target continue `prompts`, a quarter of them sampled for variety, and read `documents`."""
    torch.manual_seed(seed)
    model, all_documents = load(out / "target"), read_documents(work)
    usable = [d for d in all_documents[HELD_OUT:] if len(d["prompt"]) <= LONGEST_PROMPT and len(d["answer"]) <= LENGTH]
    chosen = random.Random(seed).sample(usable, prompts + documents)
    first, given = [d["prompt"] for d in chosen[:prompts]], chosen[prompts:]
    said = [
        say(model, first[prompts // 4 :], NEW_TOKENS),
        say(model, first[: prompts // 4], NEW_TOKENS, greedy=False),
        read(model, [d["prompt"] for d in given], [[*d["answer"], EOS_ID] for d in given]),
    ]
    join(said).save(work / "texts.npz")
    held_out = [d["prompt"] for d in all_documents[:64] if len(d["prompt"]) <= LONGEST_PROMPT]
    say(model, held_out, NEW_TOKENS).save(work / "held_out_texts.npz")


def load(directory: Path) -> LlamaForCausalLM:
    """An exported model, in float32 as it is run."""
    return LlamaForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


@app.command()
def draft(
    work: Work = WORK, out: Out = OUT, width: int = 96, tokens: int = 1_200_000, batch: int = 16, seed: Seed = 0
) -> None:
    """Train a draft of one layer on the target's texts, round after round until `tokens` of answers, and export it."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(llama(layers=1, width=width, heads=2))
    said, held_out = Texts.load(work / "texts.npz"), Texts.load(work / "held_out_texts.npz")
    rounds = max(1, round(tokens / said.answered.sum()))
    draw = np.random.default_rng(seed)
    rows = np.concatenate([draw.permutation(len(said.ids)) for _ in range(rounds)])

    def loss_of(chosen: np.ndarray) -> Tensor:
        return distillation_loss(model, said, chosen)

    train(
        model,
        len(rows) // batch,
        in_parts(rows, batch, loss_of),
        (0.02, 4e-3),
        Log(work / "draft", False, lambda: distillation_loss(model, held_out, np.arange(len(held_out.ids))).item()),
    )
    export(model, out / "draft")


@app.command()
def check(
    work: Work = WORK,
    out: Out = OUT,
    prompts: int = 24,
    show: Annotated[int, typer.Option(help="Print so many answers of each set.")] = 0,
) -> None:
    """Measure agreement, endings, step costs and sizes with the exported files."""
    both = [load(out / "target"), load(out / "draft")]
    words = PreTrainedTokenizerFast.from_pretrained(out / "target")
    documents = [d for d in read_documents(work)[:HELD_OUT] if len(d["prompt"]) <= LONGEST_PROMPT]
    sets = {f"held-out {form}": [d["prompt"] for d in documents if d["form"] == form][:prompts] for form in FORMS}
    sets |= {name: [words.encode(prompt.text) for prompt in load_prompts(name)] for name in DEMOS}
    said = {name: say(both[0], chosen, NEW_TOKENS) for name, chosen in sets.items()}
    for name, answers in said.items():
        for ids in answers.ids[:show]:
            print(f"--- {name}\n{words.decode(ids, skip_special_tokens=True)}\n")
    print(*pair_check.lines({name: pair_check.figures(both[1], t) for name, t in said.items()}), sep="\n")
    target_ms, draft_ms = pair_check.step_ms(both)
    print(f"\nstep: target {target_ms:.2f} ms, draft {draft_ms:.2f} ms, ratio {draft_ms / target_ms:.3f}")
    parameters = [model.num_parameters() for model in both]
    print(f"parameters: target {parameters[0]}, draft {parameters[1]}; size {pair_check.megabytes(out):.1f} MB")


if __name__ == "__main__":
    app()

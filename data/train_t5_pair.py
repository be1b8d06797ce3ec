"""Make the embedded encoder-decoder pair: a T5 that answers the corpus's prompts, and a smaller T5 that learns from it.

The tokenizer is that of the decoder-only pair.  The encoder reads a prompt, the decoder says its answer; the draft
learns from the target's probabilities on the same documents.  A few minutes each on two cores.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from pair_corpus import build_corpus
from pair_training import EOS_ID, VOCABULARY, Log, export, train
from torch import Tensor
from torch.nn.functional import kl_div
from train_pair import HELD_OUT, in_parts
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

HERE = Path(__file__).parent
LONGEST_PROMPT, LONGEST_ANSWER = 96, 128  # tokens; the rest of a document is left out
IGNORED = -100  # label of what is no token of an answer

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
Work = Annotated[Path, typer.Option(help="Directory of checkpoints and logs.")]
Out = Annotated[Path, typer.Option(help="Directory of the finished pair.")]
Steps = Annotated[int, typer.Option(help="Steps of 16 documents.")]
Seed = Annotated[int, typer.Option(help="Seed of the weights and of the order of the data.")]
WORK, OUT, BATCH = Path("t5-work"), HERE / "pair-t5", 16


def t5(layers: int, width: int, heads: int) -> T5Config:
    """T5 with tied embeddings, as many layers in its encoder as in its decoder, gated as flan-t5 is."""
    return T5Config(
        vocab_size=VOCABULARY,
        d_model=width,
        d_kv=width // heads,
        d_ff=2 * width,
        num_layers=layers,
        num_decoder_layers=layers,
        num_heads=heads,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        pad_token_id=EOS_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=EOS_ID,
    )


def documents(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and answers as token ids, int64 [documents, LONGEST_PROMPT] and [documents, LONGEST_ANSWER].

    Prompts are padded with EOS, answers end in it and are padded with IGNORED.
    """
    words = PreTrainedTokenizerFast.from_pretrained(HERE / "pair" / "target")
    found = build_corpus(seed)
    prompts = np.full((len(found), LONGEST_PROMPT), EOS_ID)
    answers = np.full((len(found), LONGEST_ANSWER), IGNORED)
    for row, document in enumerate(found):
        prompt = words.encode(document.prompt)[:LONGEST_PROMPT]
        answer = [*words.encode(document.answer), EOS_ID][:LONGEST_ANSWER]
        prompts[row, : len(prompt)], answers[row, : len(answer)] = prompt, answer
    return prompts, answers


def batches(rows: int, steps: int, seed: int) -> np.ndarray:
    """int64 [steps * BATCH]: document numbers, in a new order each time round; the first HELD_OUT are left out."""
    draw, order = random.Random(seed), []
    while len(order) < steps * BATCH:
        order += draw.sample(range(HELD_OUT, rows), rows - HELD_OUT)
    return np.array(order[: steps * BATCH])


def inputs(data: tuple[np.ndarray, np.ndarray], chosen: np.ndarray) -> dict[str, Tensor]:
    """What both models are given of some documents, cut to their longest prompt and answer."""
    prompts, answers = (torch.from_numpy(part[chosen]) for part in data)
    seen = prompts != EOS_ID
    width, height = int(seen.sum(1).max()), int((answers != IGNORED).sum(1).max())
    labels = answers[:, :height].contiguous()
    return {"input_ids": prompts[:, :width], "attention_mask": seen[:, :width].long(), "labels": labels}


def run(model: T5ForConditionalGeneration, loss_of: Callable, rows: int, steps: int, work: Path, seed: int) -> None:
    """Train with the optimisers of the decoder-only pair."""
    held_out = np.arange(64)
    log = Log(work, False, lambda: loss_of(held_out).item())
    train(model, steps, in_parts(batches(rows, steps, seed), BATCH, loss_of), (0.02, 4e-3), log)


def ship(model: T5ForConditionalGeneration, folder: Path) -> None:
    """Export the weights, and the tokenizer beside them."""
    export(model, folder)
    model.generation_config.decoder_start_token_id = EOS_ID
    model.generation_config.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(HERE / "pair" / "target" / name, folder / name)


@app.command()
def target(work: Work = WORK, out: Out = OUT, steps: Steps = 400, seed: Seed = 0) -> None:
    """Train the target on the corpus and export it."""
    torch.manual_seed(seed)
    data, model = documents(seed), T5ForConditionalGeneration(t5(layers=3, width=96, heads=4))

    def loss_of(chosen: np.ndarray) -> Tensor:
        return model(**inputs(data, chosen)).loss

    run(model, loss_of, len(data[0]), steps, work / "target", seed)
    ship(model, out / "target")


@app.command()
def draft(work: Work = WORK, out: Out = OUT, steps: Steps = 240, seed: Seed = 0) -> None:
    """Train the draft on what the exported target makes of the corpus, and export it."""
    torch.manual_seed(seed)
    teacher = T5ForConditionalGeneration.from_pretrained(out / "target", dtype=torch.float32).eval()
    data, model = documents(seed), T5ForConditionalGeneration(t5(layers=1, width=48, heads=2))

    def loss_of(chosen: np.ndarray) -> Tensor:
        given = inputs(data, chosen)
        answered = given["labels"] != IGNORED
        with torch.no_grad():
            wanted = teacher(**given).logits[answered].log_softmax(-1)
        said = model(**given).logits[answered].log_softmax(-1)
        return kl_div(said, wanted, log_target=True, reduction="batchmean")

    run(model, loss_of, len(data[0]), steps, work / "draft", seed)
    ship(model, out / "draft")


if __name__ == "__main__":
    app()

"""A tokenizer of 97 words, small ones of every kind that is in use, and checkpoints on disk."""

import base64
import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = ["<pad>", "<s>", "</s>", *(f"w{n}" for n in range(3, 97))]
SPECIAL_WORDS = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}


def word_tokenizer(words=WORDS, begin=True, **options):
    """One token a word; begins every text with <s> if asked."""
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if begin:
        core.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL_WORDS, **options)


def save(folder, model, tokenizer=None):
    model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    return folder


LETTERS = sorted(set("def add(a, b): return a + b 1 22 333"))
MARKS = ("<pad>", "<s>", "</s>", "<tool>", "<unused7>")  # special ones, ids 0 to 4


def byte_level(marks=MARKS, swap=(), whole=True):
    """As GPT-2's: bytes, and what they merge to."""
    return _tokenizer("ĠĊ", ["de", "re"], [("d", "e"), ("r", "e")], marks, swap, whole, pre_tokenizers.ByteLevel)


def sentence_pieces(marks=MARKS, swap=(), whole=True):
    """As Llama's: characters with a mark for the space, and what they merge to."""
    return _tokenizer("▁", ["de", "re"], [("d", "e"), ("r", "e")], marks, swap, whole, pre_tokenizers.Metaspace)


def _tokenizer(more, pieces, merges, marks, swap, whole, split):
    words = _words([*marks, *LETTERS, *more, *pieces], swap)
    core = Tokenizer(models.BPE(words, merges if whole else [], unk_token="<pad>"))
    byte = split is pre_tokenizers.ByteLevel
    core.pre_tokenizer = split(add_prefix_space=False) if byte else split()
    core.decoder = decoders.ByteLevel() if byte else decoders.Metaspace()
    return _with_marks(core, marks)


def unigram(marks=MARKS, swap=(), whole=True):
    """As T5's: pieces with scores."""
    words = _words([*marks, "▁", *LETTERS, "de", "re"], swap)
    core = Tokenizer(models.Unigram([(word, -1.0 if whole or len(word) == 1 else -99.0) for word in words], unk_id=0))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return _with_marks(core, marks)


def word_pieces(marks=MARKS, swap=(), whole=True):
    """As BERT's: beginnings of words, and what goes on with them."""
    words = _words([*marks, *LETTERS, *(f"##{letter}" for letter in LETTERS), "de", "##dd"], swap)
    core = Tokenizer(models.WordPiece(words, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if whole else pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.WordPiece()
    return _with_marks(core, marks)


def word_level(marks=MARKS, swap=(), whole=True):
    """One token a word."""
    words = _words([*marks, "def", "return", "a", "b", "d"], swap)
    core = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace() if whole else pre_tokenizers.Split("", "isolated")
    return _with_marks(core, marks)


def _words(listed, swap):
    """Word -> id, those of ``swap`` in each other's place."""
    words = {word: number for number, word in enumerate(dict.fromkeys(listed))}
    if swap:
        words[swap[0]], words[swap[1]] = words[swap[1]], words[swap[0]]
    return dict(sorted(words.items(), key=lambda item: item[1]))


def _with_marks(core, marks):
    extra = list(marks[3:])
    return PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL_WORDS, additional_special_tokens=extra)


def write_tekken(folder, marks=MARKS, swapped=()):
    """The one file of a tokenizer that Mistral's own programme reads: bytes (two may be swapped), and their merges."""
    named = [{"rank": n, "token_str": mark, "is_control": True} for n, mark in enumerate(marks)]
    pieces = [bytes([n]) for n in range(256)] + [b"th", b" t", b"the", b" the"]
    if swapped:
        pieces[swapped[0]], pieces[swapped[1]] = pieces[swapped[1]], pieces[swapped[0]]
    listed = [{"rank": n, "token_bytes": base64.b64encode(one).decode()} for n, one in enumerate(pieces)]
    sizes = {"num_vocab_tokens": 260, "default_vocab_size": 260 + len(marks), "default_num_special_tokens": len(marks)}
    config = {"pattern": r"\p{L}+| ?\p{L}+|\p{N}|\s+|[^\s\p{L}\p{N}]+", "version": "v7", **sizes}
    content = {"config": config, "vocab": listed, "special_tokens": named}
    (folder / "tekken.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


TOKENIZERS = {
    "byte level": byte_level,
    "sentence pieces": sentence_pieces,
    "unigram": unigram,
    "word pieces": word_pieces,
    "words": word_level,
}

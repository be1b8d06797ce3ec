"""A tokenizer of 97 words, and checkpoints on disk."""

from tokenizers import Tokenizer, models, pre_tokenizers, processors
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

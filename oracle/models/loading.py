"""Models and tokenizers from a local directory, the hub or its cache: quickly, safely, with one error that helps."""

from __future__ import annotations

import contextlib
import queue
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oracle.models import compat
from oracle.models.kinds import check_file, check_heads, check_kind
from oracle.models.tokens import Vocabulary
from oracle.models.untrusted import (
    CODE_REFUSED,
    Refused,
    check_config,
    check_tokenizer,
    check_weights,
    config_dict,
    no_conversion,
    no_questions,
    own_file,
)
from oracle.models.weights import PICKLED, are_pickled, check_pickles

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

PROBE_SECONDS = 5.0
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
# What a folder may hold that a tokenizer is made of, whatever its format is called next.
_TOKENIZER_LIKE = re.compile(r"tok|vocab|merges|tekken|piece|spm|bpe|\.model$|\.tiktoken$", re.I)
_LOCAL = (
    "give a local directory with config.json, weights (model.safetensors or pytorch_model.bin, whole or in shards with "
    "their index) and the tokenizer's files"
)


def locate(source: str) -> dict[str, bool]:
    """Arguments that load ``source`` without waiting: directories and unreachable hubs are read from the disk only.

    The library itself retries an unreachable hub for half a minute per file.  Raises ValueError for a path that is no
    directory.
    """
    if Path(source).expanduser().is_dir():
        return {"local_files_only": True}
    if Path(source).expanduser().exists():
        check_file(source)
        raise ValueError(f"{source}: a file, not a directory; {_LOCAL}")
    if source.startswith((".", "~", "/", "\\")) or source.count("/") > 1:
        raise ValueError(f"{source}: no such directory; {_LOCAL}, or a hub name like org/model")
    return {"local_files_only": _hub_problem(source) is not None}


def load_config(source: str, where: dict[str, bool]) -> PreTrainedConfig:
    """The model's configuration.

    Raises ValueError where there is none, where the library does not know its kind, and for what is no language model.
    """
    from transformers import AutoConfig

    _expect_model(source, where)
    with _explained(source, where):
        config = AutoConfig.from_pretrained(_path(source), trust_remote_code=False, **where)
        check_config(source, config)
        return compat.told_rope(config)


def load_tokenizer(source: str, where: dict[str, bool]) -> PreTrainedTokenizerBase | None:
    """The tokenizer, or None where there is none (prompts are token ids then).

    The library is asked, whatever the files are called; where there are none it makes a tokenizer of special tokens up,
    which counts as none.  Raises ValueError for one that is there and cannot be loaded.
    """
    if _is_dir(source) and not any(map(_TOKENIZER_LIKE.search, _file_names(source))):
        return None
    with _explained(source, where, "its tokenizer cannot be loaded"):
        loader = compat.tokenizer_loader(check_tokenizer(_path(source), where))
        found = loader.from_pretrained(_path(source), trust_remote_code=False, **where)
    return found if Vocabulary(found).text() else None


def cached_folder(name: str) -> str | None:
    """Where the hub's cache keeps the tokenizer of the model of that name; None where it does not.

    The cache only: never the network, and never a folder that is called like the model.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = (try_to_load_from_cache(name, file) for file in _TOKENIZER_FILES)
        return next((str(Path(path).parent) for path in found if isinstance(path, str)), None)
    except HFValidationError:  # no name of a model
        return None


def load_model(source: str, where: dict[str, bool], dtype: str, device: str) -> PreTrainedModel:
    """A causal language model or an encoder-decoder in evaluation mode; one that sees or hears too is given text only.

    Weights are read from safetensors, or where there are none from pickles by torch's weights-only reader; code of the
    checkpoint is never run, and a model that is quantised or spread over devices stays where its loader put it.
    """
    config = load_config(source, where)
    if _is_dir(source):
        _expect_weights(source)
    _expect_generation_config(source, where)
    with _explained(source, where), _quiet(), no_conversion():
        check_weights(_path(source), config, where)
        if pickled := are_pickled(_path(source), config, where):
            check_heads(source, check_pickles(_path(source), where))
            where = {"local_files_only": True}  # what was checked, and not another copy of it
        loaded: Any = _loader(source, config).from_pretrained(
            _path(source),
            config=config,  # what was checked, and not another reading of it
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=not pickled,
            output_loading_info=True,
            **where,
        )
    model, found = loaded
    if found["missing_keys"]:
        some = ", ".join(sorted(found["missing_keys"])[:3])
        raise ValueError(f"{source}: the checkpoint lacks {len(found['missing_keys'])} weights ({some}); get it again")
    if getattr(model, "hf_device_map", None) is None and not getattr(model, "is_quantized", False):
        model = model.to(device)
    return model.eval()


def _loader(source: str, config: PreTrainedConfig) -> Any:
    """The library's loader of models of this kind that go on with a text.  Raises Refused where it has none."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING,
        MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    )

    if config.is_encoder_decoder:  # of some, as BART, there is a causal language model too, which is its decoder alone
        if type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
            return AutoModelForSeq2SeqLM
        raise Refused(f"{source}: is a {config.model_type} model, which does not answer text with text; choose another")
    if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM
    loader, kinds = compat.seeing_models()
    if type(config) in kinds:
        return loader
    raise Refused(
        f"{source}: is a {config.model_type} model, and none that goes on with a text; choose a causal language model"
    )


def check_device(device: str) -> None:
    """Raise ValueError unless tensors can be put there and read again."""
    import torch

    try:
        torch.zeros(1, device=device).item()  # read back: the meta device takes tensors and holds nothing
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device {device!r} cannot be used ({_first_line(error)}); cpu always can") from None


def _expect_model(source: str, where: dict[str, bool]) -> None:
    """Raise ValueError, saying what it is, for a checkpoint of another programme, an adapter or a head."""
    config = None
    with contextlib.suppress(Exception):  # the loader says it better
        config = config_dict(_path(source), where) or None
    if _is_dir(source):
        check_kind(source, _file_names(source), config)
    elif config is not None or not where["local_files_only"]:
        telling = ("adapter_config.json", "params.json")
        check_kind(source, [name for name in telling if own_file(source, name, where)], config)


def _expect_generation_config(source: str, where: dict[str, bool]) -> None:
    """Raise ValueError where the library cannot read the generation settings, which it would read with the weights."""
    from transformers import GenerationConfig

    reader: Any = GenerationConfig
    if own_file(_path(source), "generation_config.json", where):
        with _explained(source, where, "correct or remove its generation_config.json, which cannot be read"):
            reader.from_pretrained(_path(source), trust_remote_code=False, **where)


def _file_names(source: str) -> list[str]:
    return [path.name for path in Path(source).expanduser().iterdir()]


def _is_dir(source: str) -> bool:
    return Path(source).expanduser().is_dir()


def _path(source: str) -> str:
    return str(Path(source).expanduser()) if _is_dir(source) else source


def _expect_weights(source: str) -> None:
    folder = Path(source).expanduser()
    if any(folder.glob("*.safetensors")):
        check_heads(source, _weights_of_one_file(folder))
    elif not any((folder / name).is_file() for name in PICKLED):
        raise ValueError(f"{source}: no *.safetensors in there, and no {PICKLED[0]}; {_LOCAL}")


def _weights_of_one_file(folder: Path) -> set[str]:
    """Names of the weights where one file holds them all, as it does for a head; a damaged one is the loader's."""
    from safetensors import SafetensorError, safe_open

    files = list(folder.glob("*.safetensors"))
    if len(files) > 1:
        return set()
    with contextlib.suppress(SafetensorError, OSError), safe_open(files[0], "pt") as weights:
        return set(weights.keys())
    return set()


def _hub_problem(source: str) -> str | None:
    """Why the hub cannot provide a model now; None where it can.  Asked in a thread: name servers obey no timeout."""
    answers: queue.Queue[str | None] = queue.Queue()

    def ask() -> None:
        from huggingface_hub import HfApi

        try:
            HfApi().model_info(source, timeout=PROBE_SECONDS)
            answers.put(None)
        except Exception as error:  # whatever it is, the hub does not provide the model now
            answers.put(f"{type(error).__name__}: {_first_line(error)}")

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=PROBE_SECONDS)
    except queue.Empty:
        return f"no answer within {PROBE_SECONDS:g} s"


@contextlib.contextmanager
def _explained(source: str, where: dict[str, bool], what: str = "cannot be loaded") -> Iterator[None]:
    """Turn whatever the libraries raise (they share no base class) into one ValueError, and let none of them ask."""
    try:
        with no_questions():
            yield
    except Refused:
        raise
    except Exception as error:
        if "trust_remote_code" in str(error):
            raise ValueError(f"{source}: {CODE_REFUSED}") from error
        if not _is_dir(source) and where["local_files_only"]:
            problem = _hub_problem(source)
            raise ValueError(
                f"{source}: neither a local directory nor in the hub's cache, and the hub does not provide it "
                f"({problem}); {_LOCAL}"
            ) from error
        raise ValueError(f"{source}: {what} ({_first_line(error)})") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The library's own progress bars only where somebody watches them."""
    from transformers.utils import logging

    if sys.stderr.isatty() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _first_line(error: BaseException) -> str:
    """What an error says first; a line that ends in a colon announces the next one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]

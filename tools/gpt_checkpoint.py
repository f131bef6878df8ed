"""Reads the checkpoint of a small GPT training script and gives GPT-2 tensors as Hugging Face
names and lays them out."""

import dataclasses
import pathlib
import pickle
import re

import safetensors.torch
import torch

_NESTED = ("model", "state_dict", "model_state_dict", "module")
_SETTINGS = ("model_args", "config", "hparams", "args")
_HEAD_KEYS = ("n_head", "n_heads", "num_heads", "num_attention_heads", "heads")


class CheckpointError(Exception):
    """The checkpoint or tokenizer cannot be imported; the message says why and what to do."""


@dataclasses.dataclass
class Shape:
    layers: int
    width: int
    inner: int
    vocab: int
    context: int
    heads: int
    tied: bool


def read_file(path: pathlib.Path):
    """(state dict, settings) of a .safetensors file or of a torch.save file. No code in the file is
    ever run: only tensors and plain containers are read."""
    if not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}")
    if path.suffix == ".safetensors":
        return safetensors.torch.load_file(path), {}
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path} holds Python objects besides tensors and plain values, and they are not "
            "loaded because that could run code. Save it again as torch.save({'model': "
            "model.state_dict(), 'model_args': dict(n_head=...)}, path). Details: "
            f"{str(error).splitlines()[0]}") from None
    except (RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} is not a PyTorch checkpoint: {error}") from None
    return _split(path, content)


def _split(path: pathlib.Path, content):
    settings = {}
    while isinstance(content, dict) and not any(torch.is_tensor(v) for v in content.values()):
        for key in _SETTINGS:
            if isinstance(content.get(key), dict):
                settings = {**content[key], **settings}
        inner = next((content[k] for k in _NESTED if isinstance(content.get(k), dict)), None)
        if inner is None:
            raise CheckpointError(f"{path} has no state dict; its keys are "
                                  f"{', '.join(map(str, content))}; expected tensors, or one of "
                                  f"{', '.join(_NESTED)}")
        content = inner
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}; expected a state dict")
    return {str(k): v for k, v in content.items() if torch.is_tensor(v)}, settings


def strip_prefix(state: dict) -> dict:
    """Names from `wte.weight` on, whatever stood before (`_orig_mod.`, `module.transformer.`), and
    without the causal mask buffers."""
    anchors = [name for name in state if name == "wte.weight" or name.endswith(".wte.weight")]
    if len(anchors) != 1:
        raise CheckpointError(f"the checkpoint has {len(anchors)} tensors named wte.weight; "
                              f"expected 1. Its first names: {', '.join(list(state)[:5])}")
    prefix = anchors[0][:-len("wte.weight")]
    result = {}
    for name, tensor in state.items():
        head = re.search(r"(^|\.)(lm_head\.(?:weight|bias))$", name)
        if re.search(r"\.attn\.(bias|masked_bias)$", name) and tensor.dim() != 1:
            continue
        if head:
            result[head.group(2)] = tensor
        elif name.startswith(prefix):
            result[name[len(prefix):]] = tensor
        else:
            raise CheckpointError(f"tensor {name} does not begin with '{prefix}' as wte.weight "
                                  "does")
    return result


def heads_of(settings: dict, asked: int | None) -> int:
    told = next((settings[key] for key in _HEAD_KEYS if isinstance(settings.get(key), int)), None)
    if asked is None and told is None:
        raise CheckpointError("the checkpoint does not say how many attention heads the model "
                              "has: pass --heads")
    if asked is not None and told is not None and asked != told:
        raise CheckpointError(f"--heads is {asked}, but the checkpoint says {told}")
    return asked if asked is not None else told


class Converter:
    """Takes tensors out of a stripped state dict by name, checks their shapes, lays them out."""

    def __init__(self, state: dict, heads: int):
        self._state = dict(state)
        vocab, width = self._need("wte.weight", 2).shape
        context = self._positions(width)
        layers = 1 + max((int(m.group(1)) for m in (re.match(r"h\.(\d+)\.", n) for n in state)
                          if m), default=-1)
        if layers == 0:
            raise CheckpointError("the checkpoint has no blocks (h.0...., h.1....)")
        # nn.Linear stores [out, in], transformers' Conv1D [in, out]; c_attn tells which this is,
        # because its sides differ. The square attn.c_proj would not.
        fused = self._need("h.0.attn.c_attn.weight", 2)
        self._linear = tuple(fused.shape) == (3 * width, width)
        if not self._linear and tuple(fused.shape) != (width, 3 * width):
            raise CheckpointError(
                f"tensor h.0.attn.c_attn.weight has shape {list(fused.shape)}; expected "
                f"{[3 * width, width]} (queries, keys and values together)")
        up = self._need("h.0.mlp.c_fc.weight", 2)
        inner = up.shape[0 if self._linear else 1]
        if heads < 1 or width % heads:
            raise CheckpointError(f"{heads} heads do not divide the width {width}")
        head = self._state.get("lm_head.weight")
        tied = head is None or torch.equal(head, self._state["wte.weight"])
        self.shape = Shape(layers, width, inner, vocab, context, heads, tied)

    def _positions(self, width: int) -> int:
        if "wpe.weight" not in self._state:
            raise CheckpointError("tensor wpe.weight is missing: only learned positions are "
                                  "supported")
        context, found = self._need("wpe.weight", 2).shape
        if found != width:
            raise CheckpointError(f"tensor wpe.weight has shape {[context, found]}; expected "
                                  f"{[context, width]}, the width of wte.weight")
        return context

    def _need(self, name: str, dims: int) -> torch.Tensor:
        if name not in self._state:
            raise CheckpointError(f"tensor {name} is missing")
        tensor = self._state[name]
        if tensor.dim() != dims or not tensor.is_floating_point():
            raise CheckpointError(f"tensor {name} has shape {list(tensor.shape)} and type "
                                  f"{tensor.dtype}; expected {dims} dimensions of floats")
        return tensor

    def _take(self, name: str, shape: list) -> torch.Tensor:
        tensor = self._need(name, len(shape))
        if list(tensor.shape) != shape:
            raise CheckpointError(f"tensor {name} has shape {list(tensor.shape)}; "
                                  f"expected {shape}")
        del self._state[name]
        return tensor.float()

    def _bias(self, name: str, size: int) -> torch.Tensor:
        """GPT-2 adds a bias everywhere; a model trained without has zeros."""
        return self._take(name, [size]) if name in self._state else torch.zeros(size)

    def _matrix(self, name: str, inputs: int, outputs: int) -> torch.Tensor:
        if self._linear:
            return self._take(name, [outputs, inputs]).t()
        return self._take(name, [inputs, outputs])

    def tensors(self, vocab: int) -> dict:
        """All tensors by their transformers names; embeddings cut to `vocab` rows."""
        shape = self.shape
        width = shape.width
        out = {"transformer.wte.weight": self._take("wte.weight", [shape.vocab, width])[:vocab],
               "transformer.wpe.weight": self._take("wpe.weight", [shape.context, width])}
        for layer in range(shape.layers):
            out.update(self._block(f"h.{layer}."))
        out["transformer.ln_f.weight"] = self._take("ln_f.weight", [width])
        out["transformer.ln_f.bias"] = self._bias("ln_f.bias", width)
        if "lm_head.weight" in self._state:
            head = self._take("lm_head.weight", [shape.vocab, width])[:vocab]
            if not shape.tied:
                out["lm_head.weight"] = head
        if self._state:
            name, tensor = next(iter(self._state.items()))
            raise CheckpointError(f"tensor {name} of shape {list(tensor.shape)} is not part of a "
                                  f"GPT-2 ({len(self._state)} such tensors)")
        return {name: tensor.contiguous() for name, tensor in out.items()}

    def _block(self, block: str) -> dict:
        width, inner = self.shape.width, self.shape.inner
        out = {}
        for norm in ("ln_1", "ln_2"):
            out[norm + ".weight"] = self._take(block + norm + ".weight", [width])
            out[norm + ".bias"] = self._bias(block + norm + ".bias", width)
        for name, inputs, outputs in (("attn.c_attn", width, 3 * width),
                                      ("attn.c_proj", width, width),
                                      ("mlp.c_fc", width, inner), ("mlp.c_proj", inner, width)):
            out[name + ".weight"] = self._matrix(block + name + ".weight", inputs, outputs)
            out[name + ".bias"] = self._bias(block + name + ".bias", outputs)
        return {"transformer." + block + name: tensor for name, tensor in out.items()}

"""What a model costs: products and bytes of a step, and from them the least time a machine takes.

The floor of a step that gives one token to each of `batch` sequences:

    max(2 x products x batch / peak, weight bytes / read rate) + KV bytes of the batch / read rate

`peak` is the machine's for the format in which products are computed; the KV bytes are those at the
mean number of cached tokens; the read rate is that of RAM or, where weights and KV fit the last
level of cache, that of 24 MB. What overlaps in truth and what norms, activations and sampling cost
is left out: a floor is there to compare machines and to say how much is left, not to be reached.
"""

import dataclasses
import pathlib

from bench import gguf_file

# Bytes of a weight as a server keeps it. Int8: one scale (f32) for 32 of them.
WEIGHT_BYTES = {"f32": 4.0, "bf16": 2.0, "f16": 2.0, "int8": 1.125, "int4": 20 / 32, "q8_0": 34 / 32,
                "q4_0": 18 / 32, "q4_1": 20 / 32, "q4_k_m": 0.6}  # fmt: skip
# Bytes of a value in the KV cache; int8 with a scale (f32) for a head of 64.
KV_BYTES = {"f32": 4.0, "bf16": 2.0, "f16": 2.0, "int8": 1.0625}
# Which peaks bound the products of a weights format: the higher of them.
PEAKS = {"f32": ("f32_gflops",), "bf16": ("f32_gflops", "bf16_gflops"), "f16": ("f32_gflops",)}


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    products: int  # multiplications of a token, the head included
    kv_values: int  # of a cached token, over all layers
    context: int
    vocab_size: int
    end_ids: tuple[int, ...]
    file_bytes: int  # of all tensors


def _kv_heads(fields: dict[str, object], prefix: str) -> int:
    heads = fields[prefix + "attention.head_count"]
    return int(fields.get(prefix + "attention.head_count_kv", heads))


def of_file(path: pathlib.Path) -> Shape:
    header = gguf_file.read_header(path)
    fields = header.fields
    prefix = f"{fields['general.architecture']}."
    width = int(fields[prefix + "embedding_length"])
    head_size = int(fields.get(prefix + "attention.key_length",
                               width // int(fields[prefix + "attention.head_count"])))  # fmt: skip
    matrices = {t.name: t.count for t in header.tensors if len(t.shape) == 2}
    embedding = matrices["token_embd.weight"]
    # A tied head multiplies by the embedding; position embeddings are only looked up.
    products = sum(count for name, count in matrices.items() if name != "position_embd.weight")
    if "output.weight" in matrices:
        products -= embedding
    ends = [fields.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    return Shape(
        name=str(fields.get("general.name", path.name)),
        products=products,
        kv_values=2 * int(fields[prefix + "block_count"]) * _kv_heads(fields, prefix) * head_size,
        context=int(fields[prefix + "context_length"]),
        vocab_size=len(fields["tokenizer.ggml.tokens"]),
        end_ids=tuple(int(end) for end in ends if end is not None),
        file_bytes=sum(tensor.size for tensor in header.tensors),
    )


def floor_ms(shape: Shape, peaks: dict[str, float | None], cache_bytes: int, weights: str, kv: str,
             batch: int, cached_tokens: float) -> float | None:  # fmt: skip
    """Of one step; None for a format of which nothing is known.

    `peaks` is an element of what luna-machine-peaks prints, `cache_bytes` the last level of cache;
    `weights` and `kv` are formats.
    """
    if weights not in WEIGHT_BYTES or kv not in KV_BYTES:
        return None
    # A machine without a product of this format computes in f32.
    names = PEAKS.get(weights, ("f32_gflops", "int8_gops"))
    peak = max(peaks.get(name) or 0 for name in names)
    weight_bytes = shape.products * WEIGHT_BYTES[weights]
    kv_bytes = shape.kv_values * KV_BYTES[kv] * batch * cached_tokens
    fits = weight_bytes + kv_bytes <= cache_bytes
    rate = peaks["read_24mb_gb_s"] if fits else peaks["ram_gb_s"]
    products_ms = 2 * shape.products * batch / peak / 1e6
    return max(products_ms, weight_bytes / rate / 1e6) + kv_bytes / rate / 1e6

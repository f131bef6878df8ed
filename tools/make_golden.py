#!/usr/bin/env python3
"""Makes the golden values that tests/backend/golden_test.cc compares with, by PyTorch and transformers.

    python3 tools/make_golden.py tiny                # four tiny models with random weights, committed
    python3 tools/make_golden.py luna-tiny smollm2-135m gemma3-270m

Needs torch, transformers, tokenizers, safetensors and (for GGUF files) gguf. Everything runs in f32 on
the CPU. A golden file, tests/golden/logprobs/<name>.json, holds cases of
    prompt     token ids
    rows       positions and the log-probabilities after them: all of the vocabulary for a tiny model,
               the top 20 as [id, logprob] for a real one
    greedy     the greedy continuation, cut where the first two candidates come close
"""
import argparse
import json
import pathlib

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
VOCAB = 320
# Nearer than this, rounding alone may turn the order of two candidates.
CLEARLY_APART = 0.02
TOP = 20


def tiny_configs():
    """Shapes that exercise what the families differ in, as small as that allows."""
    gpt2 = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=96, n_embd=36, n_layer=3, n_head=3, n_inner=None,
        bos_token_id=0, eos_token_id=0)
    llama = transformers.LlamaConfig(
        vocab_size=VOCAB, hidden_size=48, intermediate_size=80, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=128,
        rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0,
                         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32})
    qwen2 = transformers.Qwen2Config(
        vocab_size=VOCAB, hidden_size=40, intermediate_size=72, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        tie_word_embeddings=True, use_sliding_window=False, bos_token_id=0, eos_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})
    gemma3 = transformers.Gemma3TextConfig(
        vocab_size=VOCAB, hidden_size=32, intermediate_size=56, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=1, head_dim=24, query_pre_attn_scalar=24,
        max_position_embeddings=128, sliding_window=8, bos_token_id=0, eos_token_id=0, pad_token_id=0,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}})
    return {
        "tiny-gpt2": (transformers.GPT2LMHeadModel, gpt2),
        "tiny-llama": (transformers.LlamaForCausalLM, llama),
        "tiny-qwen2": (transformers.Qwen2ForCausalLM, qwen2),
        "tiny-gemma3": (transformers.Gemma3ForCausalLM, gemma3),
    }


def randomize(model, seed):
    """Every tensor, norms and biases too, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            values = torch.randn(tensor.shape, generator=generator)
            if tensor.dim() == 2:
                is_embedding = name.endswith(("wte.weight", "embed_tokens.weight", "lm_head.weight"))
                scale = 0.5 if is_embedding or name.endswith("wpe.weight") else tensor.shape[1] ** -0.5
                tensor.copy_(values * scale)
            elif "norm" in name or "ln_" in name:
                # Gemma multiplies by 1 + weight, GPT-2's norms have biases.
                center = 0.0 if name.endswith("bias") or "Gemma" in type(model).__name__ else 1.0
                tensor.copy_(values * 0.2 + center)
            else:
                tensor.copy_(values * 0.2)


def save_tokenizer(path):
    """A byte-level BPE of VOCAB tokens, trained on a few lines; id 0 is the only special token."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    lines = ["Once upon a time there was a little rabbit who lived under the moon.",
             "The rabbit and the moon were friends, and the night was long and bright.",
             "옛날 옛적에 작은 토끼가 달 아래에 살았어요. 토끼와 달은 친구였어요."]
    tokenizer.train_from_iterator(lines * 4, trainer)
    assert tokenizer.get_vocab_size() == VOCAB, tokenizer.get_vocab_size()
    tokenizer.save(str(path / "tokenizer.json"))


def make_tiny(name, model_class, config, seed):
    torch.manual_seed(seed)
    config.dtype = "float32"
    model = model_class(config).float().eval()
    randomize(model, seed)
    path = GOLDEN / "models" / name
    path.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(path)
    (path / "generation_config.json").unlink(missing_ok=True)
    save_tokenizer(path)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(1, VOCAB, (n,), generator=generator).tolist() for n in (1, 9, 24, 70)]
    # Loaded again: what is compared is what the files say.
    return model_class.from_pretrained(path, dtype=torch.float32).eval(), prompts


def greedy(model, prompt, length):
    ids, kept = list(prompt), []
    with torch.no_grad():
        for _ in range(length):
            logits = model(torch.tensor([ids]), logits_to_keep=1).logits[0, -1].double()
            first, second = torch.topk(logits, 2).values.tolist()
            if first - second < CLEARLY_APART:
                break
            kept.append(int(logits.argmax()))
            ids.append(kept[-1])
    return kept


def case(model, prompt, positions, new_tokens, full):
    with torch.no_grad():
        keep = torch.tensor(list(positions))
        logits = model(torch.tensor([prompt]), logits_to_keep=keep).logits[0].double()
    rows = []
    for position, logprobs in zip(positions, torch.log_softmax(logits, dim=-1)):
        row = {"position": position}
        if full:
            row["logprobs"] = [float(f"{x:.7g}") for x in logprobs.tolist()]
        else:
            top = torch.topk(logprobs, TOP)
            row["top"] = [[int(i), float(f"{x:.7g}")] for x, i in zip(*top)]
        rows.append(row)
    return {"prompt": prompt, "rows": rows, "greedy": greedy(model, prompt, new_tokens)}


def write(name, source, cases):
    path = GOLDEN / "logprobs" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"model": name, "source": source, "transformers": transformers.__version__,
                "torch": torch.__version__, "cases": cases}
    # One case a line, so that a change can be read.
    head = json.dumps({k: v for k, v in document.items() if k != "cases"})[:-1]
    body = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    path.write_text(f'{head}, "cases": [\n{body}\n]}}\n')
    lengths = [len(c["greedy"]) for c in cases]
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, greedy tokens {lengths}")


def make_all_tiny():
    for seed, (name, (model_class, config)) in enumerate(tiny_configs().items(), start=1):
        model, prompts = make_tiny(name, model_class, config, seed)
        cases = []
        for prompt in prompts:
            positions = sorted({p for p in (0, 8, 23, len(prompt) - 1) if p < len(prompt)})
            cases.append(case(model, prompt, positions, 12, full=True))
        write(name, f"tests/golden/models/{name}", cases)


def make_luna_tiny():
    path = ROOT / "models" / "luna-tiny"
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    cases = []
    for text in ("Once upon a time", "옛날 옛적에", "One day, a little rabbit found a lost"):
        prompt = tokenizer.encode(text, add_special_tokens=False)
        cases.append(case(model, prompt, range(len(prompt)), 40, full=False))
    write("luna-tiny", "models/luna-tiny", cases)


def load_gguf(name):
    path = ROOT / "models" / name
    file = next(path.glob("*.gguf"))
    model = transformers.AutoModelForCausalLM.from_pretrained(path, gguf_file=file.name,
                                                              dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path, gguf_file=file.name)
    return model, tokenizer, f"models/{name}/{file.name}"


def make_smollm2():
    model, tokenizer, source = load_gguf("smollm2-135m")
    chat = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
            "<|im_end|>\n<|im_start|>user\nName three colours of the rainbow.<|im_end|>\n"
            "<|im_start|>assistant\n")
    cases = []
    for text in ("The capital of France is", chat):
        prompt = tokenizer.encode(text, add_special_tokens=False)
        cases.append(case(model, prompt, [0, 2, len(prompt) - 1], 16, full=False))
    write("smollm2-135m", source, cases)


def make_gemma3():
    model, tokenizer, source = load_gguf("gemma3-270m")
    opening = "옛날 옛적에 작은 마을에 토끼 한 마리가"
    long_text = (opening + " 살고 있었습니다. 토끼는 매일 아침 숲으로 가서 친구들을 만났습니다. "
                 "어느 날 토끼는 길을 잃은 작은 새를 만났습니다. ") * 20
    bos = tokenizer.bos_token_id
    prompt = [bos] + tokenizer.encode(opening, add_special_tokens=False)
    cases = [case(model, prompt, [0, 3, len(prompt) - 1], 16, full=False)]
    # Past the window of 512 tokens.
    prompt = ([bos] + tokenizer.encode(long_text, add_special_tokens=False))[:600]
    assert len(prompt) == 600, len(prompt)
    cases.append(case(model, prompt, [511, 512, 599], 4, full=False))
    write("gemma3-270m", source, cases)


MAKERS = {"tiny": make_all_tiny, "luna-tiny": make_luna_tiny, "smollm2-135m": make_smollm2,
          "gemma3-270m": make_gemma3}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=MAKERS, metavar="NAME",
                        help="one or more of: " + ", ".join(MAKERS))
    torch.set_num_threads(2)
    for name in parser.parse_args().names:
        MAKERS[name]()


if __name__ == "__main__":
    main()

"""import_gpt: the imported model computes what the training script's own module computes.

Needs torch, transformers, tokenizers and safetensors (tools/requirements.txt); skipped without.
"""

import contextlib
import io
import json
import pathlib
import pickle
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

try:
    import tokenizers
    import torch
    import transformers
    from tokenizers import models, pre_tokenizers, trainers

    import import_gpt
    from small_gpt import CONTEXT, HEADS, PADDED_VOCAB, VOCAB, WIDTH, SmallGpt
    MISSING = ""
except ImportError as error:
    MISSING = f"tools/requirements.txt is not installed: {error}"


def small_tokenizer():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    text = "once upon a time a small moon told the whole class a story about the sea " * 3
    tokenizer.train_from_iterator([text, "옛날 옛적에 작은 마을에 토끼가 살았어요. " * 3], trainer)
    assert tokenizer.get_vocab_size() == VOCAB
    return tokenizer


@unittest.skipIf(MISSING, MISSING)
class ImportGptTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)
        torch.manual_seed(11)
        small_tokenizer().save(str(self.dir / "tokenizer.json"))
        self.out = self.dir / "out"

    def run_import(self, content, *options, tokenizer="tokenizer.json"):
        """(exit status, what it printed) of the command on a checkpoint that holds `content`."""
        path = self.dir / "ckpt.pt"
        torch.save(content, path)
        return self.run_command(path, *options, tokenizer=tokenizer)

    def run_command(self, path, *options, tokenizer="tokenizer.json"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status = import_gpt.main([str(path), "--tokenizer", str(self.dir / tokenizer),
                                      "--out", str(self.out), *options])
        return status, printed.getvalue()

    def assert_same_logits(self, module):
        imported = transformers.GPT2LMHeadModel.from_pretrained(self.out, dtype=torch.float32)
        imported.eval()
        ids = torch.randint(0, VOCAB, (3, CONTEXT))
        with torch.no_grad():
            expected = module(ids)[:, :, :VOCAB]
            got = imported(ids).logits
        self.assertEqual(got.shape, expected.shape)
        self.assertLess((got - expected).abs().max().item(), 1e-4)
        self.assertGreater(expected.std().item(), 0.1)

    def test_logits_equal_the_training_module(self):
        for bias in (True, False):
            for tied in (True, False):
                for prefix in ("", "_orig_mod.", "module._orig_mod."):
                    with self.subTest(bias=bias, tied=tied, prefix=prefix):
                        module = SmallGpt(bias, tied).eval()
                        state = {prefix + k: v for k, v in module.state_dict().items()}
                        status, said = self.run_import(
                            {"model": state, "model_args": {"n_head": HEADS}, "iter_num": 5})
                        self.assertEqual(status, 0, said)
                        self.assertIn(f"{PADDED_VOCAB - VOCAB} padding rows dropped", said)
                        self.assert_same_logits(module)
                        config = json.loads((self.out / "config.json").read_text())
                        self.assertEqual(config["tie_word_embeddings"], tied)

    def test_bare_state_dict_needs_heads(self):
        module = SmallGpt().eval()
        status, said = self.run_import(module.state_dict())
        self.assertEqual(status, 1)
        self.assertIn("pass --heads", said)
        status, said = self.run_import(module.state_dict(), "--heads", str(HEADS))
        self.assertEqual(status, 0, said)
        self.assert_same_logits(module)

    def test_checkpoint_of_transformers_keeps_its_orientation(self):
        module = SmallGpt().eval()
        self.assertEqual(self.run_import(module.state_dict(), "--heads", str(HEADS))[0], 0)
        copy = self.dir / "copy.safetensors"
        copy.write_bytes((self.out / "model.safetensors").read_bytes())
        status, said = self.run_command(copy, "--heads", str(HEADS))
        self.assertEqual(status, 0, said)
        self.assert_same_logits(module)

    def test_vocab_and_merges(self):
        folder = self.dir / "bpe"
        folder.mkdir()
        small_tokenizer().model.save(str(folder))
        module = SmallGpt().eval()
        status, said = self.run_import(module.state_dict(), "--heads", str(HEADS), tokenizer="bpe")
        self.assertEqual(status, 0, said)
        made = tokenizers.Tokenizer.from_file(str(self.out / "tokenizer.json"))
        text = "a small moon 작은 마을에\n\n!"
        self.assertEqual(made.encode(text).ids, small_tokenizer().encode(text).ids)
        self.assertEqual(made.decode(made.encode(text).ids), text)
        self.assertEqual(made.encode("<|endoftext|>").ids, [0])

    def test_half_precision_is_stored_as_asked(self):
        status, said = self.run_import(SmallGpt().state_dict(), "--heads", "3", "--dtype",
                                       "float16")
        self.assertEqual(status, 0, said)
        self.assertEqual(json.loads((self.out / "config.json").read_text())["dtype"], "float16")
        state = import_gpt.read_file(self.out / "model.safetensors")[0]
        self.assertEqual({t.dtype for t in state.values()}, {torch.float16})

    def test_wrong_tensors_are_named_with_both_shapes(self):
        good = SmallGpt().state_dict()
        block = "transformer.h.1."
        cases = [
            ({block + "mlp.c_proj.weight": torch.zeros(WIDTH, 7)},
             f"h.1.mlp.c_proj.weight has shape [{WIDTH}, 7]; expected [{WIDTH}, {4 * WIDTH}]"),
            ({"transformer.h.0.attn.c_attn.weight": torch.zeros(2 * WIDTH, WIDTH)},
             f"has shape [{2 * WIDTH}, {WIDTH}]; expected [{3 * WIDTH}, {WIDTH}]"),
            ({block + "ln_1.weight": torch.zeros(WIDTH, dtype=torch.int32)}, "h.1.ln_1.weight"),
            ({"transformer.wpe.weight": torch.zeros(CONTEXT, 5)}, f"[{CONTEXT}, 5]"),
            ({block + "attn.rotary": torch.zeros(4)}, "h.1.attn.rotary of shape [4]"),
            ({"lm_head.bias": torch.zeros(PADDED_VOCAB)}, "lm_head.bias"),
            ({"other.thing": torch.zeros(2)}, "other.thing"),
        ]
        for change, message in cases:
            with self.subTest(message):
                status, said = self.run_import({**good, **change}, "--heads", str(HEADS))
                self.assertEqual(status, 1)
                self.assertIn(message, said)
        self.assertFalse(self.out.exists())

    def test_missing_tensors_are_named(self):
        for name in ("transformer.ln_f.weight", "transformer.wpe.weight",
                     "transformer.h.0.attn.c_attn.weight", "transformer.h.1.mlp.c_fc.weight"):
            with self.subTest(name):
                state = SmallGpt().state_dict()
                del state[name]
                status, said = self.run_import(state, "--heads", str(HEADS))
                self.assertEqual(status, 1)
                self.assertIn(name.removeprefix("transformer."), said)

    def test_heads_must_fit(self):
        module = SmallGpt()
        self.assertIn("5 heads do not divide the width 24",
                      self.run_import(module.state_dict(), "--heads", "5")[1])
        content = {"model": module.state_dict(), "config": {"n_head": 3}}
        self.assertIn("--heads is 2, but the checkpoint says 3",
                      self.run_import(content, "--heads", "2")[1])

    def test_tokenizer_of_another_model_is_refused(self):
        state = SmallGpt().state_dict()
        state["transformer.wte.weight"] = state["transformer.wte.weight"][:100]
        del state["lm_head.weight"]
        status, said = self.run_import(state, "--heads", str(HEADS))
        self.assertEqual(status, 1)
        self.assertIn("highest id is 299, but wte.weight has 100 rows", said)

    def test_code_in_a_checkpoint_is_never_run(self):
        marker = self.dir / "ran"

        class Evil:
            def __reduce__(self):
                return (pathlib.Path.touch, (marker,))

        status, said = self.run_import({"model": {}, "x": Evil()}, "--heads", "3")
        self.assertEqual(status, 1)
        self.assertIn("could run code", said)
        (self.dir / "meta.pkl").write_bytes(pickle.dumps(Evil()))
        status, said = self.run_import(SmallGpt().state_dict(), "--heads", "3",
                                       tokenizer="meta.pkl")
        self.assertEqual(status, 1)
        self.assertIn("meta.pkl", said)
        self.assertFalse(marker.exists())

    def test_files_that_are_no_checkpoint(self):
        junk = self.dir / "junk.pt"
        junk.write_bytes(b"not a checkpoint at all")
        for path, message in ((junk, "junk.pt"), (self.dir / "none.pt", "no checkpoint at")):
            status, said = self.run_command(path, "--heads", "3")
            self.assertEqual(status, 1)
            self.assertIn(message, said)
        status, said = self.run_import({"epoch": 3, "loss": 1.5})
        self.assertEqual(status, 1)
        self.assertIn("its keys are epoch, loss", said)


if __name__ == "__main__":
    unittest.main()

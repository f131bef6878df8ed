"""Training: packing, the parallel step, Muon, and a tiny run from data to a directory.

Needs torch, transformers, tokenizers and safetensors (tools/requirements.txt); skipped without.
"""

import argparse
import contextlib
import copy
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

try:
    import tokenizers
    import torch
    import transformers

    import muon
    import train_gpt
    from parallel_step import ParallelStep
    from story_data import PackedStories
    from train_tokenizer import END_TOKEN, save_tokenizer, train_tokenizer
    MISSING = ""
except ImportError as error:
    MISSING = f"tools/requirements.txt is not installed: {error}"


@unittest.skipIf(MISSING, MISSING)
class TrainGptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.tokenizer = train_tokenizer(512, num_stories=60, seed=0)
        cls.end_id = cls.tokenizer.token_to_id(END_TOKEN)
        cls.size = train_gpt.Size(layers=2, width=32, heads=2, vocab=512, context=128, steps=30,
                                  rows=4, lr=5e-3)

    def make_model(self):
        torch.manual_seed(5)
        return train_gpt.make_model(self.size, self.end_id)

    def test_rows_begin_at_a_story_and_stories_end_with_the_end_token(self):
        openings = tuple(o for code in ("ko", "en")
                         for o in train_gpt.stories.Teller(code).openings)
        days = ("다음 날", "며칠 뒤", "The next", "A few days")
        rows = PackedStories(self.tokenizer, self.end_id, 700, seed=3).batch(6)
        self.assertEqual(rows.shape, (6, 700))
        for row in rows.tolist():
            text = self.tokenizer.decode(row, skip_special_tokens=False)
            pieces = text.split(END_TOKEN)
            self.assertGreater(len(pieces), 1)
            for piece in pieces[:-1]:
                self.assertTrue(piece.startswith(openings + days), piece)
                self.assertIn(piece[-1], '.!?"')

    def test_same_seed_same_rows_and_held_out_rows_differ(self):
        def first(seed):
            return PackedStories(self.tokenizer, self.end_id, 100, seed).batch(2).tolist()
        self.assertEqual(first(1), first(1))
        self.assertNotEqual(first(1), first(train_gpt.stories.HELD_OUT_SEED))

    def test_parallel_step_gives_the_plain_gradient(self):
        model = self.make_model()
        plain = copy.deepcopy(model)
        ids = torch.randint(0, 512, (6, self.size.context + 1))
        loss = train_gpt.loss_of(plain, ids)
        loss.backward()
        parallel = ParallelStep(model, train_gpt.loss_of, threads=3).run(ids, micro_rows=1)
        self.assertAlmostEqual(parallel, loss.item(), places=5)
        for (name, got), want in zip(model.named_parameters(), plain.parameters()):
            torch.testing.assert_close(got.grad, want.grad, rtol=1e-3, atol=1e-6, msg=name)

    def test_replicas_follow_the_weights(self):
        model = self.make_model()
        workers = ParallelStep(model, train_gpt.loss_of, threads=2)
        ids = torch.randint(0, 512, (4, self.size.context + 1))
        before = workers.run(ids, micro_rows=1)
        with torch.no_grad():
            model.transformer.ln_f.weight.mul_(3.0)
        after = workers.run(ids, micro_rows=1)
        self.assertNotAlmostEqual(before, after, places=3)
        self.assertAlmostEqual(after, train_gpt.loss_of(model, ids).item(), places=5)

    def test_orthogonalize_brings_singular_values_near_one(self):
        torch.manual_seed(2)
        for shape in ((3, 32, 32), (1, 32, 128), (1, 128, 32)):
            values = torch.linalg.svdvals(muon.orthogonalize(torch.randn(shape)))
            self.assertGreater(values.min().item(), 0.3)
            self.assertLess(values.max().item(), 1.3)
            self.assertAlmostEqual(values.mean().item(), 0.95, delta=0.15)

    def test_learning_rate_warms_up_and_falls(self):
        rates = [train_gpt.rate(done / 100) for done in range(101)]
        self.assertEqual(rates[0], 0.0)
        self.assertAlmostEqual(max(rates), 1.0)
        self.assertEqual(rates[2:], sorted(rates[2:], reverse=True))
        self.assertLess(rates[100], 0.05)

    def test_a_run_learns_and_its_directory_loads_in_transformers(self):
        model = self.make_model()
        before = train_gpt.held_out_loss(model, self.tokenizer, self.end_id, 128, rows=8)
        args = argparse.Namespace(seed=1, threads=2, minutes=0, save_minutes=0)
        with contextlib.redirect_stdout(io.StringIO()):
            train_gpt.train(model, self.tokenizer, self.end_id, self.size, args)
        after = train_gpt.held_out_loss(model, self.tokenizer, self.end_id, 128, rows=8)
        self.assertLess(after, before - 0.5)
        with tempfile.TemporaryDirectory() as holder:
            out = pathlib.Path(holder)
            save_tokenizer(self.tokenizer, out, 128)
            train_gpt.save_model(copy.deepcopy(model), out, torch.float16)
            loaded = transformers.GPT2LMHeadModel.from_pretrained(out, dtype=torch.float32).eval()
            again = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
        self.assertEqual(loaded.config.activation_function, "gelu_new")
        ids = torch.tensor([again.encode("Once upon a time 옛날 옛적에").ids])
        with torch.no_grad():
            torch.testing.assert_close(loaded(ids).logits, model(ids).logits, rtol=0, atol=0.05)


if __name__ == "__main__":
    unittest.main()

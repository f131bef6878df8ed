"""models/luna-tiny: small enough, well formed, and readable without any package."""

import json
import pathlib
import struct
import unittest

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "luna-tiny"


class LunaTinyTest(unittest.TestCase):
    def setUp(self):
        self.config = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))
        self.tokenizer = json.loads((MODEL / "tokenizer.json").read_text(encoding="utf-8"))

    def test_directory_is_at_most_six_megabytes(self):
        self.assertLessEqual(sum(f.stat().st_size for f in MODEL.iterdir()), 6_000_000)

    def test_config_is_gpt2_with_a_context_of_512(self):
        self.assertEqual(self.config["model_type"], "gpt2")
        self.assertGreaterEqual(self.config["n_positions"], 512)
        self.assertEqual(self.config["n_embd"] % self.config["n_head"], 0)

    def test_tokenizer_has_every_byte_and_fits_the_model(self):
        vocab = self.tokenizer["model"]["vocab"]
        self.assertEqual(sorted(vocab.values()), list(range(self.config["vocab_size"])))
        self.assertEqual(sum(len(token) == 1 for token in vocab), 256)
        special = {t["content"]: t["id"] for t in self.tokenizer["added_tokens"]}
        self.assertEqual(special, {"<|endoftext|>": self.config["eos_token_id"]})

    def test_weights_are_the_ones_the_config_asks_for(self):
        data = (MODEL / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        header.pop("__metadata__")
        width, layers = self.config["n_embd"], self.config["n_layer"]
        self.assertEqual(len(header), 2 + 12 * layers + 2)
        self.assertEqual(header["transformer.wte.weight"]["shape"],
                         [self.config["vocab_size"], width])
        self.assertEqual(header["transformer.wpe.weight"]["shape"],
                         [self.config["n_positions"], width])
        self.assertEqual(header[f"transformer.h.{layers - 1}.attn.c_attn.weight"]["shape"],
                         [width, 3 * width])
        self.assertEqual({tensor["dtype"] for tensor in header.values()}, {"F16"})
        self.assertEqual(max(t["data_offsets"][1] for t in header.values()), len(data) - 8 - size)


if __name__ == "__main__":
    unittest.main()

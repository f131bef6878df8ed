"""./dev bench: its arithmetic, the files it makes and reads, and the report it writes."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from bench import (  # noqa: E402
    figures, gguf_file, growth, report, servers, shape, tables, targets, work,
)  # fmt: skip

PEAKS = {"f32_gflops": 100.0, "bf16_gflops": None, "int8_gops": 400.0, "ram_gb_s": 10.0,
         "read_24mb_gb_s": 50.0}  # fmt: skip


def a_shape(**changes):
    values = {"name": "a model", "products": 1_000_000, "kv_values": 1000, "context": 512,
              "vocab_size": 256, "end_ids": (255,), "file_bytes": 4_000_000}  # fmt: skip
    return shape.Shape(**{**values, **changes})


def a_round(rate=100.0, p50=1.0, cpu=None, count=10, others=0.0):
    gaps = {"count": count, "mean": 2 * p50, "p50": p50, "p90": p50, "p99": 3 * p50, "max": 9.0}
    load = {"tokens_per_s": {"median": rate, "best": rate, "rounds": [rate]}, "max_tokens": 50,
            "requests": 4, "errors": 0, "ttft_ms": gaps, "itl_ms": gaps,
            "itl_percentiles_ms": [p50 * percent for percent in range(101)]}  # fmt: skip
    return {"load": load, "wall_s": 2.0, "client_cpu_s": 0.5, "others_cpu_s": others,
            "server_cpu_s": cpu or {"llama-server": [0.3, 0.1]}}  # fmt: skip


def a_cell(server="luna", weights="int8", clients=30, rate=1000.0, is_main=True, others=0.0):
    measured = figures.of_rounds([a_round(rate, others=others)], 0)
    return {"model": "luna", "server": server, "weights": weights, "kv": "f32",
            "is_main": is_main, "clients": clients, "tokens": 50, "prompt_tokens": 32,
            "command": f"{server} --model m", "floor_ms": 1.0, "share_of_floor": 0.5,
            "figures": {**vars(measured), "ttft": vars(measured.ttft), "itl": vars(measured.itl)},
            "rounds": []}  # fmt: skip


def some_results(cells):
    return {
        "machine": {"cpu": "a processor", "family": "6/1", "cores": 2, "flags": ["avx2", "fma"],
                    "cache_bytes": {"L3": 1 << 25}, "ram_bytes": 1 << 33, "day": "2026-01-02"},
        "peaks": {"path": "avx2", "peaks": [{"threads": 1, **PEAKS}, {"threads": 2, **PEAKS}]},
        "load_average": 0.1, "peer": "version 1", "rounds": 3, "growth": {},
        "models": {"luna": {"title": "Luna's shape", "products": 10**6, "kv_values": 1000,
                            "file_format": "f32"}},
        "cells": cells, "skipped": ["Gemma 3: not there"], "failures": [],
    }  # fmt: skip


class FiguresTest(unittest.TestCase):
    def test_rounds_give_medians_and_the_best(self):
        rounds = [a_round(100, p50=1), a_round(300, p50=5), a_round(200, p50=2)]
        got = figures.of_rounds(rounds, 0)
        self.assertEqual((got.tokens_per_s, got.best_tokens_per_s), (200, 300))
        self.assertEqual((got.itl.mean, got.itl.p50, got.itl.p99), (4, 2, 6))
        self.assertEqual(got.itl_curve[50], 100)
        self.assertEqual(len(got.itl_curve), 101)
        self.assertAlmostEqual(got.cpu_ms_per_token, 1e3 * 3 * 0.4 / (3 * 200))
        self.assertAlmostEqual(got.client_cpu_share, 0.25)
        self.assertIsNone(got.outside_share)

    def test_a_round_without_gaps_does_not_count_as_zero(self):
        got = figures.of_rounds([a_round(p50=2), a_round(p50=0, count=0), a_round(p50=4)], 0)
        self.assertEqual(got.itl.p50, 3)

    def test_ratio_needs_both(self):
        self.assertEqual(figures.ratio(6.0, 4.0), 1.5)
        for pair in ((None, 4.0), (6.0, None), (6.0, 0.0)):
            self.assertIsNone(figures.ratio(*pair))

    def test_share_of_floor(self):
        self.assertEqual(figures.share_of_floor(2.0, 8.0), 0.25)
        self.assertIsNone(figures.share_of_floor(None, 8.0))
        self.assertIsNone(figures.share_of_floor(2.0, 0.0))

    def test_outside_is_what_workers_do_not_account_for(self):
        # Two threads compute for 4 s each; the engine thread spent 0.5 s more, the others 1.5 s.
        cpu = {"luna-server": [0.0, 4.0, 4.5], "luna-writer": [1.0], "grpc": [0.5, 0.0]}
        self.assertAlmostEqual(figures.outside_share(cpu, 2), 2 / 10)

    def test_outside_is_unknown_without_workers(self):
        self.assertIsNone(figures.outside_share({"luna-server": [0.0, 4.0]}, 1))
        self.assertIsNone(figures.outside_share({"luna-server": [0.0, 4.0, 0.0]}, 2))
        self.assertIsNone(figures.outside_share({"llama-server": [1.0, 1.0]}, 2))


class FloorTest(unittest.TestCase):
    def test_products_bound_a_batch(self):
        # 2 x 1e6 x 100 / 400e9 is 0.5 ms; 1000 x 4 x 100 x 250 bytes at 10 GB/s are 10 ms.
        floor = shape.floor_ms(a_shape(), PEAKS, 1000, "int8", "f32", 100, 250)
        self.assertAlmostEqual(floor, 0.5 + 10)

    def test_reading_weights_bounds_one_reader(self):
        floor = shape.floor_ms(a_shape(), PEAKS, 1000, "f32", "f16", 1, 10)
        self.assertAlmostEqual(floor, 4e6 / 10e9 * 1e3 + 1000 * 2 * 10 / 10e9 * 1e3)

    def test_what_fits_the_cache_is_read_from_it(self):
        floor = shape.floor_ms(a_shape(), PEAKS, 1 << 25, "f32", "f16", 1, 10)
        self.assertAlmostEqual(floor, (4e6 + 20e3) / 50e9 * 1e3)

    def test_a_missing_product_is_computed_in_f32(self):
        floor = shape.floor_ms(a_shape(kv_values=0), PEAKS, 0, "bf16", "f32", 1000, 0)
        self.assertAlmostEqual(floor, 2e9 / 100e9 * 1e3)

    def test_unknown_formats_have_no_floor(self):
        self.assertIsNone(shape.floor_ms(a_shape(), PEAKS, 0, "type 99", "f32", 1, 0))


class GgufTest(unittest.TestCase):
    def make(self, with_head):
        fields = {"general.architecture": "gpt2", "general.file_type": 0,
                  "gpt2.embedding_length": 4, "gpt2.block_count": 1, "gpt2.context_length": 32,
                  "gpt2.attention.head_count": 2, "gpt2.attention.layer_norm_epsilon": 1e-5,
                  "tokenizer.ggml.tokens": ["a", "b", "é"], "tokenizer.ggml.token_type": [1, 1, 3],
                  "tokenizer.ggml.eos_token_id": 2}  # fmt: skip
        shapes = {"token_embd.weight": (4, 3), "position_embd.weight": (4, 32),
                  "blk.0.attn_qkv.weight": (4, 12), "blk.0.attn_qkv.bias": (12,)}  # fmt: skip
        if with_head:
            shapes["output.weight"] = (4, 3)
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        path = pathlib.Path(holder.name) / "m.gguf"
        gguf_file.write(path, fields, ((name, size, bytes(4 * _product(size)))
                                       for name, size in shapes.items()))  # fmt: skip
        return path, fields, shapes

    def test_what_is_written_is_read(self):
        path, fields, shapes = self.make(with_head=False)
        header = gguf_file.read_header(path)
        for key, value in fields.items():
            if isinstance(value, float):
                self.assertAlmostEqual(header.fields[key], value)
            else:
                self.assertEqual(header.fields[key], value)
        self.assertEqual({t.name: t.shape for t in header.tensors}, shapes)
        self.assertEqual(work.file_format(path), "f32")

    def test_products_count_the_head_once(self):
        for with_head in (False, True):
            found = shape.of_file(self.make(with_head)[0])
            self.assertEqual(found.products, 4 * 12 + 4 * 3)
            self.assertEqual(found.kv_values, 2 * 1 * 2 * 2)
            self.assertEqual((found.vocab_size, found.end_ids, found.context), (3, (2,), 32))

    def test_a_damaged_file_is_named(self):
        path = self.make(with_head=False)[0]
        for damage in (path.read_bytes()[:60], b"no such format"):
            path.write_bytes(damage)
            with self.assertRaisesRegex(gguf_file.GgufError, "m.gguf"):
                gguf_file.read_header(path)


def _product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


class WorkTest(unittest.TestCase):
    def test_tokens_shrink_with_clients_within_bounds(self):
        model = work.Model("m", "", round_tokens=600, most_tokens=40, least_tokens=10)
        self.assertEqual([model.tokens(clients) for clients in (1, 15, 30, 64)], [40, 40, 20, 10])
        same = model.with_tokens(7)
        self.assertEqual([same.tokens(clients) for clients in (1, 64)], [7, 7])

    def test_of_several_passes_the_quickest_of_each_point_counts(self):
        def a_pass(first, second, prefill):
            return {"numerics": "n", "prefill": [{"ms": prefill}],
                    "decode": [{"median_step_ms": first}, {"median_step_ms": second}]}  # fmt: skip

        best = growth.quickest([a_pass(1.0, 5.0, 9.0), a_pass(2.0, 3.0, 8.0)])
        self.assertEqual([row["median_step_ms"] for row in best["decode"]], [1.0, 3.0])
        self.assertEqual(best["prefill"], [{"ms": 8.0}])

    def test_threads_double_up_to_all(self):
        self.assertEqual([growth.thread_counts(most) for most in (1, 2, 6)],
                         [[1], [1, 2], [1, 2, 4, 6]])  # fmt: skip

    def test_cpu_time_is_taken_between_two_looks(self):
        before = {1: ("main", 5.0), 2: ("rpc", 1.0)}
        after = {1: ("main", 5.5), 2: ("rpc", 3.0), 3: ("rpc", 0.25)}
        self.assertEqual(servers.cpu_between(before, after), {"main": [0.5], "rpc": [2.0, 0.25]})


class TargetsTest(unittest.TestCase):
    def row(self, **changes):
        return {"figure": "tokens_per_s", "model": "luna", "clients": 30, "format": "best",
                **changes}  # fmt: skip

    def test_best_is_the_fastest_format(self):
        cells = [a_cell(rate=1000), a_cell(weights="f32", rate=400, is_main=False),
                 a_cell(weights="bf16", rate=1500, is_main=False)]  # fmt: skip
        results = some_results(cells)
        self.assertEqual(targets.value_of(results, self.row()), 1500)
        self.assertEqual(targets.value_of(results, self.row(format="f32")), 400)
        self.assertIsNone(targets.value_of(results, self.row(clients=64)))
        self.assertEqual(targets.value_of(results, self.row(figure="itl_p99_over_p50")), 3)

    def test_the_ratio_is_of_the_main_cells(self):
        results = some_results([a_cell(rate=1000), a_cell("peer", "f32", rate=250),
                                a_cell("peer", "q4_0", rate=900, is_main=False)])  # fmt: skip
        self.assertEqual(targets.value_of(results, self.row(figure="peer_ratio")), 4)

    def test_each_kind_of_machine_has_its_goals(self):
        results = some_results([a_cell(rate=2900)])
        rows = {row.name: row for row in targets.reached(results, "avx2")}
        best = rows["Luna's shape, 30 clients, best format, tokens/s"]
        self.assertEqual((best.value, best.target, best.met), (2900, 2800, True))
        late = rows["Luna's shape, 30 clients, between tokens p99 over p50"]
        self.assertEqual((late.value, late.met), (3, False))
        unknown = rows["SmolLM2, prefill of 512, tokens/s"]
        self.assertEqual((unknown.value, unknown.met), (None, None))
        self.assertEqual(targets.reached(results, "other"), [])


class ReportTest(unittest.TestCase):
    def test_numbers_are_short(self):
        cases = {0.12345: "0.123", 1.2345: "1.23", 98.76: "98.8", 123.4: "123", 12345: "12,345",
                 None: "-"}  # fmt: skip
        for value, text in cases.items():
            self.assertEqual(tables.number(value), text)

    def test_both_servers_and_their_ratio_stand_in_a_row(self):
        text = report.render(some_results([a_cell(rate=1000), a_cell("peer", "f32", rate=250)]), {})
        self.assertIn("| 30 | 50 | 1,000 (1,000) | 250 (250) | 4.00 |", text)
        self.assertIn("Luna int8, tokens/s", text)
        self.assertIn("- Gemma 3: not there", text)

    def test_a_disturbed_run_is_called_one(self):
        quiet = report.render(some_results([a_cell(others=0.02)]), {})
        self.assertNotIn("too much", quiet)
        disturbed = report.render(some_results([a_cell(others=1.0)]), {})
        self.assertIn("kept 0.5 of the cores busy", " ".join(disturbed.split()))
        self.assertIn("too much", disturbed)

    def test_luna_alone_is_a_report_too(self):
        text = report.render({**some_results([a_cell()]), "peer": None}, {"luna": ["a.png"]})
        self.assertIn("| 30 | 50 | 1,000 (1,000) | - | - |", text)
        self.assertIn("![a.png](a.png)", text)
        self.assertIn("not measured", text)

    def test_formats_of_both_are_shown_with_the_best_ratio(self):
        cells = [a_cell(rate=1000), a_cell("peer", "f32", rate=250),
                 a_cell("peer", "q4_0", rate=500, is_main=False)]  # fmt: skip
        text = report.render(some_results(cells), {})
        self.assertIn("| peer, q4_0 | 500 (500) |", text)
        self.assertIn("| best Luna / best peer | 2.00 |", text)


if __name__ == "__main__":
    unittest.main()

"""gpu_check, with programs that only pretend: what it makes of what they say, of what is missing, and
of time that runs out."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKES = pathlib.Path(__file__).with_name("fake_gpu_programs.py")
sys.path.insert(0, str(ROOT / "tools"))

from gpu_check import commands, gtest, measure, pack, proof, report, sections  # noqa: E402


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class SectionsTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.budget = sections.Budget(60, self.clock)

    def run_steps(self, *steps, skip=()):
        ended = []
        sections.run(list(steps), self.budget, set(skip), lambda step: None, ended.append)
        return ended

    def taking(self, seconds, name="one", least=1, most=100):
        def run(section, deadline):
            self.limit = deadline.left()
            self.clock.now += seconds
            section.data = {"done": True}

        return sections.Step(name, least, most, run)

    def raising(self, error, name="bad"):
        def run(section, deadline):
            raise error

        return sections.Step(name, 1, 10, run)

    def test_what_no_longer_fits_is_left_out_and_says_so(self):
        one, two, three = self.run_steps(self.taking(50), self.taking(1, "two", least=20),
                                         self.taking(1, "three", least=5))  # fmt: skip
        self.assertEqual([one.status, two.status, three.status], ["ok", "skipped", "ok"])
        self.assertEqual(two.notes, ["left out: 10 s of the budget were left, and it wants 20"])
        self.assertEqual((one.seconds, two.seconds), (50, 0))

    def test_a_section_gets_its_own_time_or_what_is_left(self):
        self.run_steps(self.taking(45, most=20))
        self.assertEqual(self.limit, 20)
        self.run_steps(self.taking(1, most=20))
        self.assertEqual(self.limit, 15)

    def test_what_is_missing_is_no_failure(self):
        missing, failed, after = self.run_steps(
            self.raising(sections.Unavailable("no nvcc")), self.raising(sections.Failure("wrong")),
            self.taking(1))  # fmt: skip
        self.assertEqual((missing.status, missing.notes), ("skipped", ["no nvcc"]))
        self.assertEqual((failed.status, failed.failures), ("failed", ["wrong"]))
        self.assertEqual(after.status, "ok")

    def test_without_a_device_nothing_follows(self):
        ended = self.run_steps(self.taking(1), self.raising(sections.NoDevice("none")),
                               self.taking(1))  # fmt: skip
        self.assertEqual([section.status for section in ended], ["ok", "failed"])
        self.assertTrue(ended[-1].is_last)

    def test_what_is_not_wanted_is_not_run(self):
        (section,) = self.run_steps(self.taking(5), skip=["one"])
        self.assertEqual((section.status, self.clock.now), ("skipped", 100.0))


class Directory(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = pathlib.Path(holder.name)

    def fake(self, name, directory=None):
        """A program that fake_gpu_programs.py plays."""
        path = (directory or self.directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKES}" {name} "$@"\n')
        path.chmod(0o755)
        return path


class CommandsTest(Directory):
    def setUp(self):
        super().setUp()
        self.commands = commands.Commands(self.directory, self.directory / "log.txt")

    def test_all_that_is_said_is_logged(self):
        done = self.commands.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
        self.assertEqual((done.code, done.output), (3, "out\nerr\n"))
        self.assertIn("out\nerr\n# ", (self.directory / "log.txt").read_text())
        with self.assertRaisesRegex(sections.Failure, r"sh exit 3:\nout\nerr"):
            self.commands.must(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)

    def test_what_hangs_is_stopped_with_its_children(self):
        start = time.monotonic()
        done = self.commands.run(["sh", "-c", "echo begun; sleep 300 & wait"], 1)
        self.assertLess(time.monotonic() - start, 60)
        self.assertEqual((done.code, done.output), (None, "begun\n"))
        self.assertIn("was stopped after", done.why())

    def test_a_signal_is_named(self):
        self.assertIn("signal 6", self.commands.run(["sh", "-c", "kill -ABRT $$"], 10).why())

    def test_cuda_tools_are_found_beside_the_compiler(self):
        tool = self.fake("a-cuda-tool")
        self.assertIsNone(commands.find_cuda_tool("a-cuda-tool"))
        with unittest.mock.patch.dict(os.environ, {"CUDACXX": str(self.directory / "nvcc")}):
            self.assertEqual(commands.find_cuda_tool("a-cuda-tool"), str(tool))

    def test_a_program_that_is_not_there_says_nothing(self):
        self.assertIsNone(commands.first_line(["/no/such/program"]))
        self.assertEqual(commands.first_line(["printf", "a\nb 2\n"], "2"), "b 2")


class GtestTest(Directory):
    def test_the_list_is_read(self):
        listed = ("Running main() from gmock_main.cc\nAll/ATest.\n  One/cuda  # GetParam() = cuda\n"
                  "  Two/cuda_bf16\nBTest.\n  Plain\n")  # fmt: skip
        self.assertEqual(gtest.read_list(listed),
                         ["All/ATest.One/cuda", "All/ATest.Two/cuda_bf16", "BTest.Plain"])  # fmt: skip

    def test_results_are_read_once_and_whatever_tests_print(self):
        output = ("[ RUN      ] A.One/x\nprinted [       OK ] B.Two (not it)\n"
                  "half a line[       OK ] A.One/x (12 ms)\n[ RUN      ] A.Two\n"
                  "[  FAILED  ] A.Two, where GetParam() = 3 (1 ms)\n[ RUN      ] A.Three\n"
                  "[  SKIPPED ] A.Three (0 ms)\n"
                  "[==========] 3 tests from 1 test suite ran. (13 ms total)\n"
                  "[  FAILED  ] A.Two, where GetParam() = 3\n")  # fmt: skip
        results, running = gtest.read_run(output)
        self.assertEqual((results.passed, results.failed, results.skipped, running),
                         (["A.One/x"], ["A.Two"], ["A.Three"], None))  # fmt: skip

    def run_fake(self, **env):
        runner = commands.Commands(self.directory, self.directory / "log.txt")
        deadline = sections.Deadline(sections.Budget(60), 60)
        return gtest.run(runner, self.fake("luna_backend_test"), "*", 2,
                         {"LUNA_TEST_DEVICE": "cuda", **env}, deadline)  # fmt: skip

    def test_all_shards_together_run_every_test(self):
        results = self.run_fake()
        self.assertEqual(len(results.passed), 4)
        self.assertEqual(len(set(results.passed)), 4)
        self.assertEqual((results.failed, results.crashed, results.not_run), ([], [], []))

    def test_a_crash_costs_one_test(self):
        results = self.run_fake(FAKE_CRASH="All/SamenessTest.Same/cuda_gpt2",
                                FAKE_FAILURE="All/ContractTest.Path/cuda")  # fmt: skip
        self.assertEqual(results.crashed, ["All/SamenessTest.Same/cuda_gpt2"])
        self.assertEqual(results.failed, ["All/ContractTest.Path/cuda"])
        self.assertEqual((len(results.passed), results.not_run), (2, []))


class ProofTest(unittest.TestCase):
    def row(self, difference=1e-5, margin=1e-5):
        agreement = {"largest_logprob_difference": difference,
                     "largest_margin_where_choices_differ": margin}  # fmt: skip
        good = {"largest_logprob_difference": 0.0, "largest_margin_where_choices_differ": 0.0}
        return {"model": "luna", "weights": "f32",
                "prompts": [{"generated": good, "read_in_chunks": agreement}]}  # fmt: skip

    def test_rounding_is_no_failure(self):
        self.assertEqual(proof.greedy_failures(self.row()), [])

    def test_more_than_rounding_is(self):
        for wrong in (self.row(difference=0.01), self.row(margin=0.01), self.row(difference=None)):
            (failure,) = proof.greedy_failures(wrong)
            self.assertIn("luna, f32, prompt 1, read_in_chunks", failure)

    def test_sanitizer_summaries(self):
        self.assertEqual(proof.sanitizer_errors("x\n===== ERROR SUMMARY: 12 errors\n"), 12)
        self.assertEqual(proof.sanitizer_errors("==== RACECHECK SUMMARY: 2 hazards displayed"), 2)
        self.assertIsNone(proof.sanitizer_errors("Device not supported"))


class MeasureTest(unittest.TestCase):
    def test_steps_become_microseconds(self):
        measured = {"prefill": [{"tokens": 512, "ms": 2.0, "tokens_per_s": 256000.0}],
                    "numerics": "n", "ready_s": 1.0,
                    "decode": [{"batch": 8, "in_flight": 2, "mean_cached": 250.5, "step_ms": 0.3,
                                "median_step_ms": 0.25, "median_launch_ms": 0.05,
                                "tokens_per_s": 32000.0}]}  # fmt: skip
        row = measure.step_row(measure.Model("luna", "dummy:luna"), "int8", "greedy", measured)
        self.assertEqual((row["kv"], row["decode"][0]["step_us"]), ("bf16", 250))
        self.assertAlmostEqual(row["decode"][0]["launch_us"], 50)

    def test_the_lesson_is_of_the_quickest_round(self):
        row = measure.lesson_row("f32", True, 64, [16000.0, 32000.0])
        self.assertAlmostEqual(row["total_s"], 64 * 500 / 32000)
        self.assertAlmostEqual(row["step_ms"], 2.0)

    def test_lines_of_json_among_others(self):
        self.assertEqual(measure.json_lines('warning\n{"a": 1}\n[2]\n{"b": 2}\n{"c'),
                         [{"a": 1}, {"b": 2}])  # fmt: skip


class PackTest(Directory):
    LDD = ("\tlinux-vdso.so.1 (0x1)\n\tlibgrpc++.so.1.51 => /usr/lib/libgrpc++.so.1.51 (0x2)\n"
           "\tlibstdc++.so.6 => /usr/lib/libstdc++.so.6 (0x3)\n\tlibc.so.6 => /lib/libc.so.6 (0x4)\n"
           "\tlibcrypto.so.3 => /usr/lib/libcrypto.so.3 (0x5)\n\t/lib64/ld-linux-x86-64.so.2 (0x6)\n")

    def test_the_systems_own_libraries_stay(self):
        self.assertEqual(pack.libraries(self.LDD),
                         {"libgrpc++.so.1.51": "/usr/lib/libgrpc++.so.1.51",
                          "libcrypto.so.3": "/usr/lib/libcrypto.so.3"})  # fmt: skip

    def test_a_missing_library_is_named(self):
        with self.assertRaisesRegex(sections.Failure, "libabsl.so"):
            pack.libraries("\tlibabsl.so => not found\n")

    def test_what_is_made_can_be_used_and_made_again(self):
        target = self.directory / "pack"
        for _ in range(2):
            size = pack.make(pathlib.Path("/bin"), ("true",), target, {"commit": "abc"})
            self.assertGreater(size, 1000)
        self.assertEqual(subprocess.run([target / "bin" / "true"]).returncode, 0)
        with unittest.mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": "/before"}):
            self.assertEqual(pack.use(target), {"commit": "abc"})
            self.assertEqual(os.environ["LD_LIBRARY_PATH"], f"{target}/lib:/before")

    def test_other_directories_are_left_alone(self):
        (self.directory / "precious").write_text("x")
        with self.assertRaisesRegex(sections.Failure, "left alone"):
            pack.make(pathlib.Path("/bin"), ("true",), self.directory, {})


class RunTest(Directory):
    """The whole command, over a pack of fakes."""

    def run_check(self, *arguments, without=(), env=()):
        packed, tools = self.directory / "pack", self.directory / "tools"
        for name in proof.TARGETS:
            if name not in without:
                self.fake(name, packed / "bin")
        (packed / "manifest.json").write_text('{"commit": "abc", "nvcc": "release 13"}')
        for name in ("nvidia-smi", "compute-sanitizer"):
            if name not in without:
                self.fake(name, tools)
        clean = {key: value for key, value in os.environ.items()
                 if key not in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV")}  # fmt: skip
        done = subprocess.run(
            [sys.executable, ROOT / "tools/gpu_check", "--packed", packed, "--out",
             self.directory / "out", "--torch-python", self.fake("python-with-torch"), *arguments],
            env={**clean, "PATH": f"{tools}:/usr/bin:/bin", **dict(env)}, capture_output=True,
            text=True, timeout=300)  # fmt: skip
        results = json.loads((self.directory / "out/report.json").read_text())
        table = (self.directory / "out/report.md").read_text()
        return done, results, table

    def test_all_is_measured_and_told(self):
        done, results, table = self.run_check()
        self.assertEqual(done.returncode, 0, done.stderr)
        status = {name: section["status"] for name, section in results["sections"].items()}
        self.assertEqual(status.pop("build"), "skipped")
        self.assertEqual(set(status.values()), {"ok"}, status)
        self.assertEqual(results["device"]["name"], "Fake GPU")
        self.assertEqual(results["versions"], {"commit": "abc", "driver": "580.1", "cuda": "13.0",
                                               "nvcc": "release 13", "torch": "9.9",
                                               "torch_cuda": "13.0"})  # fmt: skip
        self.assertRegex(done.stderr, r"gpu_check: \[ +\d+ s\] steps: ok")
        for text in (
            "Fake GPU", "| from page-locked memory to the device, GB/s | 51 |",
            "| Luna's shape, random weights, f32, KV f32 | 50 / 100 | 400 / 800 | 1,500 / 3,000 |",
            "| Luna's shape, random weights, bf16, KV bf16, kernels that do not overlap | 150 / 300 |",
            "temperature 0.8", "| 30 | 400 | 30,000 (30,000) | 1 / 2 | 1 / 2 |",
            "| 1 | no | 0.5 / 1 | 0.5 / 1 | 77 / 154 | 0.75 / 1.5 |",
            "| 64 | yes | 0.5 / 1 | 0.5 / 1 | 77 / 154 | - / 2.7 |",
            "| luna_backend_test on the device | 4 passed, 0 skipped |",
            "| compute-sanitizer racecheck, int8 | 0 errors |",
            "| Luna's shape | bf16 | 7 | 96 | 41 | 1e-05 | 1e-05 | 95 of 96 |",
        ):  # fmt: skip
            self.assertIn(text, table)

    def test_without_a_device_one_sentence_and_no_more(self):
        done, results, _ = self.run_check(env={"FAKE_NO_DEVICE": "1"}.items())
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.splitlines()[-1],
                         "gpu_check: no usable CUDA device: there is none")  # fmt: skip
        self.assertEqual(list(results["sections"]), ["build", "device"])

    def test_neither_programs_nor_a_driver(self):
        done, _, _ = self.run_check(without=("luna-device-limits", "nvidia-smi"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no usable CUDA device", done.stderr.splitlines()[-1])

    def test_what_is_missing_costs_its_own_section_alone(self):
        done, results, table = self.run_check(
            "--skip", "tests,steps", "--skip", "serve,greedy", without=("luna-device-limits", "luna"))
        self.assertEqual(done.returncode, 0, done.stderr)
        by_name = results["sections"]
        self.assertEqual(by_name["device"]["data"], {"name": "580.1"})  # nvidia-smi's word
        self.assertEqual(by_name["limits"]["notes"], ["luna-device-limits was not built"])
        self.assertEqual(by_name["lesson"]["notes"], ["luna was not built"])
        self.assertEqual(by_name["steps"]["notes"], ["left out, as asked"])
        self.assertEqual(by_name["torch"]["status"], "ok")
        self.assertIn("- lesson: luna was not built", table)

    def test_what_is_wrong_is_said_and_the_rest_is_done(self):
        done, results, table = self.run_check("--skip", "torch,limits", env={
            "FAKE_CRASH": "All/ContractTest.Path/cuda", "FAKE_DIFFERENCE": "0.5",
            "FAKE_OVERLAP_CHANGES": "2", "FAKE_HAZARD": "1", "FAKE_SERVER_FAILS": "1"}.items())  # fmt: skip
        self.assertEqual(done.returncode, 1)
        failed = [name for name, one in results["sections"].items() if one["status"] == "failed"]
        self.assertEqual(failed, ["tests", "greedy", "sanitizer", "serve", "lesson"])
        self.assertIn("1 crashed, the first is All/ContractTest.Path/cuda", table)
        self.assertIn("log-probabilities differ by 0.5", table)
        self.assertIn("luna, f32: the words or their log-probabilities depend on whether", table)
        self.assertIn("racecheck, bf16: 3 errors found, exit 99", table)
        self.assertIn("out of memory", json.dumps(results["sections"]["serve"]["failures"]))
        self.assertEqual(len(results["sections"]["steps"]["data"]["rows"]), 8)

    def test_no_time_means_nothing_is_begun(self):
        done, results, _ = self.run_check("--minutes", "0.03", env={}.items())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("of the budget were left", results["sections"]["tests"]["notes"][0])
        self.assertEqual(results["sections"]["torch"]["data"], {})

    def test_unknown_sections_are_refused(self):
        done = subprocess.run([sys.executable, ROOT / "tools/gpu_check", "--skip", "tests,nothing"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 2)
        self.assertIn("nothing: there are build, device", done.stderr)


class RenderTest(unittest.TestCase):
    def test_an_empty_run_is_a_table_too(self):
        text = report.render({"day": "2026-01-02", "device": {}, "versions": {"commit": "abc"},
                              "machine": {"cpu": "a processor", "cores": 2}, "sections": {}})  # fmt: skip
        self.assertIn("no GPU; 2 cores of a processor. commit abc.", text)


class TorchTest(unittest.TestCase):
    def test_a_cache_changes_no_word(self):
        try:
            import torch
        except ImportError:
            self.skipTest("needs PyTorch")
        from gpu_check import torch_gpt2

        torch.manual_seed(1)
        model = torch_gpt2.Gpt2().eval()
        prompt = torch.randint(torch_gpt2.VOCAB, (2, 5))
        texts = [torch_gpt2.generate(model, prompt, 7, kv_cache).tolist()
                 for kv_cache in (True, False)]  # fmt: skip
        self.assertEqual(texts[0], texts[1])
        self.assertEqual([len(text) for text in texts[0]], [12, 12])


if __name__ == "__main__":
    unittest.main()

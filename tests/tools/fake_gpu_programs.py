"""What gpu_check runs, as it would be on a machine with a GPU: `fake_gpu_programs.py NAME ARGUMENT...`
behaves as program NAME. FAKE_* in the environment make it fail.

No figure here was measured; they are chosen to be told apart.
"""

import json
import os
import signal
import sys
import time

DEVICE = {"name": "Fake GPU", "compute_capability": "9.0", "multiprocessors": 132,
          "shared_bytes": 232448, "l2_bytes": 1 << 20, "clock_mhz": 1000, "driver_cuda": "13.0",
          "runtime_cuda": "13.0", "memory_bytes": 2**37, "free_bytes": 2**36}  # fmt: skip
LIMITS = {"graph_node_us": 1.5, "wide_graph_node_us": 2.5, "stream_kernel_us": 3.5,
          "graph_launch_us": 4.5, "graph_round_trip_us": 5.5, "step_round_trip_us": 6.5,
          "copy_within_gb_s": 4100.0, "copy_in_gb_s": 51.0, "copy_out_gb_s": 52.0}  # fmt: skip
TESTS = {"luna_backend_test": ["All/SamenessTest.Same/cuda_gpt2", "All/SamenessTest.Same/cuda_llama",
                               "All/ContractTest.Path/cuda", "Families/ParityTest.Agrees/gpt2"],
         "luna_backend_cuda_test": ["All/ProductTest.Sum/f32_6x20", "SamplingTest.Equal"]}


def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def device_limits():
    if "FAKE_NO_DEVICE" in os.environ:
        print("no usable CUDA device: there is none", file=sys.stderr)
        sys.exit(2)
    print(json.dumps({"device": DEVICE} if "--device" in sys.argv else
                     {"device": DEVICE, "limits": LIMITS}))


def run_tests(names):
    wanted = option("--gtest_filter") or next(
        (part.split("=", 1)[1] for part in sys.argv if part.startswith("--gtest_filter=")), "*")
    if "--gtest_list_tests" in sys.argv:
        for name in names:
            suite, test = name.split(".")
            print(f"{suite}.\n  {test}  # GetParam() = {test}")
        return
    assert os.environ["LUNA_TEST_DEVICE"] == "cuda"
    failed = False
    for name in [name for name in names if name in wanted.split(":")]:
        print(f"[ RUN      ] {name}")
        if name == os.environ.get("FAKE_CRASH"):
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGABRT)
        if name == os.environ.get("FAKE_FAILURE"):
            print(f"[  FAILED  ] {name}, where GetParam() = x (1 ms)")
            failed = True
        else:
            print(f"[       OK ] {name} (1 ms)")
    print("[==========] 4 tests from 3 test suites ran. (4 ms total)")
    sys.exit(failed)


def greedy_compare():
    differs = float(os.environ.get("FAKE_DIFFERENCE", "1e-5"))
    if os.environ.get("LUNA_CUDA_SERIAL"):
        differs *= float(os.environ.get("FAKE_OVERLAP_CHANGES", "1"))
    agreement = {"places": 96, "same_choice": 95, "largest_logprob_difference": differs,
                 "largest_margin_where_choices_differ": 1e-5}  # fmt: skip
    prompt = {"prompt_tokens": 7, "tokens": 96, "first_difference": 41, "margin": 1e-5,
              "generated": agreement, "read_in_chunks": agreement, "text": "a", "cpu_text": "b"}
    with open(option("--json"), "w") as out:
        json.dump({"model": sys.argv[1], "numerics": "n", "cpu_numerics": "n",
                   "prompts": [prompt] * 3}, out)  # fmt: skip


def backend_bench():
    batches = [int(batch) for batch in option("--batches").split(",")]
    ms = 0.3 if os.environ.get("LUNA_CUDA_SERIAL") else 0.1  # a step of one
    decode = [{"batch": batch, "context": 218, "mean_cached": 250.5, "in_flight": in_flight,
               "steps": 320, "step_ms": 0.2, "median_step_ms": ms * batch / in_flight,
               "median_launch_ms": 0.01, "tokens_per_s": 1.0, "cpu_ms": 1.0}
              for batch in batches for in_flight in (1, 2)]  # fmt: skip
    with open(option("--json", os.devnull), "w") as out:
        json.dump({"model": sys.argv[1], "backend": "cuda", "numerics": "weights bf16",
                   "threads": 0, "ready_s": 1.0, "decode": decode,
                   "prefill": [{"tokens": 512, "ms": 2.0, "tokens_per_s": 256000.0}]}, out)


def server():
    if "FAKE_SERVER_FAILS" in os.environ:
        print("--backend: 'cuda': out of memory", file=sys.stderr)
        sys.exit(1)
    print("ready grpc=127.0.0.1:1", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    time.sleep(600)


def load_client():
    clients, tokens = int(option("--clients")), int(option("--max-tokens"))
    gaps = {"count": 3, "mean": 1.0, "p50": 1.0, "p90": 1.0, "p99": 2.0, "max": 3.0}
    rate = 1000.0 * clients
    with open(option("--json"), "w") as out:
        json.dump({"numerics": "weights bf16, KV bf16, path sm_90", "max_tokens": tokens,
                   "requests": clients, "errors": 0, "ttft_ms": gaps, "itl_ms": gaps,
                   "tokens_per_s": {"best": rate, "median": rate, "rounds": [rate]},
                   "itl_percentiles_ms": []}, out)  # fmt: skip


def sanitizer():
    check = option("--tool")
    if "FAKE_HAZARD" in os.environ and check == "racecheck":
        print("========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)")
        sys.exit(99)
    print("========= ERROR SUMMARY: 0 errors" if check == "memcheck" else
          "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)")  # fmt: skip


def torch_python():
    print("a warning of some library")
    print(json.dumps({"versions": {"torch": "9.9", "torch_cuda": "13.0"}}))
    for batch in (1, 64):
        for kv_cache in (True, False):
            print(json.dumps({"weights": "bf16", "kv_cache": kv_cache, "batch": batch,
                              "tokens": 500, "total_s": 77.0, "step_ms": 154.0}))  # fmt: skip


def main():
    name = sys.argv.pop(1)
    programs = {"luna-device-limits": device_limits, "luna-greedy-compare": greedy_compare,
                "luna-backend-bench": backend_bench, "luna-server": server, "luna": load_client,
                "compute-sanitizer": sanitizer, "python-with-torch": torch_python,
                "nvidia-smi": lambda: print("580.1")}  # fmt: skip
    if name in TESTS:
        run_tests(TESTS[name])
    else:
        programs[name]()


if __name__ == "__main__":
    main()

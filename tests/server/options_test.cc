#include "server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace luna::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<Parsed> Parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "luna-server");
  return ParseOptions(static_cast<int>(flags.size()), flags.data());
}

Options ParseGood(const std::vector<const char*>& flags) {
  absl::StatusOr<Parsed> parsed = Parse(flags);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? std::get<Options>(*parsed) : Options();
}

std::string Complaint(const std::vector<const char*>& flags) {
  absl::StatusOr<Parsed> parsed = Parse(flags);
  EXPECT_FALSE(parsed.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << parsed.status();
  return std::string(parsed.status().message());
}

TEST(OptionsTest, DefaultsAreThoseOfTheHelp) {
  const Options options = ParseGood({"--model", "m"});
  EXPECT_EQ(options.model, "m");
  EXPECT_EQ(options.listen.ToString(), "127.0.0.1:50051");
  EXPECT_FALSE(options.allow_remote);
  EXPECT_EQ(options.backend, "auto");
  EXPECT_EQ(options.block_tokens, 16);
  EXPECT_EQ(options.kv_cache_bytes, 0);
  EXPECT_EQ(options.session_quota_bytes, 0);
  EXPECT_FALSE(options.seed.has_value());
  EXPECT_FALSE(options.no_kv_cache);
  EXPECT_EQ(options.drain_timeout, absl::Seconds(30));

  const std::string help = std::get<std::string>(*Parse({"--help"}));
  EXPECT_THAT(help, AllOf(HasSubstr("--listen HOST:PORT=127.0.0.1:50051"),
                          HasSubstr("--block-tokens TOKENS:[1, 1024]=16"),
                          HasSubstr("--backend NAME:auto|cuda|cpu|reference=auto"),
                          HasSubstr("--drain-timeout DURATION=30s")));
}

TEST(OptionsTest, EveryFlagIsRead) {
  const Options options = ParseGood({"--model=dummy:luna",
                                     "--model-name=x",
                                     "--listen",
                                     "0.0.0.0:0",
                                     "--allow-remote",
                                     "--backend=reference",
                                     "--threads=3",
                                     "--weights=f32",
                                     "--kv-dtype=f32",
                                     "--cpu=avx2",
                                     "--context=128",
                                     "--no-kv-cache",
                                     "--kv-cache-bytes=2M",
                                     "--block-tokens=8",
                                     "--max-batch-tokens=64",
                                     "--max-sessions=5",
                                     "--session-quota-bytes=64K",
                                     "--queue-limit=7",
                                     "--seed=18446744073709551615",
                                     "--log-level=debug",
                                     "--drain-timeout=1500ms"});
  EXPECT_EQ(options.model, "dummy:luna");
  EXPECT_EQ(options.model_name, "x");
  EXPECT_TRUE(options.listen.IsAny());
  EXPECT_EQ(options.listen.port, 0);
  EXPECT_EQ(options.backend, "reference");
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.weights, backend::WeightsFormat::kF32);
  EXPECT_EQ(options.kv_dtype, backend::KvDtype::kF32);
  EXPECT_EQ(options.code_path, "avx2");
  EXPECT_EQ(options.context, 128);
  EXPECT_TRUE(options.no_kv_cache);
  EXPECT_EQ(options.kv_cache_bytes, 2 << 20);
  EXPECT_EQ(options.block_tokens, 8);
  EXPECT_EQ(options.max_batch_tokens, 64);
  EXPECT_EQ(options.max_sessions, 5);
  EXPECT_EQ(options.session_quota_bytes, 64 << 10);
  EXPECT_EQ(options.queue_limit, 7);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_EQ(options.drain_timeout, absl::Milliseconds(1500));
}

TEST(OptionsTest, BadValuesNameFlagValueAndLimit) {
  struct Case {
    const char* flag;
    const char* value;
    const char* limit;
  };
  const Case cases[] = {
      {"--threads", "foo", "[0, 1024]"},
      {"--weights", "int3", "auto|f32|bf16|int8|int4"},
      {"--threads", "-1", "[0, 1024]"},
      {"--block-tokens", "0", "[1, 1024]"},
      {"--block-tokens", "16x", "[1, 1024]"},
      {"--max-batch-tokens", "65537", "[1, 65536]"},
      {"--max-sessions", "0", "[1, 100000]"},
      {"--queue-limit", "99999999999999999999", "[1, 1000000]"},
      {"--backend", "gpu", "cpu|reference"},
      {"--log-level", "loud", "trace|debug|info|warn|error|off"},
      {"--kv-cache-bytes", "-5", "at least 1"},
      {"--kv-cache-bytes", "5T", "K, M or G"},
      {"--kv-cache-bytes", "9999999999999G", "K, M or G"},
      {"--session-quota-bytes", "0", "at least 1"},
      {"--seed", "-1", "[0, 2^64)"},
      {"--drain-timeout", "soon", "[0, 24h]"},
      {"--drain-timeout", "-1s", "[0, 24h]"},
      {"--autosave", "always", "off|turn"},
      {"--listen", "127.0.0.1", "HOST:PORT"},
      {"--listen", "127.0.0.1:70000", "[0, 65535]"},
      {"--listen", "::1:50051", "HOST:PORT"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(Complaint({"--model", "m", c.flag, c.value}),
                AllOf(HasSubstr(c.flag), HasSubstr(c.value), HasSubstr(c.limit)));
  }
}

TEST(OptionsTest, WhatIsSavedAndWhen) {
  EXPECT_FALSE(ParseGood({"--model", "m"}).autosave);
  const Options saving = ParseGood({"--model", "m", "--state-dir", "d"});
  EXPECT_EQ(saving.state_dir, "d");
  EXPECT_TRUE(saving.autosave);
  EXPECT_EQ(saving.state_ttl, absl::Hours(30 * 24));
  EXPECT_FALSE(ParseGood({"--model", "m", "--state-dir", "d", "--autosave=off"}).autosave);
  EXPECT_EQ(ParseGood({"--model", "m", "--state-dir", "d", "--state-ttl=inf"}).state_ttl,
            absl::InfiniteDuration());
  for (const char* ttl : {"0s", "-1h", "a month"}) {
    EXPECT_THAT(Complaint({"--model", "m", "--state-dir", "d", "--state-ttl", ttl}),
                AllOf(HasSubstr("--state-ttl"), HasSubstr(ttl), HasSubstr("above 0")));
  }
  for (const char* alone : {"--autosave=turn", "--state-ttl=1h"}) {
    EXPECT_THAT(Complaint({"--model", "m", alone}), HasSubstr("--state-dir"));
  }
}

TEST(OptionsTest, WrongUsageIsRefused) {
  EXPECT_THAT(Complaint({}), AllOf(HasSubstr("--model"), HasSubstr("models/luna-tiny")));
  EXPECT_THAT(Complaint({"--model", "m", "--no-such-flag"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(Complaint({"--model", "m", "stray"}), HasSubstr("stray"));
  EXPECT_THAT(Complaint({"--model"}), HasSubstr("--model"));
}

TEST(OptionsTest, ARemoteAddressTakesAllowRemote) {
  EXPECT_THAT(Complaint({"--model", "m", "--listen", "0.0.0.0:50051"}),
              AllOf(HasSubstr("0.0.0.0:50051"), HasSubstr("--allow-remote")));
  EXPECT_THAT(Complaint({"--model", "m", "--listen", "[::]:50051"}), HasSubstr("--allow-remote"));
  EXPECT_TRUE(ParseGood({"--model", "m", "--listen", "[::]:50051", "--allow-remote"}).allow_remote);
}

TEST(OptionsTest, VersionIsALine) {
  EXPECT_THAT(std::get<std::string>(*Parse({"--version"})),
              ::testing::MatchesRegex("luna-server [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(ListenAddressTest, LoopbackAndFormsAreRecognised) {
  EXPECT_TRUE(ParseListenAddress("localhost:1")->IsLoopback());
  EXPECT_TRUE(ParseListenAddress("127.9.9.9:1")->IsLoopback());
  EXPECT_TRUE(ParseListenAddress("[::1]:1")->IsLoopback());
  EXPECT_FALSE(ParseListenAddress("10.1.2.3:1")->IsLoopback());
  EXPECT_FALSE(ParseListenAddress("example.org:1")->IsLoopback());
  EXPECT_FALSE(ParseListenAddress("0.0.0.0:1")->IsLoopback());
  EXPECT_EQ(ParseListenAddress("[::1]:50051")->ToString(), "[::1]:50051");
  EXPECT_FALSE(ParseListenAddress("unix:/tmp/luna").ok());
  EXPECT_FALSE(ParseListenAddress(":50051").ok());
  EXPECT_FALSE(ParseListenAddress("host:").ok());
}

}  // namespace
}  // namespace luna::server

// Greedy texts of a backend beside the CPU's: how far they agree, and how sure the CPU was of what
// the other chose differently.
//   luna-greedy-compare MODEL [--backend NAME] [--weights FORMAT] [--kv-dtype DTYPE] [--tokens N]
//     [--json FILE]
// Of three prompts, the last of them longer than one split of attention. Besides, the backend reads
// the CPU's whole texts in chunks, as it would a prompt. Log-probabilities are compared where the
// tokens before them are the same, over those among both sides' kTop likeliest.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/backend/factory/factory.h"
#include "core/base/check.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

constexpr int kTop = 20;
constexpr int kChunk = 64;
constexpr int kBlockTokens = 16;
constexpr int kLongPrompt = 300;  // tokens

struct Arguments {
  std::string model;
  std::string backend = "cuda";
  BackendOptions options;
  int tokens = 96;  // of each text, behind the prompt
  std::string json = "";
};

using Tokens = std::vector<TokenId>;

class Subject {
 public:
  Subject(const std::string& name, const std::shared_ptr<const model::Model>& model,
          const Arguments& arguments)
      : backend_(Make(name, model, arguments.options)),
        driver_(*backend_, model->config, kBlockTokens,
                (model->config.context_length / kBlockTokens + 8) *
                    TestLayout(model->config, kBlockTokens, *backend_).num_groups()) {
    params_.temperature = 0.0f;
    params_.num_logprobs = std::min(kTop, model->config.vocab_size);
  }

  const std::string& numerics() const { return backend_->info().numerics; }

  // `prompt` and `count` tokens behind it, one at a time. Rows from the prompt's last token on.
  Tokens Continue(const Tokens& prompt, int count, std::vector<RowResult>& rows) {
    TestSequence sequence = driver_.NewSequence(0, 1);
    sequence.tokens = prompt;
    const int last = static_cast<int>(prompt.size()) - 1;
    while (sequence.tokens.size() < prompt.size() + count) {
      Step(sequence, last);
      if (sequence.computed > last) sequence.tokens.push_back(sequence.rows.back().token);
    }
    return Take(sequence, last, rows);
  }

  // Rows from position `first` on, of `tokens` as they are.
  void Read(const Tokens& tokens, int first, std::vector<RowResult>& rows) {
    TestSequence sequence = driver_.NewSequence(0, 1);
    sequence.tokens = tokens;
    while (sequence.computed < static_cast<int>(tokens.size())) Step(sequence, first);
    Take(sequence, first, rows);
  }

 private:
  static std::unique_ptr<Backend> Make(const std::string& name,
                                       const std::shared_ptr<const model::Model>& model,
                                       BackendOptions options) {
    options.max_batch_tokens = kChunk;
    auto backend = MakeBackend(name, model, options);
    LUNA_CHECK(backend.ok()) << backend.status();
    return *std::move(backend);
  }

  // A chunk of what is there.
  void Step(TestSequence& sequence, int first) {
    const int left = static_cast<int>(sequence.tokens.size()) - sequence.computed;
    const Chunk chunks[] = {{&sequence, std::min(left, kChunk)}};
    const auto wanted = [first](int position) { return position >= first; };
    const absl::Status status = driver_.Step(chunks, params_, wanted);
    LUNA_CHECK(status.ok()) << status;
    for (const RowResult& row : sequence.rows) LUNA_CHECK(row.status.ok()) << row.status;
  }
  Tokens Take(TestSequence& sequence, int first, std::vector<RowResult>& rows) {
    rows.assign(std::make_move_iterator(sequence.rows.begin() + first),
                std::make_move_iterator(sequence.rows.end()));
    driver_.Release(sequence);
    return std::move(sequence.tokens);
  }

  const std::unique_ptr<Backend> backend_;
  SequenceDriver driver_;
  sample::SamplingParams params_;
};

// How much likelier the first token is than the second, in nats.
double Margin(const RowResult& row) {
  float first = -INFINITY, second = -INFINITY;
  for (const float logprob : row.logprobs) {
    if (logprob == kNotAmongTheTop) continue;
    second = std::max(second, std::min(first, logprob));
    first = std::max(first, logprob);
  }
  return first - second;
}

double LargestDifference(const RowResult& a, const RowResult& b) {
  double largest = 0;
  for (size_t token = 0; token < a.logprobs.size(); ++token) {
    if (a.logprobs[token] == kNotAmongTheTop || b.logprobs[token] == kNotAmongTheTop) continue;
    largest = std::max(largest, std::abs(double{a.logprobs[token]} - b.logprobs[token]));
  }
  return largest;
}

// Rows over the same tokens.
struct Agreement {
  double largest_difference = 0;  // of a log-probability
  double largest_margin = 0;      // of the CPU, where the choices differ
  int places = 0, same = 0;

  void Add(const RowResult& cpu, const RowResult& other) {
    ++places;
    largest_difference = std::max(largest_difference, LargestDifference(cpu, other));
    if (cpu.token == other.token) {
      ++same;
    } else {
      largest_margin = std::max(largest_margin, Margin(cpu));
    }
  }
  nlohmann::ordered_json Json() const {
    return {{"places", places},
            {"same_choice", same},
            {"largest_logprob_difference", largest_difference},
            {"largest_margin_where_choices_differ", largest_margin}};
  }
};

nlohmann::ordered_json Compare(const Tokens& prompt, const Arguments& arguments,
                               const text::Tokenizer& tokenizer, Subject& cpu, Subject& other) {
  const int last = static_cast<int>(prompt.size()) - 1;
  std::vector<RowResult> expected, got, read;
  const Tokens text = cpu.Continue(prompt, arguments.tokens, expected);
  const Tokens other_text = other.Continue(prompt, arguments.tokens, got);
  Agreement generated;
  int differs = 0;
  while (differs < arguments.tokens) {
    generated.Add(expected[differs], got[differs]);
    if (expected[differs].token != got[differs].token) break;
    ++differs;
  }
  // Whatever stands at the end was chosen, but is no row of its own.
  other.Read(Tokens(text.begin(), text.end() - 1), last, read);
  Agreement reading;
  for (size_t i = 0; i < read.size(); ++i) reading.Add(expected[i], read[i]);

  nlohmann::ordered_json json = {{"prompt_tokens", prompt.size()},
                                 {"tokens", arguments.tokens},
                                 {"first_difference", nullptr},
                                 {"generated", generated.Json()},
                                 {"read_in_chunks", reading.Json()}};
  if (differs < arguments.tokens) {
    json["first_difference"] = differs;
    json["margin"] = Margin(expected[differs]);
  }
  const auto tail = [&](const Tokens& tokens) {
    return tokenizer.Decode(std::span(tokens).subspan(prompt.size()));
  };
  json["cpu_text"] = tail(text);
  json["text"] = tail(other_text);
  return json;
}

std::vector<Tokens> Prompts(const text::Tokenizer& tokenizer, int context, int tokens) {
  const auto encode = [&](const std::string& text) {
    const auto encoded = tokenizer.Encode(text, {.add_special = true});
    LUNA_CHECK(encoded.ok()) << encoded.status();
    LUNA_CHECK(!encoded->empty());
    return *encoded;
  };
  std::string story;
  while (story.size() < 8 * kLongPrompt) {
    story += "Once upon a time there was a little fox who lived in the forest. ";
  }
  Tokens longest = encode(story);
  const int room = std::min(kLongPrompt, context - tokens);
  LUNA_CHECK(room > 0) << "the context is " << context;
  if (static_cast<int>(longest.size()) > room) longest.resize(room);
  return {encode("Once upon a time"), encode("옛날 옛적에 작은 마을에"), longest};
}

Arguments Parse(int argc, char** argv) {
  LUNA_CHECK(argc >= 2 && argc % 2 == 0)
      << "usage: luna-greedy-compare MODEL [--backend NAME] [--weights FORMAT] [--kv-dtype DTYPE] "
         "[--tokens N] [--json FILE]";
  Arguments arguments{.model = argv[1], .options = {}};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--weights") {
      for (const WeightsFormat format : kWeightsFormats) {
        if (value == WeightsFormatName(format)) arguments.options.weights = format;
      }
      LUNA_CHECK(arguments.options.weights.has_value()) << flag << " " << value;
    } else if (flag == "--kv-dtype") {
      for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16}) {
        if (value == KvDtypeName(dtype)) arguments.options.kv_dtype = dtype;
      }
      LUNA_CHECK(arguments.options.kv_dtype.has_value()) << flag << " " << value;
    } else if (flag == "--backend") {
      arguments.backend = value;
    } else if (flag == "--tokens") {
      arguments.tokens = std::stoi(value);
    } else {
      LUNA_CHECK(flag == "--json") << "no flag " << flag;
      arguments.json = value;
    }
  }
  return arguments;
}

int Main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const auto model = model::LoadModel(arguments.model);
  LUNA_CHECK(model.ok()) << model.status();
  const auto tokenizer = text::Tokenizer::Create((*model)->tokenizer);
  LUNA_CHECK(tokenizer.ok()) << tokenizer.status();
  Subject cpu("cpu", *model, arguments), other(arguments.backend, *model, arguments);
  nlohmann::ordered_json json = {
      {"model", arguments.model}, {"cpu_numerics", cpu.numerics()}, {"numerics", other.numerics()}};
  const int context = (*model)->config.context_length;
  for (const Tokens& prompt : Prompts(**tokenizer, context, arguments.tokens)) {
    json["prompts"].push_back(Compare(prompt, arguments, **tokenizer, cpu, other));
  }
  const std::string text =
      json.dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  if (arguments.json.empty()) {
    std::puts(text.c_str());
  } else {
    std::ofstream(arguments.json) << text << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace luna::backend

int main(int argc, char** argv) { return luna::backend::Main(argc, argv); }

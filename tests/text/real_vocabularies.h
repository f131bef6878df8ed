// The vocabularies that tests compare with references, loaded from where they were fetched to.
#ifndef LUNA_TESTS_TEXT_REAL_VOCABULARIES_H_
#define LUNA_TESTS_TEXT_REAL_VOCABULARIES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/text/tokenizer_json.h"

namespace luna::text {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct RealVocabulary {
  std::string name;  // of its golden files
  std::string path;  // a tokenizer.json, or a model that LoadModel reads
  std::string fetched_by;
  bool by_score = false;  // drop the merges and take scores.json beside the tokenizer.json

  bool exists() const { return std::filesystem::exists(path); }
  std::string MissingMessage() const {
    return path + " is not there; " + fetched_by + " fetches it";
  }
};

inline void PrintTo(const RealVocabulary& vocabulary, std::ostream* out) {
  *out << vocabulary.path;
}

inline RealVocabulary FetchedTokenizer(const std::string& golden, const std::string& folder) {
  return {golden, "models/tokenizers/" + folder + "/tokenizer.json", "./dev tokenizers"};
}

inline RealVocabulary FetchedModel(const std::string& golden, const std::string& model) {
  return {golden, "models/" + model, "./dev model " + model};
}

// A failure of the test, and empty data, if the file does not load.
inline TokenizerData LoadVocabulary(const RealVocabulary& vocabulary) {
  if (!vocabulary.path.ends_with(".json")) {
    const auto model = model::LoadModel(vocabulary.path);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? (*model)->tokenizer : TokenizerData{};
  }
  auto data = ParseTokenizerJson(ReadFile(vocabulary.path));
  EXPECT_TRUE(data.ok()) << data.status();
  if (!data.ok()) return {};
  if (vocabulary.by_score) {
    data->merges.clear();
    const auto scores = std::filesystem::path(vocabulary.path).parent_path() / "scores.json";
    data->scores = nlohmann::json::parse(ReadFile(scores)).get<std::vector<float>>();
  }
  return *std::move(data);
}

}  // namespace luna::text

#endif  // LUNA_TESTS_TEXT_REAL_VOCABULARIES_H_

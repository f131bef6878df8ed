#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/model/hf_config.h"
#include "core/model/json_fields.h"
#include "core/model/loaders.h"
#include "core/model/mapped_file.h"
#include "core/model/safetensors.h"
#include "core/text/json_object.h"
#include "core/text/tokenizer_json.h"

namespace luna::model {
namespace {

using nlohmann::json;

constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
constexpr int64_t kMaxTokenizerBytes = int64_t{64} << 20;

// Says which file of the directory an error is about.
absl::Status InFile(const absl::Status& status, std::string_view file) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(AbslView(file), ": ", status.message()));
}

// The text of an optional file: empty if there is none.
absl::StatusOr<std::string> ReadOptional(const std::string& path, int64_t max_bytes) {
  absl::StatusOr<std::string> text = ReadTextFile(path, max_bytes);
  if (absl::IsNotFound(text.status())) return std::string();
  return text;
}

// File names of the weights, relative to the directory.
absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& directory) {
  constexpr char kSingle[] = "model.safetensors";
  constexpr char kIndex[] = "model.safetensors.index.json";
  const std::string index_path = absl::StrCat(directory, "/", kIndex);
  LUNA_ASSIGN_OR_RETURN(const std::string text, ReadOptional(index_path, kMaxConfigBytes));
  if (text.empty()) return std::vector<std::string>{kSingle};
  LUNA_ASSIGN_OR_RETURN(const json index, text::ParseJsonObject(text, kIndex));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kIndex, ": \"weight_map\" names no files"));
  }
  std::set<std::string> names;
  for (const json& value : *map) {
    const std::string name = value.is_string() ? value.get<std::string>() : std::string();
    if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
      return absl::InvalidArgumentError(absl::StrCat(
          kIndex, ": ", JsonExcerpt(value), " is not the name of a file in this directory"));
    }
    names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::Status ReadWeightFiles(const std::string& directory, TensorTable& table) {
  LUNA_ASSIGN_OR_RETURN(const std::vector<std::string> names, WeightFiles(directory));
  for (const std::string& name : names) {
    auto file = MappedFile::Open(absl::StrCat(directory, "/", name));
    if (absl::IsNotFound(file.status())) {
      return absl::NotFoundError(
          absl::StrCat(directory, ": no ", name, "; weights are read from safetensors files only"));
    }
    LUNA_RETURN_IF_ERROR(file.status());
    LUNA_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                          ParseSafetensors((*file)->bytes(), name));
    for (auto& [tensor_name, tensor] : tensors) {
      LUNA_RETURN_IF_ERROR(InFile(table.Add(tensor_name, std::move(tensor)), name));
    }
    table.storage().push_back(*std::move(file));
  }
  return absl::OkStatus();
}

// "eos_token_id" is a number or a list of them.
void AddEndIds(JsonFields& fields, text::TokenizerData& data) {
  constexpr char kKey[] = "eos_token_id";
  const json* value = fields.Find(kKey);
  if (value == nullptr) return;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& id : list) {
    if (!id.is_number_integer()) return fields.Invalid(kKey, "it must hold token ids");
    if (id >= 0 && id < static_cast<int64_t>(data.tokens.size())) {
      data.end_ids.push_back(id.get<TokenId>());
    }
  }
}

// Special tokens as generation_config.json or config.json give them; `end_ids`: those that end an
// answer too.
absl::Status AddSpecialTokens(std::string_view text, std::string_view file, bool end_ids,
                              text::TokenizerData& data) {
  if (text.empty()) return absl::OkStatus();
  LUNA_ASSIGN_OR_RETURN(const json object, text::ParseJsonObject(text, file));
  JsonFields fields(object, std::string(file));
  if (end_ids) AddEndIds(fields, data);
  const int bos = fields.Find("bos_token_id") != nullptr ? fields.Int("bos_token_id", -1) : -1;
  if (!data.bos && bos >= 0 && bos < static_cast<int>(data.tokens.size())) data.bos = bos;
  return fields.status();
}

// Newer files keep the template beside tokenizer_config.json; then they win.
absl::Status ReadChatTemplate(const std::string& directory, text::TokenizerData& data) {
  LUNA_ASSIGN_OR_RETURN(std::string jinja,
                        ReadOptional(directory + "/chat_template.jinja", kMaxConfigBytes));
  if (!jinja.empty()) {
    data.chat_template = std::move(jinja);
    return absl::OkStatus();
  }
  constexpr char kFile[] = "chat_template.json";
  LUNA_ASSIGN_OR_RETURN(const std::string text,
                        ReadOptional(absl::StrCat(directory, "/", kFile), kMaxConfigBytes));
  if (text.empty()) return absl::OkStatus();
  LUNA_ASSIGN_OR_RETURN(const json object, text::ParseJsonObject(text, kFile));
  JsonFields fields(object, kFile);
  data.chat_template = fields.String("chat_template", data.chat_template);
  return fields.status();
}

absl::StatusOr<text::TokenizerData> ReadTokenizer(const std::string& directory,
                                                  const std::string& config_text) {
  constexpr char kFile[] = "tokenizer.json";
  auto text = ReadTextFile(absl::StrCat(directory, "/", kFile), kMaxTokenizerBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(directory, ": no ", kFile));
  }
  LUNA_RETURN_IF_ERROR(text.status());
  auto data = text::ParseTokenizerJson(*text);
  LUNA_RETURN_IF_ERROR(InFile(data.status(), kFile));
  constexpr char kConfig[] = "tokenizer_config.json";
  LUNA_ASSIGN_OR_RETURN(const std::string tokenizer_config,
                        ReadOptional(absl::StrCat(directory, "/", kConfig), kMaxConfigBytes));
  if (!tokenizer_config.empty()) {
    LUNA_RETURN_IF_ERROR(InFile(text::ApplyTokenizerConfigJson(tokenizer_config, *data), kConfig));
  }
  constexpr char kGeneration[] = "generation_config.json";
  LUNA_ASSIGN_OR_RETURN(const std::string generation,
                        ReadOptional(absl::StrCat(directory, "/", kGeneration), kMaxConfigBytes));
  LUNA_RETURN_IF_ERROR(AddSpecialTokens(generation, kGeneration, true, *data));
  // config.json often repeats its class's default end, which the tokenizer knows nothing of: it
  // counts only where nothing better is there.
  const bool no_ends = generation.empty() && data->end_ids.empty();
  LUNA_RETURN_IF_ERROR(AddSpecialTokens(config_text, "config.json", no_ends, *data));
  LUNA_RETURN_IF_ERROR(ReadChatTemplate(directory, *data));
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> LoadHfDirectory(const std::string& directory) {
  LUNA_ASSIGN_OR_RETURN(const std::string config_text,
                        ReadTextFile(directory + "/config.json", kMaxConfigBytes));
  auto model = std::make_unique<Model>();
  LUNA_ASSIGN_OR_RETURN(model->config, ParseHfConfig(config_text));
  TensorTable table;
  LUNA_RETURN_IF_ERROR(ReadWeightFiles(directory, table));
  LUNA_RETURN_IF_ERROR(TakeHfWeights(model->config, table, model->weights));
  LUNA_ASSIGN_OR_RETURN(model->tokenizer, ReadTokenizer(directory, config_text));
  LUNA_RETURN_IF_ERROR(FitVocabulary(model->config.vocab_size, model->tokenizer));
  model->weights_bytes = table.total_bytes();
  model->source = absl::StrCat("safetensors, ", table.TypeSummary());
  model->storage = std::move(table.storage());
  return model;
}

}  // namespace luna::model

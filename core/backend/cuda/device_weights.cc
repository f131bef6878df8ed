#include "core/backend/cuda/device_weights.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "core/backend/rope_table.h"
#include "core/backend/rounding.h"
#include "core/base/status_macros.h"

namespace luna::backend::cuda {

using model::Tensor;
namespace {

constexpr int64_t kStagingBytes = int64_t{4} << 20;
// Rows of a table that are brought over at a time.
constexpr int64_t kTableRows = 64;

}  // namespace

// Brings a model over, piece by piece through one staging buffer.
class Uploader {
 public:
  Uploader(const model::Model& model, WeightsFormat format, Device& device,
           const std::function<void(double)>& on_progress)
      : model_(model), format_(format), device_(device), on_progress_(on_progress) {}

  absl::StatusOr<DeviceWeights> Upload() {
    LUNA_ASSIGN_OR_RETURN(staging_,
                          StagingMemory::Allocate(device_, "weights staging", kStagingBytes));
    LUNA_ASSIGN_OR_RETURN(staged_, device_.MakeEvent());
    const model::Weights& w = model_.weights;
    LUNA_RETURN_IF_ERROR(Table(w.token_embedding, out_.token_embedding_));
    if (w.position_embedding) {
      LUNA_RETURN_IF_ERROR(Table(w.position_embedding, out_.position_embedding_));
    }
    out_.embeddings_are_bf16_ = format_ != WeightsFormat::kF32;
    for (size_t i = 0; i < w.layers.size(); ++i) {
      LUNA_RETURN_IF_ERROR(Layer(w.layers[i], static_cast<int>(i)));
    }
    const std::vector<float> zeros(RoundUpToGroup(model_.config.hidden_size), 0.0f);
    LUNA_RETURN_IF_ERROR(Copy("zeros", zeros.data(),
                              static_cast<int64_t>(zeros.size() * sizeof(float)), out_.zeros_));
    LUNA_RETURN_IF_ERROR(Vector(w.final_norm, out_.final_norm_));
    LUNA_RETURN_IF_ERROR(Vector(w.final_norm_bias, out_.final_norm_bias_));
    LUNA_RETURN_IF_ERROR(Matrix(StackedRows({{&w.head, &none_}}), w.head.cols, out_.head_));
    LUNA_RETURN_IF_ERROR(Flush());
    return std::move(out_);
  }

 private:
  absl::Status Layer(const model::LayerWeights& w, int index) {
    const model::ModelConfig& c = model_.config;
    DeviceLayer& layer = out_.layers_.emplace_back();
    LUNA_RETURN_IF_ERROR(Vector(w.attention_norm, layer.attention_norm));
    LUNA_RETURN_IF_ERROR(Vector(w.attention_norm_bias, layer.attention_norm_bias));
    LUNA_RETURN_IF_ERROR(Matrix(QkvRows(w), c.hidden_size, layer.qkv));
    LUNA_RETURN_IF_ERROR(Vector(w.q_norm, layer.q_norm));
    LUNA_RETURN_IF_ERROR(Vector(w.k_norm, layer.k_norm));
    LUNA_RETURN_IF_ERROR(Matrix(StackedRows({{&w.attention_output, &w.attention_output_bias}}),
                                c.q_size(), layer.attention_output));
    LUNA_RETURN_IF_ERROR(Vector(w.attention_post_norm, layer.attention_post_norm));
    LUNA_RETURN_IF_ERROR(Vector(w.ffn_norm, layer.ffn_norm));
    LUNA_RETURN_IF_ERROR(Vector(w.ffn_norm_bias, layer.ffn_norm_bias));
    LUNA_RETURN_IF_ERROR(
        Matrix(c.gated_ffn ? GatedRows(w.gate, w.up) : StackedRows({{&w.up, &w.up_bias}}),
               c.hidden_size, layer.up));
    LUNA_RETURN_IF_ERROR(
        Matrix(StackedRows({{&w.down, &w.down_bias}}), c.intermediate_size, layer.down));
    LUNA_RETURN_IF_ERROR(Vector(w.ffn_post_norm, layer.ffn_post_norm));
    return Angles(index, layer);
  }

  // Heads that are normed are finished by a kernel of their own, which takes them in order.
  std::vector<RowRef> QkvRows(const model::LayerWeights& w) const {
    if (w.q_norm) return StackedRows({{&w.q, &w.q_bias}, {&w.k, &w.k_bias}, {&w.v, &w.v_bias}});
    const int head_dim = model_.config.head_dim;
    const bool rotated = !model_.config.learned_positions;
    std::vector<RowRef> rows = HeadRows(w.q, w.q_bias, head_dim, rotated);
    for (const RowRef& row : HeadRows(w.k, w.k_bias, head_dim, rotated)) rows.push_back(row);
    for (const RowRef& row : HeadRows(w.v, w.v_bias, head_dim, false)) rows.push_back(row);
    return rows;
  }

  // Cosines and sines of all positions; layers of one kind share them.
  absl::Status Angles(int index, DeviceLayer& layer) {
    const model::ModelConfig& c = model_.config;
    if (c.learned_positions) return absl::OkStatus();
    const std::vector<float> frequencies = RopeFrequencies(c, c.layers[index]);
    for (size_t i = 0; i < angles_.size(); ++i) {
      if (angles_[i] != frequencies) continue;
      layer.cosines = angle_layers_[i].first;
      layer.sines = angle_layers_[i].second;
      return absl::OkStatus();
    }
    RopeTable table(c, c.context_length);
    std::vector<int32_t> positions(c.context_length);
    std::iota(positions.begin(), positions.end(), 0);
    table.Fill(positions);
    const int64_t bytes =
        int64_t{c.context_length} * table.half() * static_cast<int64_t>(sizeof(float));
    LUNA_RETURN_IF_ERROR(Copy("angles", table.cosines(index, 0), bytes, layer.cosines));
    LUNA_RETURN_IF_ERROR(Copy("angles", table.sines(index, 0), bytes, layer.sines));
    angles_.push_back(frequencies);
    angle_layers_.emplace_back(layer.cosines, layer.sines);
    return absl::OkStatus();
  }

  absl::Status Vector(const Tensor& tensor, const float*& out) {
    if (!tensor) return absl::OkStatus();
    std::vector<float> values = model::Dequantize(tensor);
    values.resize(RoundUpToGroup(static_cast<int>(tensor.cols)), 0.0f);
    return Copy("vector", values.data(), static_cast<int64_t>(values.size() * sizeof(float)), out);
  }

  absl::Status Table(const Tensor& tensor, const void*& out) {
    const bool is_bf16 = format_ != WeightsFormat::kF32;
    const int64_t row_bytes = tensor.cols * (is_bf16 ? 2 : 4);
    LUNA_ASSIGN_OR_RETURN(std::byte* const to, Room("embedding", tensor.rows * row_bytes));
    out = to;
    std::vector<float> row(tensor.cols);
    for (int64_t begin = 0; begin < tensor.rows; begin += kTableRows) {
      const int64_t count = std::min(kTableRows, tensor.rows - begin);
      LUNA_ASSIGN_OR_RETURN(std::byte* const staged,
                            Stage(to + begin * row_bytes, count * row_bytes));
      for (int64_t r = 0; r < count; ++r) {
        model::DequantizeRow(tensor.dtype, tensor.row(begin + r), tensor.cols, row.data());
        if (is_bf16) {
          auto* values = reinterpret_cast<uint16_t*>(staged + r * row_bytes);
          std::transform(row.begin(), row.end(), values, ToBf16);
        } else {
          std::memcpy(staged + r * row_bytes, row.data(), static_cast<size_t>(row_bytes));
        }
      }
    }
    NoteDone(tensor);
    return absl::OkStatus();
  }

  absl::Status Matrix(const std::vector<RowRef>& rows, int64_t inputs, DeviceMatrix& out) {
    out.tiles = static_cast<int>(rows.size()) / kTileRows;
    out.inputs = static_cast<int>(inputs);
    out.groups = GroupsOf(out.inputs);
    const int64_t tile_bytes = out.groups * GroupBytes(format_);
    LUNA_ASSIGN_OR_RETURN(std::byte* const to, Room("weights", out.tiles * tile_bytes));
    out.weights = to;
    const bool scaled = format_ == WeightsFormat::kInt8;
    std::vector<float> scales(scaled ? size_t{rows.size()} * out.groups : 0);
    std::vector<float> values(kTileRows * inputs);
    for (int tile = 0; tile < out.tiles; ++tile) {
      std::fill(values.begin(), values.end(), 0.0f);
      for (int r = 0; r < kTileRows; ++r) {
        const RowRef& ref = rows[tile * kTileRows + r];
        if (ref.tensor == nullptr) continue;
        model::DequantizeRow(ref.tensor->dtype, ref.tensor->row(ref.row), inputs,
                             values.data() + r * inputs);
      }
      LUNA_ASSIGN_OR_RETURN(std::byte* const staged, Stage(to + tile * tile_bytes, tile_bytes));
      PackTile(format_, values.data(), out.inputs, staged,
               scaled ? scales.data() + int64_t{tile} * out.groups * kTileRows : nullptr);
    }
    if (scaled) {
      LUNA_RETURN_IF_ERROR(Copy("scales", scales.data(),
                                static_cast<int64_t>(scales.size() * sizeof(float)), out.scales));
    }
    LUNA_RETURN_IF_ERROR(Bias(rows, out));
    NoteDone(*rows.front().tensor);
    return absl::OkStatus();
  }

  absl::Status Bias(const std::vector<RowRef>& rows, DeviceMatrix& out) {
    std::vector<float> bias(rows.size(), 0.0f);
    bool any = false;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].bias == nullptr) continue;
      any = true;
      std::memcpy(&bias[i], rows[i].bias->data + rows[i].row * static_cast<int64_t>(sizeof(float)),
                  sizeof(float));
    }
    if (!any) return absl::OkStatus();
    return Copy("bias", bias.data(), static_cast<int64_t>(bias.size() * sizeof(float)), out.bias);
  }

  // What is staged goes to one allocation alone, though the next may lie right behind it.
  absl::StatusOr<std::byte*> Room(const char* purpose, int64_t bytes) {
    LUNA_RETURN_IF_ERROR(Flush());
    LUNA_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Allocate(device_, purpose, bytes));
    out_.memory_.push_back(std::move(memory));
    return out_.memory_.back().as();
  }

  absl::Status Copy(const char* purpose, const float* values, int64_t bytes, const float*& out) {
    LUNA_ASSIGN_OR_RETURN(std::byte* const to, Room(purpose, bytes));
    const auto* from = reinterpret_cast<const std::byte*>(values);
    for (int64_t done = 0; done < bytes; done += kStagingBytes) {
      const int64_t count = std::min(kStagingBytes, bytes - done);
      LUNA_ASSIGN_OR_RETURN(std::byte* const staged, Stage(to + done, count));
      std::memcpy(staged, from + done, static_cast<size_t>(count));
    }
    out = reinterpret_cast<const float*>(to);
    return absl::OkStatus();
  }

  // Where `bytes` bytes are to be written that go to `to`, before the next call.
  absl::StatusOr<std::byte*> Stage(std::byte* to, int64_t bytes) {
    if (bytes > staging_.bytes()) {  // a row of a very wide matrix
      LUNA_RETURN_IF_ERROR(Flush());
      LUNA_ASSIGN_OR_RETURN(staging_, StagingMemory::Allocate(device_, "weights staging", bytes));
    }
    const bool follows = to == pending_to_ + pending_bytes_;
    if (!follows || pending_bytes_ + bytes > staging_.bytes()) {
      LUNA_RETURN_IF_ERROR(Flush());
      pending_to_ = to;
    }
    std::byte* const staged = staging_.as() + pending_bytes_;
    pending_bytes_ += bytes;
    return staged;
  }

  absl::Status Flush() {
    if (pending_bytes_ == 0) return absl::OkStatus();
    LUNA_RETURN_IF_ERROR(device_.CopyIn(pending_to_, staging_.as(), pending_bytes_));
    pending_bytes_ = 0;
    LUNA_RETURN_IF_ERROR(device_.Record(*staged_));
    return device_.Wait(*staged_);
  }

  void NoteDone(const Tensor& tensor) {
    done_bytes_ += tensor.bytes();
    if (on_progress_ && model_.weights_bytes > 0) {
      on_progress_(std::min(
          1.0, static_cast<double>(done_bytes_) / static_cast<double>(model_.weights_bytes)));
    }
  }

  const model::Model& model_;
  const WeightsFormat format_;
  Device& device_;
  const std::function<void(double)>& on_progress_;
  const Tensor none_;
  DeviceWeights out_;
  StagingMemory staging_;
  std::unique_ptr<Device::Event> staged_;
  std::byte* pending_to_ = nullptr;
  int64_t pending_bytes_ = 0;
  int64_t done_bytes_ = 0;
  std::vector<std::vector<float>> angles_;
  std::vector<std::pair<const float*, const float*>> angle_layers_;
};

absl::StatusOr<DeviceWeights> DeviceWeights::Upload(
    const model::Model& model, WeightsFormat format, Device& device,
    const std::function<void(double)>& on_progress) {
  return Uploader(model, format, device, on_progress).Upload();
}

int64_t DeviceWeights::bytes() const {
  int64_t bytes = 0;
  for (const DeviceMemory& memory : memory_) bytes += memory.bytes();
  return bytes;
}

}  // namespace luna::backend::cuda

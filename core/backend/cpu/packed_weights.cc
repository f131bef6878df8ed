#include "core/backend/cpu/packed_weights.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "core/base/status_macros.h"

namespace luna::backend::cpu {

using model::Tensor;
namespace {

bool IsQ4(model::DType dtype) {
  return dtype == model::DType::kQ4_0 || dtype == model::DType::kQ4_1;
}

}  // namespace

bool HasQ4(const model::Model& model) {
  return std::any_of(
      model.weights.layers.begin(), model.weights.layers.end(), [](const model::LayerWeights& w) {
        const Tensor* matrices[] = {&w.q, &w.k, &w.v, &w.attention_output, &w.gate, &w.up, &w.down};
        return std::any_of(std::begin(matrices), std::end(matrices),
                           [](const Tensor* matrix) { return *matrix && IsQ4(matrix->dtype); });
      });
}

// Walks the model twice in one order: first only to count bytes, then to place them. Vectors are
// copied on the way; the panels of matrices are noted and filled by all threads at the end.
class Packer {
 public:
  // `memory` null: count only.
  Packer(const MatrixProducts& inner, const MatrixProducts& outer, std::byte* memory)
      : inner_(inner), outer_(outer), memory_(memory) {}

  void PackModel(const model::Model& model, PackedWeights& out) {
    out.layers_.clear();
    const model::Weights& w = model.weights;
    for (const model::LayerWeights& layer : w.layers) {
      out.layers_.push_back(PackLayer(layer, model.config.gated_ffn));
    }
    out.final_norm_ = Vector(w.final_norm);
    out.final_norm_bias_ = Vector(w.final_norm_bias);
    out.head_ = Stacked(outer_, {&w.head}, {});
    out.num_products_ = num_products_;
  }

  int64_t bytes() const { return bytes_; }

  void FillPanels(WorkerPool& pool, const std::function<void(double)>& on_progress) const {
    const int count = static_cast<int>(panels_.size());
    std::atomic<int> done = 0;
    auto body = [&](int thread) {
      std::vector<float> rows;
      pool.Share(thread, count, 16, [&](Range range) {
        for (int i = range.begin; i < range.end; ++i) FillPanel(panels_[i], rows);
        done += range.end - range.begin;
        if (thread == 0 && on_progress) on_progress(static_cast<double>(done) / count);
      });
    };
    pool.Run(body);
  }

 private:
  struct RowRef {
    const Tensor* tensor = nullptr;  // null: an output of zeros
    int64_t row = 0;
  };
  struct Panel {
    const Product* product = nullptr;
    std::byte* out = nullptr;
    int inputs = 0;
    std::array<RowRef, kPanel> rows;
  };

  // Aligned to 64 bytes.
  std::byte* Take(int64_t bytes) {
    std::byte* out = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return out;
  }
  float* TakeFloats(int64_t count) {
    return reinterpret_cast<float*>(Take(count * static_cast<int64_t>(sizeof(float))));
  }

  const float* Vector(const Tensor& tensor) {
    if (!tensor) return nullptr;
    float* out = TakeFloats(tensor.cols);
    if (out != nullptr) model::DequantizeRow(tensor.dtype, tensor.data, tensor.cols, out);
    return out;
  }

  // The biases of stacked outputs, zero where one has none; null if none has.
  const float* StackedBias(std::span<const Tensor* const> biases,
                           std::span<const Tensor* const> matrices, int64_t outputs) {
    const bool any =
        std::any_of(biases.begin(), biases.end(), [](const Tensor* b) { return bool(*b); });
    if (!any) return nullptr;
    float* out = TakeFloats(PadToPanel(outputs));
    if (out == nullptr) return nullptr;
    float* at = out;
    for (size_t i = 0; i < biases.size(); ++i) {
      const Tensor& bias = *biases[i];
      if (bias) model::DequantizeRow(bias.dtype, bias.data, bias.cols, at);
      at += matrices[i]->rows;
    }
    return out;
  }

  // One matrix whose outputs are those of `matrices`, one after the other.
  PackedMatrix Stacked(const MatrixProducts& products,
                       std::initializer_list<const Tensor*> matrices,
                       std::initializer_list<const Tensor*> biases) {
    std::vector<RowRef> rows;
    for (const Tensor* matrix : matrices) {
      for (int64_t r = 0; r < matrix->rows; ++r) rows.push_back({matrix, r});
    }
    PackedMatrix packed = Matrix(products, rows, (*matrices.begin())->cols);
    packed.bias = StackedBias({biases.begin(), biases.size()}, {matrices.begin(), matrices.size()},
                              static_cast<int64_t>(rows.size()));
    return packed;
  }

  // Panels of `gate` and `up` in turn; both padded to whole panels.
  PackedMatrix Interleaved(const MatrixProducts& products, const Tensor& gate, const Tensor& up) {
    std::vector<RowRef> rows;
    for (int64_t begin = 0; begin < up.rows; begin += kPanel) {
      for (const Tensor* matrix : {&gate, &up}) {
        for (int64_t r = begin; r < begin + kPanel; ++r) {
          rows.push_back(r < up.rows ? RowRef{matrix, r} : RowRef{});
        }
      }
    }
    return Matrix(products, rows, up.cols);
  }

  static bool AllInQ4(std::span<const RowRef> rows) {
    return std::all_of(rows.begin(), rows.end(), [](const RowRef& ref) {
      return ref.tensor == nullptr || IsQ4(ref.tensor->dtype);
    });
  }

  PackedMatrix Matrix(const MatrixProducts& products, std::span<const RowRef> rows,
                      int64_t inputs) {
    PackedMatrix packed;
    packed.inputs = static_cast<int>(inputs);
    packed.num_panels = static_cast<int>(PadToPanel(static_cast<int64_t>(rows.size())) / kPanel);
    num_products_ += packed.num_panels * inputs * kPanel;
    packed.product = products.q4 != nullptr && AllInQ4(rows) ? products.q4 : products.general;
    const int64_t panel_bytes = packed.product->panel_bytes(packed.inputs);
    std::byte* out = Take(packed.num_panels * panel_bytes);
    packed.panels = out;
    if (out == nullptr) return packed;
    for (int p = 0; p < packed.num_panels; ++p) {
      Panel panel{.product = packed.product,
                  .out = out + p * panel_bytes,
                  .inputs = packed.inputs,
                  .rows = {}};
      const size_t begin = static_cast<size_t>(p) * kPanel;
      const size_t count = std::min<size_t>(kPanel, rows.size() - begin);
      std::copy_n(rows.begin() + begin, count, panel.rows.begin());
      panels_.push_back(panel);
    }
    return packed;
  }

  PackedLayer PackLayer(const model::LayerWeights& w, bool gated) {
    PackedLayer layer;
    layer.attention_norm = Vector(w.attention_norm);
    layer.attention_norm_bias = Vector(w.attention_norm_bias);
    layer.qkv = Stacked(inner_, {&w.q, &w.k, &w.v}, {&w.q_bias, &w.k_bias, &w.v_bias});
    layer.q_norm = Vector(w.q_norm);
    layer.k_norm = Vector(w.k_norm);
    layer.attention_output = Stacked(inner_, {&w.attention_output}, {&w.attention_output_bias});
    layer.attention_post_norm = Vector(w.attention_post_norm);
    layer.ffn_norm = Vector(w.ffn_norm);
    layer.ffn_norm_bias = Vector(w.ffn_norm_bias);
    layer.up = gated ? Interleaved(inner_, w.gate, w.up) : Stacked(inner_, {&w.up}, {&w.up_bias});
    layer.down = Stacked(outer_, {&w.down}, {&w.down_bias});
    layer.ffn_post_norm = Vector(w.ffn_post_norm);
    return layer;
  }

  // `rows` is scratch.
  static void FillPanel(const Panel& panel, std::vector<float>& rows) {
    if (panel.product->pack_q4 != nullptr) return FillQ4Panel(panel);
    rows.assign(int64_t{kPanel} * panel.inputs, 0.0f);
    for (int o = 0; o < kPanel; ++o) {
      const RowRef& ref = panel.rows[o];
      if (ref.tensor == nullptr) continue;
      model::DequantizeRow(ref.tensor->dtype, ref.tensor->row(ref.row), panel.inputs,
                           rows.data() + int64_t{o} * panel.inputs);
    }
    panel.product->pack(rows.data(), panel.inputs, panel.out);
  }

  static void FillQ4Panel(const Panel& panel) {
    std::array<Q4Row, kPanel> rows;
    for (int o = 0; o < kPanel; ++o) {
      const RowRef& ref = panel.rows[o];
      if (ref.tensor == nullptr) continue;
      rows[o] = {.blocks = ref.tensor->row(ref.row),
                 .has_min = ref.tensor->dtype == model::DType::kQ4_1};
    }
    panel.product->pack_q4(rows, panel.inputs, panel.out);
  }

  const MatrixProducts inner_, outer_;
  std::byte* const memory_;
  int64_t bytes_ = 0;
  int64_t num_products_ = 0;
  std::vector<Panel> panels_;
};

absl::StatusOr<PackedWeights> PackedWeights::Pack(const model::Model& model,
                                                  const MatrixProducts& inner,
                                                  const MatrixProducts& outer, WorkerPool& pool,
                                                  const std::function<void(double)>& on_progress) {
  PackedWeights packed;
  Packer counter(inner, outer, nullptr);
  counter.PackModel(model, packed);
  LUNA_ASSIGN_OR_RETURN(packed.memory_, MappedMemory::Allocate("packed weights", counter.bytes()));
  Packer packer(inner, outer, packed.memory_.data());
  packer.PackModel(model, packed);
  packer.FillPanels(pool, on_progress);
  return packed;
}

}  // namespace luna::backend::cpu

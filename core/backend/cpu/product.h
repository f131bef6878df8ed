// Products of activations with packed weights: what each weights format needs of an instruction
// set.
#ifndef LUNA_CORE_BACKEND_CPU_PRODUCT_H_
#define LUNA_CORE_BACKEND_CPU_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace luna::backend::cpu {

// Outputs of one panel of a packed matrix.
inline constexpr int kPanel = 16;
constexpr int64_t PadToPanel(int64_t n) { return (n + kPanel - 1) / kPanel * kPanel; }

// out[r, o] = sum over i of a[r, i] * weight[o, i] + bias[o], for the outputs of some panels. The
// sum over i has one order, whatever the number of rows or panels.
struct MultiplyArgs {
  const std::byte* a = nullptr;  // [rows] prepared rows
  int64_t a_stride = 0;          // bytes
  int rows = 0;
  const std::byte* panels = nullptr;  // [panels], each of panel_bytes(inputs)
  int inputs = 0;
  int panel_begin = 0, panel_end = 0;
  const float* bias = nullptr;  // [panels * kPanel], or null
  float* out = nullptr;         // [rows, out_stride]
  int64_t out_stride = 0;       // floats; at least panels * kPanel
  bool add_to_out = false;      // out += instead of out =
};

// One output's weights as a file has them in Q4_0 or, where `has_min`, in Q4_1.
struct Q4Row {
  const std::byte* blocks = nullptr;  // null: all 0
  bool has_min = false;
};

struct Product {
  // Bytes of one panel, a multiple of 64.
  int64_t (*panel_bytes)(int inputs);
  // rows: [kPanel, inputs] f32, the weights of one panel's outputs. Null where pack_q4 is not.
  void (*pack)(const float* rows, int inputs, std::byte* panel);
  void (*pack_q4)(std::span<const Q4Row, kPanel> rows, int inputs, std::byte* panel);

  // How rows are prepared for it; null: f32 rows are read as they are, and the three below mean
  // nothing. Writes what inputs [begin, end) of `x` are in `row`; both are multiples of `group`, or
  // end is `inputs`.
  void (*prepare)(const float* x, int inputs, int begin, int end, std::byte* row);
  // Bytes of a prepared row, a multiple of 64.
  int64_t (*row_bytes)(int inputs);
  int group;

  void (*multiply)(const MultiplyArgs& args);
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_PRODUCT_H_

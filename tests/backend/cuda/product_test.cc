// Products, with the norms before and the epilogues behind them, against sums in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/packing.h"
#include "core/backend/reference/operators.h"
#include "core/backend/rounding.h"
#include "tests/backend/cuda/kernel_runner.h"

namespace luna::backend::cuda {
namespace {

std::vector<float> Random(size_t size, uint32_t seed, float mean = 0.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, 1.0f);
  std::vector<float> values(size);
  for (float& value : values) value = distribution(random);
  return values;
}

// What a format makes of a weight: [rows, inputs].
std::vector<float> Rounded(WeightsFormat format, std::vector<float> weights, int inputs) {
  for (size_t row = 0; row < weights.size(); row += inputs) {
    for (int begin = 0; begin < inputs; begin += kGroupInputs) {
      const auto count = static_cast<size_t>(std::min(kGroupInputs, inputs - begin));
      const std::span<float> group = std::span(weights).subspan(row + begin, count);
      const Int8Scale scale(group);
      for (float& weight : group) {
        if (format == WeightsFormat::kBf16) {
          weight = std::bit_cast<float>(uint32_t{ToBf16(weight)} << 16);
        } else if (format == WeightsFormat::kInt8) {
          weight = static_cast<float>(scale.Level(weight)) * scale.scale;
        }
      }
    }
  }
  return weights;
}

const ProductKernels& KernelsOf(WeightsFormat format) {
  const KernelSet& set = TestKernels();
  return format == WeightsFormat::kF32    ? set.f32_product
         : format == WeightsFormat::kBf16 ? set.bf16_product
                                          : set.int8_product;
}

struct Case {
  WeightsFormat format;
  int outputs, inputs;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << WeightsFormatName(c.format) << " " << c.outputs << "x" << c.inputs;
  }
};

class ProductTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kMostTokens = 70;

  ProductTest() : c_(GetParam()), groups_(GroupsOf(c_.inputs)), stride_(groups_ * kGroupInputs) {
    weights_ = Rounded(c_.format, Random(size_t(c_.outputs) * c_.inputs, 1), c_.inputs);
    x_ = Random(size_t{kMostTokens} * c_.inputs, 2, 0.3f);
    bias_ = Random(c_.outputs, 3);
  }

  // Puts weights (rows in the order of `rows`, -1 for none) and inputs on the device.
  ProductArgs Put(const std::vector<int>& rows, int tokens) {
    ProductArgs args = {};
    args.tiles = TilesOf(static_cast<int>(rows.size()));
    args.groups = groups_;
    const int64_t tile_bytes = groups_ * GroupBytes(c_.format);
    std::vector<std::byte> packed(args.tiles * tile_bytes);
    std::vector<float> scales(size_t(args.tiles) * groups_ * kTileRows);
    std::vector<float> bias(size_t(args.tiles) * kTileRows, 0.0f);
    for (int tile = 0; tile < args.tiles; ++tile) {
      std::vector<float> values(size_t{kTileRows} * c_.inputs, 0.0f);
      for (int r = 0; r < kTileRows; ++r) {
        const size_t at = size_t(tile) * kTileRows + r;
        if (at >= rows.size() || rows[at] < 0) continue;
        std::copy_n(weights_.begin() + rows[at] * c_.inputs, c_.inputs,
                    values.begin() + r * c_.inputs);
        bias[at] = bias_[rows[at]];
      }
      PackTile(c_.format, values.data(), c_.inputs, packed.data() + tile * tile_bytes,
               scales.data() + size_t(tile) * groups_ * kTileRows);
    }
    args.weights = runner_.Put(packed);
    args.scales = runner_.Put(scales);
    args.bias = runner_.Put(bias);
    std::vector<float> x(size_t(tokens) * stride_, 0.0f);
    for (int t = 0; t < tokens; ++t) {
      std::copy_n(x_.begin() + t * c_.inputs, c_.inputs, x.begin() + t * stride_);
    }
    args.x = runner_.Put(x);
    args.x_stride = stride_;
    StepHeader header = {};
    header.num_tokens = tokens;
    args.header = runner_.Put(std::vector<StepHeader>{header});
    return args;
  }

  void Run(const ProductArgs& args, int tokens) {
    const ProductKernels& kernels = KernelsOf(c_.format);
    for (size_t i = 0; i < kernels.narrow.size(); ++i) {
      if (tokens > ProductKernels::kNarrowTokens[i]) continue;
      return runner_.Run(kernels.narrow[i], {.x = args.tiles}, args);
    }
    RunWide(args, tokens);
  }
  void RunWide(const ProductArgs& args, int tokens) {
    const ProductKernels& kernels = KernelsOf(c_.format);
    runner_.Run(kernels.wide,
                {.x = (args.tiles + kernels.wide_tiles - 1) / kernels.wide_tiles,
                 .y = (tokens + kernels.wide_tokens - 1) / kernels.wide_tokens},
                args);
  }

  std::vector<int> InOrder() const {
    std::vector<int> rows(c_.outputs);
    for (int i = 0; i < c_.outputs; ++i) rows[i] = i;
    return rows;
  }
  double Expected(int token, int output) const {
    double sum = bias_[output];
    for (int i = 0; i < c_.inputs; ++i) {
      sum += double{weights_[size_t(output) * c_.inputs + i]} * x_[size_t(token) * c_.inputs + i];
    }
    return sum;
  }
  // Activations have 16 bits beside bf16 weights, sums of `inputs` terms about 1.
  double Tolerance() const {
    const double unit = c_.format == WeightsFormat::kF32 ? 3e-7 : 2e-5;
    return unit * std::sqrt(c_.inputs) * 4;
  }

  const Case c_;
  const int groups_, stride_;
  std::vector<float> weights_, x_, bias_;
  KernelRunner runner_;
};

TEST_P(ProductTest, EqualsASumInDoubleForEveryNumberOfTokens) {
  for (const int tokens : {1, 9, 30, 64, kMostTokens}) {
    ProductArgs args = Put(InOrder(), tokens);
    args.outputs = c_.outputs;
    args.out = runner_.Put(std::vector<float>(size_t(tokens) * c_.outputs, 77.0f));
    args.out_stride = c_.outputs;
    Run(args, tokens);
    const std::vector<float> out = runner_.Get(args.out, size_t(tokens) * c_.outputs);
    for (int t = 0; t < tokens; ++t) {
      for (int o = 0; o < c_.outputs; ++o) {
        ASSERT_NEAR(out[size_t(t) * c_.outputs + o], Expected(t, o), Tolerance())
            << tokens << " tokens, token " << t << ", output " << o;
      }
    }
  }
}

TEST_P(ProductTest, BitsDoNotDependOnTheNumberOfTokens) {
  std::vector<float> first;
  for (const int tokens : {kMostTokens, 1, 7, 16, 33, 64}) {
    ProductArgs args = Put(InOrder(), tokens);
    args.outputs = c_.outputs;
    args.out = runner_.Put(std::vector<float>(size_t(tokens) * c_.outputs, 77.0f));
    args.out_stride = c_.outputs;
    Run(args, tokens);
    const std::vector<float> out = runner_.Get(args.out, size_t(tokens) * c_.outputs);
    if (first.empty()) first = out;
    EXPECT_EQ(0, std::memcmp(out.data(), first.data(), out.size() * sizeof(float)))
        << tokens << " tokens";
  }
}

// A residual has as many outputs as inputs.
using ResidualTest = ProductTest;

// Residual, its moments, and the norm that reads them, one product after the other.
TEST_P(ResidualTest, MomentsOfWhatIsAddedServeTheNextNorm) {
  for (const Norm kind : {Norm::kLayerNorm, Norm::kRmsNorm}) {
    const std::vector<float> norm_weight = Random(c_.inputs, 5, 1.0f),
                             norm_bias = Random(c_.inputs, 6);
    std::vector<float> padded_weight = norm_weight, padded_bias = norm_bias;
    padded_weight.resize(stride_);
    padded_bias.resize(stride_);
    for (const int tokens : {5, kMostTokens}) {
      ProductArgs args = Put(InOrder(), tokens);
      const std::vector<float> before = Random(size_t(tokens) * stride_, 7);
      args.outputs = c_.outputs;
      args.add = 1;
      std::vector<float> hidden = before;
      for (int t = 0; t < tokens; ++t) {
        std::fill_n(hidden.begin() + t * stride_ + c_.outputs, stride_ - c_.outputs, 0.0f);
      }
      args.out = runner_.Put(hidden);
      args.out_stride = stride_;
      args.moments = runner_.Put(std::vector<Moments>(size_t(args.tiles) * kMostTokens));
      args.moments_stride = kMostTokens;
      Run(args, tokens);
      hidden = runner_.Get(args.out, hidden.size());

      ProductArgs next = args;
      next.add = 0;
      next.x = args.out;
      next.moments = nullptr;
      next.norm = {.kind = kind,
                   .weight = runner_.Put(padded_weight),
                   .bias = runner_.Put(padded_bias),
                   .moments = args.moments,
                   .moments_stride = kMostTokens,
                   .size = c_.inputs,
                   .epsilon = 1e-5f};
      next.out = runner_.Put(std::vector<float>(size_t(tokens) * c_.outputs));
      next.out_stride = c_.outputs;
      Run(next, tokens);
      const std::vector<float> out = runner_.Get(next.out, size_t(tokens) * c_.outputs);
      for (int t = 0; t < tokens; ++t) {
        const std::span row = std::span(hidden).subspan(size_t(t) * stride_, c_.inputs);
        std::vector<float> normed(c_.inputs);
        if (kind == Norm::kLayerNorm) {
          reference::LayerNorm(row, norm_weight, norm_bias, 1e-5f, normed);
        } else {
          reference::RmsNorm(row, norm_weight, norm_bias, 1e-5f, normed);
        }
        for (int o = 0; o < c_.outputs; ++o) {
          ASSERT_NEAR(row[o], before[size_t(t) * stride_ + o] + Expected(t, o), Tolerance());
          double sum = bias_[o];
          for (int i = 0; i < c_.inputs; ++i) {
            sum += double{weights_[size_t(o) * c_.inputs + i]} * normed[i];
          }
          ASSERT_NEAR(out[size_t(t) * c_.outputs + o], sum, 3 * Tolerance()) << "token " << t;
        }
      }
    }
  }
}

TEST_P(ProductTest, ActivatesGatedAndNot) {
  for (const bool gated : {false, true}) {
    const int outputs = gated ? c_.outputs / 2 : c_.outputs;
    std::vector<int> rows = InOrder();
    if (gated) {
      rows.clear();
      for (int begin = 0; begin < outputs; begin += kTileRows / 2) {
        for (const int of : {0, outputs}) {
          for (int r = begin; r < begin + kTileRows / 2; ++r) {
            rows.push_back(r < outputs ? of + r : -1);
          }
        }
      }
    }
    for (const auto& [kind, activation] :
         {std::pair{ActivationKind::kGeluTanh, model::Activation::kGeluTanh},
          {ActivationKind::kGeluErf, model::Activation::kGeluErf},
          {ActivationKind::kSilu, model::Activation::kSilu}}) {
      constexpr int kTokens = 11;
      ProductArgs args = Put(rows, kTokens);
      args.epilogue = Epilogue::kActivate;
      args.gated = gated;
      args.activation = kind;
      args.outputs = outputs;
      args.out = runner_.Put(std::vector<float>(size_t{kTokens} * outputs));
      args.out_stride = outputs;
      Run(args, kTokens);
      const std::vector<float> out = runner_.Get(args.out, size_t{kTokens} * outputs);
      for (int t = 0; t < kTokens; ++t) {
        for (int o = 0; o < outputs; ++o) {
          double expected = reference::Activate(activation, static_cast<float>(Expected(t, o)));
          double factor = 1.0;
          if (gated) factor = Expected(t, outputs + o);
          expected *= factor;
          ASSERT_NEAR(out[size_t(t) * outputs + o], expected,
                      Tolerance() * 2 * (1.0 + std::abs(factor) + std::abs(expected)));
        }
      }
    }
  }
}

// The head: of some tokens only, kLogitRows at a time.
TEST_P(ProductTest, TakesTheRowsOfSamples) {
  constexpr int kTokens = kMostTokens;
  ProductArgs args = Put(InOrder(), kTokens);
  struct Step {
    StepHeader header;
    int32_t rows[kTokens];
  };
  Step step = {};
  step.header.num_tokens = kTokens;
  step.header.num_samples = kLogitRows + 3;
  step.header.sample_rows = offsetof(Step, rows);
  for (int i = 0; i < step.header.num_samples; ++i) step.rows[i] = kTokens - 1 - i;
  args.header = &runner_.Put(std::vector<Step>{step})->header;
  args.for_samples = 1;
  args.outputs = c_.outputs;
  args.out_stride = c_.outputs;
  for (const int first : {0, kLogitRows}) {
    const int count = std::min(kLogitRows, step.header.num_samples - first);
    args.first_sample = first;
    args.out = runner_.Put(std::vector<float>(size_t{kLogitRows} * c_.outputs, 77.0f));
    Run(args, count);
    const std::vector<float> out = runner_.Get(args.out, size_t{kLogitRows} * c_.outputs);
    for (int i = 0; i < count; ++i) {
      for (int o = 0; o < c_.outputs; ++o) {
        ASSERT_NEAR(out[size_t(i) * c_.outputs + o], Expected(step.rows[first + i], o),
                    Tolerance());
      }
    }
    if (count < kLogitRows) {
      EXPECT_EQ(out[size_t(count) * c_.outputs], 77.0f);
    }
  }
}

std::vector<Case> CasesOf(const std::vector<std::pair<int, int>>& sizes) {
  std::vector<Case> cases;
  for (const WeightsFormat format :
       {WeightsFormat::kF32, WeightsFormat::kBf16, WeightsFormat::kInt8}) {
    for (const auto& [outputs, inputs] : sizes) cases.push_back({format, outputs, inputs});
  }
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  return std::string(WeightsFormatName(info.param.format)) + "_" +
         std::to_string(info.param.outputs) + "x" + std::to_string(info.param.inputs);
}

// Narrower than a tile; odd; more groups than parts.
INSTANTIATE_TEST_SUITE_P(All, ProductTest,
                         testing::ValuesIn(CasesOf({{6, 20}, {50, 36}, {36, 300}, {100, 512}})),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(All, ResidualTest,
                         testing::ValuesIn(CasesOf({{40, 40}, {64, 64}, {150, 150}})), NameOf);

}  // namespace
}  // namespace luna::backend::cuda

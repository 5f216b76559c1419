// Linear layers whose bfloat16 weights are stored as they are read: panels of 32 outputs, all inputs of a panel in a
// row, two inputs side by side where the processor multiplies pairs. A few rows are bound by reading the weights once,
// in order; many go through in blocks that stay in the core's cache.

#include <algorithm>
#include <vector>

#include "pool.hpp"
#include "simd.hpp"

namespace {

constexpr int64_t kPanel = 32;
constexpr int64_t kRowBlock = 192;      // rows that pass over a panel while it is in cache
constexpr int64_t kAlone = 1 << 14;     // numbers of a weight below which one thread is enough

#if defined(__AVX512BF16__)
using Weights = Pair;
#else
using Weights = Widened;
#endif

constexpr int kRows = kWidth == 16 ? 12 : 4;

// R rows of outputs of a panel.
template <int R>
void rows_by_panel(const Weights::Left* x, const Weights::Right* panel, const float* bias, Bf16* out, int64_t steps,
                   int64_t out_stride) {
  constexpr int kColumns = 2;
  for (int64_t c = 0; c < kPanel; c += kColumns * kWidth) {
    Vec acc[R][kColumns];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < kColumns; ++i) acc[r][i] = bias == nullptr ? Vec{} : load(bias + c + i * kWidth);
    multiply<Weights, R, kColumns>(acc, x, steps, panel + c, kPanel, steps);
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < kColumns; ++i) store(out + r * out_stride + c + i * kWidth, acc[r][i]);
  }
}

void block_by_panel(const Weights::Left* x, const Weights::Right* panel, const float* bias, Bf16* out, int64_t rows,
                    int64_t steps, int64_t out_stride) {
  int64_t r = 0;
  const auto take = [&](auto count) {
    constexpr int R = decltype(count)::value;
    for (; r + R <= rows; r += R)
      rows_by_panel<R>(x + r * steps, panel, bias, out + r * out_stride, steps, out_stride);
  };
  if (rows % kRows == 4 && kRows == 12 && rows > 4) rows_by_panel<8>(x, panel, bias, out, steps, out_stride), r = 8;
  take(std::integral_constant<int, kRows>());
  take(std::integral_constant<int, kRows == 12 ? 8 : 4>());
  take(std::integral_constant<int, 4>());
  take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 1>());
}

}  // namespace

// `weight` is (outputs, inputs); outputs are a multiple of 32, inputs of 32.
extern "C" void pack_weight(const Bf16* weight, Bf16* packed, int64_t outputs, int64_t inputs) {
  constexpr int64_t depth = Weights::kDepth;
  for (int64_t out = 0; out < outputs; ++out)
    for (int64_t in = 0; in < inputs; ++in) {
      const int64_t panel = out / kPanel * kPanel * inputs;
      packed[panel + in / depth * kPanel * depth + out % kPanel * depth + in % depth] = weight[out * inputs + in];
    }
}

// out = x Wᵀ + bias, of contiguous rows.
extern "C" void multiply_packed(const Bf16* x, const Bf16* packed, const float* bias, Bf16* out, int64_t rows,
                                int64_t outputs, int64_t inputs, int64_t threads) {
  const int64_t steps = inputs / Weights::kDepth, panels = outputs / kPanel;
#if defined(__AVX512BF16__)
  const Weights::Left* left = (const Weights::Left*)x;
#else
  std::vector<float> wide(rows * inputs);
  for (int64_t i = 0; i < rows * inputs; i += kWidth) store(wide.data() + i, load(x + i));
  const Weights::Left* left = wide.data();
#endif
  const auto* weights = (const Weights::Right*)packed;
  const int64_t helped = outputs * inputs > kAlone ? threads : 1;
  for (int64_t first = 0; first < rows; first += kRowBlock) {
    const int64_t count = std::min(kRowBlock, rows - first);
    pool().run(helped, panels, [&](int64_t panel) {
      block_by_panel(left + first * steps, weights + panel * kPanel * steps,
                     bias == nullptr ? nullptr : bias + panel * kPanel, out + first * outputs + panel * kPanel, count,
                     steps, outputs);
    });
  }
}

// Products of rows with a panel: 32 outputs of a weight, all inputs in a row, two inputs side by side where the
// processor multiplies pairs. A few rows are bound by reading the weights once, in order; many go through in blocks
// that stay in the core's cache.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "pool.hpp"
#include "simd.hpp"

namespace {

constexpr int64_t kPanel = 32;
constexpr int64_t kRowBlock = 192;   // rows that pass over a panel while it is in cache
constexpr int64_t kAlone = 1 << 14;  // numbers of a weight below which one thread is enough

#if defined(__AVX512BF16__)
using Weights = Pair;
#else
using Weights = Widened;
#endif

constexpr int kRows = kWidth == 16 ? 12 : 4;

// Activations as they are multiplied.
class LeftRows {
 public:
#if defined(__AVX512BF16__)
  LeftRows(const Bf16* x, int64_t) : first_((const Weights::Left*)x) {}
#else
  LeftRows(const Bf16* x, int64_t numbers) : wide_(numbers), first_(wide_.data()) {
    for (int64_t i = 0; i < numbers; i += kWidth) store(wide_.data() + i, load(x + i));
  }
#endif
  const Weights::Left* first() const { return first_; }

 private:
  std::vector<float> wide_;
  const Weights::Left* first_;
};

// Calls work(panel) for all panels; where there are few rows, for some that lie side by side at a time: such a panel is
// done in a microsecond, of which two cores that count single ones lose a third to the counter.
template <class Work>
void each_panel(int64_t threads, int64_t panels, int64_t rows, const Work& work) {
  const int64_t share = rows > 16 ? 1 : std::max<int64_t>(1, std::min<int64_t>(16, panels / (8 * threads)));
  pool().run(threads, (panels + share - 1) / share, [&](int64_t i) {
    for (int64_t panel = i * share; panel < std::min(panels, (i + 1) * share); ++panel) work(panel);
  });
}

// Where the number of an output and an input lies in a panel.
inline int64_t place_in_panel(int64_t out, int64_t in) {
  constexpr int64_t depth = Weights::kDepth;
  return in / depth * kPanel * depth + out % kPanel * depth + in % depth;
}

// Sums of rows, 32 of each. They begin with the bias of their outputs.
inline void begin_sums(float* sums, int64_t rows, const float* bias) {
  for (int64_t i = 0; i < rows * kPanel; i += kWidth)
    store(sums + i, bias == nullptr ? Vec{} : load(bias + i % kPanel));
}

inline void store_sums(const float* sums, int64_t rows, Bf16* out, int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < kPanel; i += kWidth) store(out + r * out_stride + i, load(sums + r * kPanel + i));
}

// sums += R rows of x, `x_stride` apart, times so many steps of a panel.
template <class M, int R>
void add_rows(const typename M::Left* x, int64_t x_stride, const typename M::Right* panel, float* sums, int64_t steps) {
  constexpr int kColumns = 2;
  for (int64_t c = 0; c < kPanel; c += kColumns * kWidth) {
    Vec acc[R][kColumns];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < kColumns; ++i) acc[r][i] = load(sums + r * kPanel + c + i * kWidth);
    multiply<M, R, kColumns>(acc, x, x_stride, panel + c, kPanel, steps);
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < kColumns; ++i) store(sums + r * kPanel + c + i * kWidth, acc[r][i]);
  }
}

// The same for any number of rows.
template <class M>
void add_products(const typename M::Left* x, int64_t x_stride, const typename M::Right* panel, float* sums,
                  int64_t rows, int64_t steps) {
  int64_t r = 0;
  const auto take = [&](auto count) {
    constexpr int R = decltype(count)::value;
    for (; r + R <= rows; r += R) add_rows<M, R>(x + r * x_stride, x_stride, panel, sums + r * kPanel, steps);
  };
  if (rows % kRows == 4 && kRows == 12 && rows > 4) add_rows<M, 8>(x, x_stride, panel, sums, steps), r = 8;
  take(std::integral_constant<int, kRows>());
  take(std::integral_constant<int, kRows == 12 ? 8 : 4>());
  take(std::integral_constant<int, 4>());
  take(std::integral_constant<int, 2>());
  take(std::integral_constant<int, 1>());
}

// At most kRowBlock rows of outputs of a whole panel.
template <class M>
void multiply_panel(const typename M::Left* x, const typename M::Right* panel, const float* bias, Bf16* out,
                    int64_t rows, int64_t steps, int64_t out_stride) {
  alignas(64) float sums[kRowBlock * kPanel];
  begin_sums(sums, rows, bias);
  add_products<M>(x, steps, panel, sums, rows, steps);
  store_sums(sums, rows, out, out_stride);
}

}  // namespace

// Linear layers whose bfloat16 weights are stored as they are read, in panels (panels.hpp).

#include "panels.hpp"

// `weight` is (outputs, inputs); outputs are a multiple of 32, inputs of 32.
extern "C" void pack_weight(const Bf16* weight, Bf16* packed, int64_t outputs, int64_t inputs) {
  for (int64_t out = 0; out < outputs; ++out)
    for (int64_t in = 0; in < inputs; ++in)
      packed[out / kPanel * kPanel * inputs + place_in_panel(out, in)] = weight[out * inputs + in];
}

// Rows of the weight that was packed.
extern "C" void read_packed_rows(const Bf16* packed, const int64_t* rows, Bf16* out, int64_t count, int64_t inputs) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t in = 0; in < inputs; ++in)
      out[i * inputs + in] = packed[rows[i] / kPanel * kPanel * inputs + place_in_panel(rows[i], in)];
}

namespace {

// One panel's outputs of rows that lie side by side.
void multiply_rows(const Weights::Left* x, const Weights::Right* panel, const float* bias, Bf16* out, int64_t rows,
                   int64_t steps, int64_t out_stride) {
#if !defined(__AVX512BF16__)
  if (rows > kRows) {  // widened once for all of them
    thread_local std::vector<float> wide;
    wide.resize(std::max<size_t>(wide.size(), kPanel * steps));
    for (int64_t i = 0; i < kPanel * steps; i += kWidth) store(wide.data() + i, load(panel + i));
    return multiply_panel<Single>(x, wide.data(), bias, out, rows, steps, out_stride);
  }
#endif
  multiply_panel<Weights>(x, panel, bias, out, rows, steps, out_stride);
}

}  // namespace

// out = x Wᵀ + bias, of contiguous rows.
extern "C" void multiply_packed(const Bf16* x, const Bf16* packed, const float* bias, Bf16* out, int64_t rows,
                                int64_t outputs, int64_t inputs, int64_t threads) {
  const int64_t steps = inputs / Weights::kDepth;
  const LeftRows left(x, rows * inputs);
  const auto* weights = (const Weights::Right*)packed;
  const int64_t helped = outputs * inputs > kAlone ? threads : 1;
  for (int64_t first = 0; first < rows; first += kRowBlock) {
    const int64_t count = std::min(kRowBlock, rows - first);
    each_panel(helped, outputs / kPanel, rows, [&](int64_t panel) {
      multiply_rows(left.first() + first * steps, weights + panel * kPanel * steps,
                    bias == nullptr ? nullptr : bias + panel * kPanel, out + first * outputs + panel * kPanel, count,
                    steps, outputs);
    });
  }
}

// Linear layers whose weights are unpacked as they are multiplied (unpack.hpp). They are rounded to bfloat16 as they are
// when a file is converted, and products are summed as linear.cpp sums them, so that results are equal to the bit to
// those of the converted weight.

#include "unpack.hpp"

namespace {

constexpr int64_t kAtOnce = 48;   // rows that take each block as soon as it is unpacked
constexpr int64_t kAhead = 2048;  // bytes that are asked for before they are needed

// Writes a block's weights as a panel has them.
struct Written {
  mutable Unpacked* to;

  inline __attribute__((always_inline)) void operator()(int column, Product::Lane lane) const {
    std::memcpy(to + column * kWidth * Product::kDepth, &lane, sizeof lane);
  }
  inline __attribute__((always_inline)) void step() const { to += kPanel * Product::kDepth; }
};

// Adds the products of R rows to their sums.
template <int R>
struct Added {
  mutable const Product::Left* x;
  int64_t x_stride;
  Vec (&sums)[R][kLanes];

  inline __attribute__((always_inline)) void operator()(int column, Product::Lane lane) const {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sums[r][column] = Product::add(sums[r][column], Product::spread(x[r * x_stride]), lane);
  }
  inline __attribute__((always_inline)) void step() const { ++x; }
};

struct Job {
  const Product::Left* x;
  const uint8_t* blocks;
  const Form& form;
  const float* bias;
  Bf16* out;
  int64_t rows, inputs, out_stride;

  int64_t panel_bytes() const { return inputs / kSide * form.block_bytes(); }
  int64_t steps() const { return inputs / Product::kDepth; }
  const float* bias_of(int64_t panel) const { return bias == nullptr ? nullptr : bias + panel * kPanel; }
};

inline void fetch(const uint8_t* block, int64_t bytes) {
  for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(block + kAhead + byte);
}

// R rows, whose sums stay in registers.
template <int kBits, int R>
void fewest_rows(const Job& job, int64_t panel) {
  const int64_t bytes = job.form.block_bytes();
  const uint8_t* block = job.blocks + panel * job.panel_bytes();
  const float* bias = job.bias_of(panel);
  Vec sums[R][kLanes];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < kLanes; ++i) sums[r][i] = bias == nullptr ? Vec{} : load(bias + i * kWidth);
  const Added<R> added{job.x, job.steps(), sums};
  for (int64_t i = 0; i < job.inputs / kSide; ++i, block += bytes) {
    fetch(block, bytes);
    each_weight<kBits>(block, job.form, added);
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < kLanes; ++i) store(job.out + r * job.out_stride + panel * kPanel + i * kWidth, sums[r][i]);
}

// Up to kAtOnce rows.
template <int kBits>
void few_rows(const Job& job, int64_t panel) {
  constexpr int64_t kSteps = kSide / Product::kDepth;
  const int64_t bytes = job.form.block_bytes();
  const uint8_t* block = job.blocks + panel * job.panel_bytes();
  alignas(64) Unpacked weights[kNumbers];
  alignas(64) float sums[kAtOnce * kPanel];
  begin_sums(sums, job.rows, job.bias_of(panel));
  for (int64_t i = 0; i < job.inputs / kSide; ++i, block += bytes) {
    fetch(block, bytes);
    each_weight<kBits>(block, job.form, Written{weights});
    add_products<Product>(job.x + i * kSteps, job.steps(), (const Product::Right*)weights, sums, job.rows, kSteps);
  }
  store_sums(sums, job.rows, job.out + panel * kPanel, job.out_stride);
}

template <int kBits>
void many_rows(const Job& job, int64_t panel) {
  thread_local std::vector<Unpacked> weights;
  weights.resize(std::max<size_t>(weights.size(), kPanel * job.inputs));
  const uint8_t* blocks = job.blocks + panel * job.panel_bytes();
  for (int64_t i = 0; i < job.inputs / kSide; ++i)
    each_weight<kBits>(blocks + i * job.form.block_bytes(), job.form, Written{weights.data() + i * kNumbers});
  for (int64_t row = 0; row < job.rows; row += kRowBlock)
    multiply_panel<Product>(job.x + row * job.steps(), (const Product::Right*)weights.data(), job.bias_of(panel),
                            job.out + row * job.out_stride + panel * kPanel, std::min(kRowBlock, job.rows - row),
                            job.steps(), job.out_stride);
}

template <int kBits>
auto method_for(int64_t rows) {
  switch (rows) {
    case 1: return fewest_rows<kBits, 1>;
    case 2: return fewest_rows<kBits, 2>;
    case 3: return fewest_rows<kBits, 3>;
    case 4: return fewest_rows<kBits, 4>;
  }
  return rows <= kAtOnce ? few_rows<kBits> : many_rows<kBits>;
}

}  // namespace

// `numbers` is (outputs, inputs), `scales` and `minimums` (outputs, inputs / group); both sizes are multiples of 32.
extern "C" void pack_blocks(const int8_t* numbers, const uint8_t* scales, const uint8_t* minimums, uint8_t* blocks,
                            const Form* form, int64_t outputs, int64_t inputs, int64_t threads) {
  const int64_t bytes = form->block_bytes(), per_row = inputs / kSide, size = form->scale_bytes();
  const int64_t groups = kSide / form->group, added = form->bits == 4 && !form->minimum ? 8 : 0;
  const auto copy_scales = [&](const uint8_t* from, uint8_t* to, int64_t out, int64_t column) {
    for (int64_t group = 0; group < groups; ++group)
      std::memcpy(to + (group * kPanel + out % kPanel) * size,
                  from + ((out * per_row + column) * groups + group) * size, size);
  };
  pool().run(threads, outputs / kPanel, [&](int64_t panel) {
    uint8_t* row = blocks + panel * per_row * bytes;
    std::memset(row, 0, per_row * bytes);
    for (int64_t out = panel * kPanel; out < (panel + 1) * kPanel; ++out)
      for (int64_t column = 0; column < per_row; ++column) {
        uint8_t* block = row + column * bytes;
        copy_scales(scales, block, out, column);
        if (form->minimum) copy_scales(minimums, block + form->scales() * size, out, column);
        for (int64_t in = 0; in < kSide; ++in) {
          const Place place(form->bits, place_in_panel(out, in));
          const int number = numbers[out * inputs + column * kSide + in] + added;
          block[form->numbers_at() + place.byte] |= uint8_t((form->bits == 4 ? number & 15 : number) << place.shift);
        }
      }
  });
}

// Rows of the weight in bfloat16.
extern "C" void read_block_rows(const uint8_t* blocks, const Form* form, const int64_t* rows, Bf16* out, int64_t count,
                                int64_t inputs, int64_t threads) {
  const int64_t bytes = form->block_bytes(), size = form->scale_bytes();
  const auto scale_at = [&](const uint8_t* at) {
    if (form->wide) {
      float scale;
      std::memcpy(&scale, at, sizeof scale);
      return scale;
    }
    uint16_t half;
    std::memcpy(&half, at, sizeof half);
    return _cvtsh_ss(half);
  };
  pool().run(threads, count, [&](int64_t i) {
    const uint8_t* block = blocks + rows[i] / kPanel * (inputs / kSide) * bytes;
    for (int64_t in = 0; in < inputs; ++in) {
      if (in > 0 && in % kSide == 0) block += bytes;
      const uint8_t* at = block + (in % kSide / form->group * kPanel + rows[i] % kPanel) * size;
      const Place place(form->bits, place_in_panel(rows[i], in % kSide));
      const uint8_t byte = block[form->numbers_at() + place.byte];
      const float scale = scale_at(at);
      const float number = form->bits == 8 ? float(int8_t(byte)) : float(byte >> place.shift & 15);
      const float zero = form->bits == 4 ? scale * -8.0f : 0.0f;
      from_float(scale * number + (form->minimum ? scale_at(at + form->scales() * size) : zero), out + i * inputs + in);
    }
  });
}

// out = x Wᵀ + bias: rows of x are contiguous, those of out `out_stride` apart.
extern "C" void multiply_blocks(const Bf16* x, const uint8_t* blocks, const Form* form, const float* bias, Bf16* out,
                                int64_t rows, int64_t outputs, int64_t inputs, int64_t out_stride, int64_t threads) {
  const LeftRows left(x, rows * inputs);
  const Job job{left.first(), blocks, *form, bias, out, rows, inputs, out_stride};
  const int64_t helped = outputs * inputs > kAlone ? threads : 1;
  const auto multiply = form->bits == 4 ? method_for<4>(rows) : method_for<8>(rows);
  each_panel(helped, outputs / kPanel, rows, [&](int64_t panel) { multiply(job, panel); });
}

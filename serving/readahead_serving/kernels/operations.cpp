// What a layer does to single tokens: norms, rotary embedding, gating. Each reads and writes its row once.

#include <algorithm>

#include "pool.hpp"
#include "simd.hpp"

namespace {

constexpr int64_t kShare = 1 << 14;  // numbers that a thread takes at a time

// Calls work(row) for each row of `numbers`.
template <class Work>
void each_row(int64_t threads, int64_t rows, int64_t numbers, const Work& work) {
  const int64_t taken = std::max<int64_t>(1, kShare / numbers);
  pool().run(threads, (rows + taken - 1) / taken, [&](int64_t share) {
    for (int64_t row = share * taken; row < std::min(rows, (share + 1) * taken); ++row) work(row);
  });
}

// hidden += delta, where there is one, then out = hidden / rms(hidden) * weight (Zhang and Sennrich 2019,
// arXiv:1910.07467).
template <class S>
void normalize_row(float* hidden, const S* delta, const float* weight, S* out, int64_t dim, float epsilon) {
  Vec squares{};
  for (int64_t i = 0; i < dim; i += kWidth) {
    Vec x = load(hidden + i);
    if (delta != nullptr) {
      x += load(delta + i);
      store(hidden + i, x);
    }
    squares += x * x;
  }
  const float factor = 1.0f / std::sqrt(sum(squares) / float(dim) + epsilon);
  for (int64_t i = 0; i < dim; i += kWidth) store(out + i, load(hidden + i) * factor * load(weight + i));
}

template <class S>
void normalize(float* hidden, const S* delta, const float* weight, S* out, int64_t rows, int64_t dim, float epsilon,
               int64_t threads) {
  each_row(threads, rows, dim, [&](int64_t row) {
    const int64_t at = row * dim;
    normalize_row(hidden + at, delta == nullptr ? nullptr : delta + at, weight, out + at, dim, epsilon);
  });
}

// out = silu(gate) * up (Shazeer 2020, arXiv:2002.05202), of rows that hold the gate's numbers, then the other's.
template <class S>
void gate(const S* x, S* out, int64_t rows, int64_t dim, int64_t threads) {
  each_row(threads, rows, dim, [&](int64_t row) {
    const S* from = x + 2 * row * dim;
    for (int64_t i = 0; i < dim; i += kWidth) {
      const Vec g = load(from + i), up = load(from + dim + i);
      // far below zero the sigmoid is as good as zero, and its exponential would overflow
      const Vec power = g * -1.44269504f;
      store(out + row * dim + i, g / (1.0f + exp2v<7>(power < 126.0f ? power : broadcast(126.0f))) * up);
    }
  });
}

// x = x * cos + swapped(x) * sin in place: `heads` heads of each row; the sign is in the sine.
template <class S>
void rotate(S* x, int64_t stride, const S* cos, const S* sin, int64_t rows, int64_t heads, int64_t dim,
            int64_t threads) {
  const int64_t half = dim / 2;
  each_row(threads, rows, heads * dim, [&](int64_t row) {
    const S *c = cos + row * dim, *s = sin + row * dim;
    for (int64_t head = 0; head < heads; ++head) {
      S *low = x + row * stride + head * dim, *high = low + half;
      for (int64_t i = 0; i < half; i += kWidth) {
        const Vec a = load(low + i), b = load(high + i);
        store(low + i, a * load(c + i) + b * load(s + i));
        store(high + i, b * load(c + half + i) + a * load(s + half + i));
      }
    }
  });
}

}  // namespace

#define FOR_BOTH(S, name)                                                                                           \
  extern "C" void normalize_##name(float* hidden, const S* delta, const float* weight, S* out, int64_t rows,        \
                                   int64_t dim, float epsilon, int64_t threads) {                                   \
    normalize<S>(hidden, delta, weight, out, rows, dim, epsilon, threads);                                          \
  }                                                                                                                 \
  extern "C" void gate_##name(const S* x, S* out, int64_t rows, int64_t dim, int64_t threads) {                     \
    gate<S>(x, out, rows, dim, threads);                                                                            \
  }                                                                                                                 \
  extern "C" void rotate_##name(S* x, int64_t stride, const S* cos, const S* sin, int64_t rows, int64_t heads,      \
                                int64_t dim, int64_t threads) {                                                     \
    rotate<S>(x, stride, cos, sin, rows, heads, dim, threads);                                                      \
  }

FOR_BOTH(Bf16, bf16)
FOR_BOTH(float, fp32)

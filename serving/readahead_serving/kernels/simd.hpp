// Vectors of float32 as wide as the processor's, and the two numbers that tensors are stored in.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
constexpr int kWidth = 16;
#else
constexpr int kWidth = 8;
#endif

typedef float Vec __attribute__((vector_size(4 * kWidth)));
typedef int32_t IntVec __attribute__((vector_size(4 * kWidth)));
typedef uint32_t BitVec __attribute__((vector_size(4 * kWidth)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kWidth)));

using Bf16 = uint16_t;

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline Vec load(const Bf16* p) {
  HalfVec h;
  std::memcpy(&h, p, sizeof h);
  return (Vec)(__builtin_convertvector(h, BitVec) << 16);
}

// by hand, because the compiler widens bytes one by one
inline Vec load(const int8_t* p) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)));
#else
  return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#endif
}

inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

inline void store(Bf16* p, Vec v) {
#if defined(__AVX512BF16__)
  const __m256bh h = _mm512_cvtneps_pbh((__m512)v);
  std::memcpy(p, &h, sizeof h);
#else
  // to the nearest, ties to even; what is not a number stays none
  const BitVec bits = (BitVec)v;
  const BitVec rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const HalfVec h = __builtin_convertvector((v == v) ? rounded : (bits >> 16) | 0x40u, HalfVec);
  std::memcpy(p, &h, sizeof h);
#endif
}

inline float to_float(float x) { return x; }

inline float to_float(Bf16 x) {
  const uint32_t bits = uint32_t(x) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

inline void from_float(float x, float* p) { *p = x; }

inline void from_float(float x, Bf16* p) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  *p = x == x ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : (bits >> 16) | 0x40u;
}

inline Vec broadcast(float x) { return Vec{} + x; }

inline Vec vmax(Vec a, Vec b) { return a > b ? a : b; }

inline float sum(Vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float total = 0;
  for (int i = 0; i < kWidth; ++i) total += v[i];
  return total;
#endif
}

// Whether any of them is over the bound.
inline bool exceeds(Vec v, float bound) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, _mm512_set1_ps(bound), _CMP_GT_OQ) != 0;
#else
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, _mm256_set1_ps(bound), _CMP_GT_OQ)) != 0;
#endif
}

inline float largest(Vec v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  float top = v[0];
  for (int i = 1; i < kWidth; ++i) top = top > v[i] ? top : v[i];
  return top;
#endif
}

// 2 to the power of x, which is at most 127, by Taylor's series about the nearest whole number; 0 for minus infinity.
// With `kTerms` of 4 its relative error is under 6e-5, far below what bfloat16 keeps; with 7 it is float32's own.
template <int kTerms>
inline Vec exp2v(Vec x) {
  constexpr float series[] = {1.0f,           6.9314718e-1f, 2.4022651e-1f, 5.5504109e-2f,
                              9.6181291e-3f, 1.3333558e-3f, 1.5403530e-4f, 1.5252734e-5f};
  const Vec low = broadcast(-200.0f);
  const Vec in = vmax(x, low);
#if defined(__AVX512F__)
  const Vec whole = (Vec)_mm512_roundscale_ps((__m512)in, 0);
#else
  const Vec whole = (Vec)_mm256_round_ps((__m256)in, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
  const Vec f = in - whole;
  Vec y = broadcast(series[kTerms]);
#pragma GCC unroll 8
  for (int i = kTerms - 1; i >= 0; --i) y = y * f + series[i];
#if defined(__AVX512F__)
  return (Vec)_mm512_scalef_ps((__m512)y, (__m512)whole);
#else
  const Vec normal = vmax(whole, broadcast(-126.0f));
  const Vec scaled = y * (Vec)((__builtin_convertvector(normal, IntVec) + 127) << 23);
  return whole < -126.0f ? Vec{} : scaled;
#endif
}

// How a left number, `Left`, meets a vector of right ones, read from an array of `Right`.

struct Single {  // float32 by float32
  using Left = float;
  using Right = float;
  using Lane = Vec;
  static constexpr int kDepth = 1;   // numbers in a left one
  static constexpr int kTerms = 7;   // of an exponential's series
  static Lane spread(Left a) { return broadcast(a); }
  static Lane read(const Right* b) { return load(b); }
  static Vec add(Vec acc, Lane a, Lane b) { return acc + a * b; }
};

struct Widened : Single {  // float32 by bfloat16, for processors that multiply no bfloat16
  using Right = Bf16;
  static Lane read(const Right* b) { return load(b); }
};

#if defined(__AVX512BF16__)
struct Pair {  // bfloat16 by bfloat16, two that follow each other at a time, summed in float32
  using Left = uint32_t;
  using Right = uint32_t;
  using Lane = __m512i;
  static constexpr int kDepth = 2;
  static constexpr int kTerms = 4;
  static Lane spread(Left a) { return _mm512_set1_epi32(int(a)); }
  static Lane read(const Right* b) { return _mm512_loadu_si512(b); }
  static Vec add(Vec acc, Lane a, Lane b) { return (Vec)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b); }
};
#endif

// acc[r][c] += sum over k of a[r][k] b[k][c]: R rows and C vectors of columns, all held in registers.
template <class M, int R, int C>
inline __attribute__((always_inline)) void multiply(Vec (&acc)[R][C], const typename M::Left* a, int64_t a_stride,
                                                    const typename M::Right* b, int64_t b_stride, int64_t steps) {
  for (int64_t k = 0; k < steps; ++k) {
    typename M::Lane row[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) row[c] = M::read(b + k * b_stride + c * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const auto left = M::spread(a[r * a_stride + k]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = M::add(acc[r][c], left, row[c]);
    }
  }
}

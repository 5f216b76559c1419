// Weights that stay small, and how they are unpacked: whole numbers of 4 or 8 bits, and for each output and group of
// inputs a scale and, where the form has one, a minimum, as GGUF files have them. The value of a weight is
// scale * number + minimum, rounded to bfloat16.
//
// A block is 32 outputs by 32 inputs: the scales of its outputs, group by group, the minimums likewise, then the
// numbers in the order in which a panel (panels.hpp) has them, eight vectors of four-bit ones in one.
#pragma once

#include "panels.hpp"

namespace {

constexpr int64_t kSide = 32;  // inputs of a block
constexpr int64_t kNumbers = kPanel * kSide;
constexpr int64_t kSpread = 4;   // vectors that a step's numbers take
constexpr int64_t kNibbles = 8;  // in 32 bits

struct Form {
  int64_t bits;
  int64_t group;    // inputs that share a scale: 16 or 32
  int64_t wide;     // whether scales and minimums are float32; float16 otherwise
  int64_t minimum;  // whether there is one; without, numbers of 4 bits are stored with 8 added

  int64_t scale_bytes() const { return wide ? 4 : 2; }
  int64_t scales() const { return kPanel * (kSide / group); }
  int64_t numbers_at() const { return scales() * scale_bytes() * (minimum ? 2 : 1); }
  int64_t block_bytes() const { return numbers_at() + kNumbers * bits / 8; }
};

// Where a number lies behind the scales: its byte, and how far its low bit is from the byte's.
struct Place {
  int64_t byte, shift;

  Place(int64_t bits, int64_t number) : byte(number), shift(0) {
    if (bits == 8) return;
    const int64_t vector = number / kWidth, row = vector / kSpread;
    const int64_t word = (row / kNibbles * kSpread + vector % kSpread) * kWidth + number % kWidth;
    byte = word * 4 + row % kNibbles / 2;
    shift = row % 2 * 4;
  }
};

// The vector that holds eight scales from `from` on, each as often as its output has lanes.
inline Vec spread_scales(const uint8_t* from, bool wide) {
  __m256 eight;
  if (wide)
    std::memcpy(&eight, from, sizeof eight);
  else
    eight = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
#if defined(__AVX512F__)
  const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  return (Vec)_mm512_permutexvar_ps(twice, _mm512_castps256_ps512(eight));
#else
  return (Vec)eight;
#endif
}

// The lowest four bits of each lane.
inline Vec low_nibbles(IntVec word) {
#if defined(__AVX512F__)
  const __m512 values = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return (Vec)_mm512_permutexvar_ps((__m512i)word, values);
#else
  return __builtin_convertvector(word & 15, Vec);
#endif
}

inline Vec load_bytes(const uint8_t* from) {
#if defined(__AVX512F__)
  return (Vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)from)));
#else
  return (Vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)from)));
#endif
}

// What weights are unpacked to, numbers that bfloat16 has, and how they are multiplied.
#if defined(__AVX512BF16__)
using Unpacked = Bf16;
using Product = Pair;
#else
using Unpacked = float;
using Product = Single;
#endif

// Calls take(column, lane) with the lanes of a step's 32 weights, which come as four vectors, rounded to bfloat16.
template <class Take>
inline __attribute__((always_inline)) void each_lane(const Vec (&value)[kSpread], const Take& take) {
#if defined(__AVX512BF16__)
  take(0, (__m512i)_mm512_cvtne2ps_pbh((__m512)value[1], (__m512)value[0]));
  take(1, (__m512i)_mm512_cvtne2ps_pbh((__m512)value[3], (__m512)value[2]));
#else
#pragma GCC unroll 4
  for (int i = 0; i < kSpread; ++i) {
    const BitVec bits = (BitVec)value[i];
    take(i, (Vec)((bits + ((bits >> 16) & 1u) + 0x7fffu) & 0xffff0000u));
  }
#endif
}
constexpr int kLanes = kPanel / kWidth;  // of a step

// Calls take(column, lane) with a block's weights, step by step.
template <int kBits, class Take>
inline __attribute__((always_inline)) void each_weight(const uint8_t* block, const Form& form, const Take& take) {
  const uint8_t *scales = block, *minimums = block + form.scales() * form.scale_bytes();
  const uint8_t* numbers = block + form.numbers_at();
  const int64_t rows = form.group / Weights::kDepth;  // of a group, of four vectors each
  constexpr int64_t kRowBytes = kSpread * kWidth * kBits / 8;
  for (int64_t first = 0; first < kSide; first += form.group) {
    Vec scale[kSpread], minimum[kSpread];
#pragma GCC unroll 4
    for (int i = 0; i < kSpread; ++i) {
      scale[i] = spread_scales(scales + 8 * i * form.scale_bytes(), form.wide);
      minimum[i] = form.minimum ? spread_scales(minimums + 8 * i * form.scale_bytes(), form.wide)
                                : scale[i] * (kBits == 4 ? -8.0f : 0.0f);
    }
    const auto put = [&](const Vec(&number)[kSpread]) __attribute__((always_inline)) {
      Vec value[kSpread];
#pragma GCC unroll 4
      for (int i = 0; i < kSpread; ++i) value[i] = number[i] * scale[i] + minimum[i];
      each_lane(value, take);
      take.step();
    };
    if constexpr (kBits == 8)
      for (int64_t row = 0; row < rows; ++row, numbers += kRowBytes)
        put({load_bytes(numbers), load_bytes(numbers + kWidth), load_bytes(numbers + 2 * kWidth),
             load_bytes(numbers + 3 * kWidth)});
    else
      for (int64_t row = 0; row < rows; row += kNibbles, numbers += kNibbles * kRowBytes) {
        BitVec word[kSpread];
        std::memcpy(word, numbers, sizeof word);
#pragma GCC unroll 8
        for (int nibble = 0; nibble < kNibbles; ++nibble) {
          put({low_nibbles((IntVec)word[0]), low_nibbles((IntVec)word[1]), low_nibbles((IntVec)word[2]),
               low_nibbles((IntVec)word[3])});
#pragma GCC unroll 4
          for (int i = 0; i < kSpread; ++i) word[i] >>= 4;
        }
      }
    scales += kPanel * form.scale_bytes();
    minimums += kPanel * form.scale_bytes();
  }
}

}  // namespace

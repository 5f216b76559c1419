// Tiles of keys and values, laid out as the products of attention.cpp read them.
#pragma once

#include <algorithm>

#include "simd.hpp"

constexpr int kTile = 64;     // keys attended at a time
constexpr int kMaxDim = 256;  // of a head

// Numbers of one row as items.
template <class S>
void copy_row(float* to, const S* from, int64_t dim) {
  for (int64_t i = 0; i < dim; i += kWidth) store(to + i, load(from + i));
}

// Keys as columns: items[step][key].
template <class S>
void lay_keys(float* to, const S* const* rows, int64_t count, int64_t dim) {
  for (int64_t key = 0; key < kTile; ++key)
    for (int64_t i = 0; i < dim; ++i) to[i * kTile + key] = key < count ? to_float(rows[key][i]) : 0.0f;
}

template <class S>
void lay_values(float* to, const S* const* rows, int64_t count, int64_t dim) {
  for (int64_t key = 0; key < kTile; ++key)
    for (int64_t i = 0; i < dim; i += kWidth) store(to + key * dim + i, key < count ? load(rows[key] + i) : Vec{});
}

// Bytes times their scales: one for each number, or one for all.
template <class S>
void turn_row(S* to, const int8_t* from, const float* scales, int64_t dim) {
  for (int64_t i = 0; i < dim; i += kWidth) store(to + i, load(from + i) * load(scales + i));
}

template <class S>
void turn_row(S* to, const int8_t* from, float scale, int64_t dim) {
  for (int64_t i = 0; i < dim; i += kWidth) store(to + i, load(from + i) * scale);
}

template <class S>
inline void fetch(const S* row, int64_t dim) {
  // by hand, because the compiler drops calls of functions that do nothing but prefetch
  for (int64_t i = 0; i < dim; i += 64 / int64_t(sizeof(S))) asm volatile("prefetcht1 %0" : : "m"(row[i]));
}

inline void put_weights(float* to, Vec p) { store(to, p); }

#if defined(__AVX512BF16__)
inline void copy_row(uint32_t* to, const Bf16* from, int64_t dim) { std::memcpy(to, from, dim * sizeof(Bf16)); }

// A 16 x 16 matrix of items turned over its diagonal.
inline void turn(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

inline void lay_keys(uint32_t* to, const Bf16* const* rows, int64_t count, int64_t dim) {
  for (int64_t key = 0; key < kTile; key += 16) {
    for (int64_t step = 0; step < dim / 2; step += 16) {
      const int64_t left = std::min<int64_t>(16, dim / 2 - step);
      const __mmask16 mask = __mmask16((1u << left) - 1);
      __m512i r[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i)
        r[i] = key + i < count ? _mm512_maskz_loadu_epi32(mask, rows[key + i] + 2 * step) : _mm512_setzero_si512();
      turn(r);
      for (int64_t i = 0; i < left; ++i) _mm512_store_si512(to + (step + i) * kTile + key, r[i]);
    }
  }
}

inline void lay_values(uint32_t* to, const Bf16* const* rows, int64_t count, int64_t dim) {
  for (int64_t key = 0; key < kTile; key += 2) {
    for (int64_t i = 0; i < dim; i += 16) {
      const auto read = [&](int64_t at) {
        return at < count ? _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)(rows[at] + i)))
                          : _mm512_setzero_si512();
      };
      _mm512_store_si512(to + key / 2 * dim + i, _mm512_or_si512(read(key), _mm512_slli_epi32(read(key + 1), 16)));
    }
  }
}

inline void put_weights(uint32_t* to, Vec p) { store((Bf16*)to, p); }
#endif

// Attention of one step, read in place: runs of keys wherever they lie, each read once for all queries that see it.
//
// A work item is one KV head's run of keys against a tile of queries. Scores, their running maximum and sum and the
// output stay in the core's own cache (FlashAttention-2, Dao 2023, arXiv:2307.08691); what an item gives is an
// attention state, and the states of each row are merged by log-sum-exp at the end.

#include <algorithm>

#include "pool.hpp"
#include "simd.hpp"
#include "tiles.hpp"

namespace {

constexpr int kQueries = 128;   // of an item, at most
constexpr int kRows = kWidth == 16 ? 6 : 4;     // queries whose products are held in registers
constexpr int kColumns = kWidth == 16 ? 4 : 2;  // vectors of keys, or of a head, likewise
constexpr int64_t kMergedRows = 16;  // at a time by one thread
constexpr float kLog2e = 1.44269504f;
constexpr float kHidden = -1e30f;  // score of a key that a query does not see
constexpr float kLeast = -1e20f;   // what a query's scores are measured by before it has seen any
// Weights are measured by a score that may be lower than the highest by so much, as a power of 2: to find and to take
// each new maximum would cost an eighth of the time.
constexpr float kSlack = 8;

struct Source {
  const void* keys;  // numbers as in the cache, or bytes
  const void* values;
  const float* key_scales;    // of bytes: (KV heads, tiles, dim), else null; a run of bytes is one piece
  const float* value_scales;  // of bytes: (KV heads, keys of the piece)
};

struct Group {  // a run of keys
  int64_t source;        // where it lies
  int64_t head_stride;   // numbers from a head to the next
  int64_t piece_tokens;  // keys in each of its pieces but the last
  int64_t pieces;        // its first piece
};

struct Item {
  int64_t group;
  int64_t head;
  int64_t first, count;  // of the readers
  int64_t begin, end;    // keys of the run
  int64_t part;          // added to a reader's first state
};

struct Reader {
  int64_t row;
  int64_t visible;  // keys of the run that it sees
  int64_t state;    // its first state for this run
};

}  // namespace

extern "C" {

struct AttentionArgs {
  const void* queries;  // (rows, heads, dim) with `query_stride` from a row to the next
  const void* new_keys;  // (rows, KV heads, dim)
  const void* new_values;
  void* out;             // (rows, heads, dim), contiguous
  const Source* sources;  // of this layer; the first is the cache
  const int64_t* written;  // of each row, where in the cache its first head's key goes
  const Group* groups;
  const int64_t* pieces;  // where in its source each piece's first head begins
  const Item* items;
  const Reader* readers;
  const int64_t* states;  // of each row, its first state; one more at the end
  float* outputs;         // (states, heads, dim)
  float* sums;            // (states, heads, 2): the maximum of the scores, and the sum of exponentials
  int64_t query_stride, key_stride, value_stride;
  int64_t rows, num_items, heads, kv_heads, dim, cache_head_stride, threads;
};
}

namespace {

template <class S, class M>
struct Scratch {
  alignas(64) typename M::Left queries[kQueries * kMaxDim / M::kDepth];
  alignas(64) typename M::Right keys[kTile * kMaxDim / M::kDepth];    // (dim / depth, keys)
  alignas(64) typename M::Right values[kTile * kMaxDim / M::kDepth];  // (keys / depth, dim)
  alignas(64) typename M::Left weights[kRows * kTile / M::kDepth];
  alignas(64) S turned[2][kTile * kMaxDim];  // keys and values that were bytes
  alignas(64) float scores[kRows * kTile];
  alignas(64) float output[kQueries * kMaxDim];
  alignas(64) Vec total[kQueries];
  float top[kQueries];
  int64_t visible[kQueries];
};

// acc = a b, or acc += a b: R rows times all columns of b.
template <class M, int R, int C>
void product_columns(float* acc, int64_t acc_stride, const typename M::Left* a, int64_t a_stride,
                     const typename M::Right* b, int64_t b_stride, int64_t steps, bool adds) {
  Vec sums[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sums[r][c] = adds ? load(acc + r * acc_stride + c * kWidth) : Vec{};
  multiply<M, R, C>(sums, a, a_stride, b, b_stride, steps);
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) store(acc + r * acc_stride + c * kWidth, sums[r][c]);
}

template <class M, int R>
void product(float* acc, const typename M::Left* a, int64_t a_stride, const typename M::Right* b, int64_t columns,
             int64_t steps, bool adds) {
  int64_t c = 0;
  for (; c + kColumns * kWidth <= columns; c += kColumns * kWidth)
    product_columns<M, R, kColumns>(acc + c, columns, a, a_stride, b + c, columns, steps, adds);
  for (; c < columns; c += kWidth) product_columns<M, R, 1>(acc + c, columns, a, a_stride, b + c, columns, steps, adds);
}

// What a query has summed up so far, measured by a higher score.
template <class S, class M>
__attribute__((noinline)) void raise(Scratch<S, M>& s, int64_t query, float top, int64_t dim) {
  const float kept = std::exp2(s.top[query] - top);
  s.top[query] = top;
  s.total[query] *= kept;
  for (int64_t i = 0; i < dim; i += kWidth) {
    float* at = s.output + query * dim + i;
    store(at, load(at) * kept);
  }
}

// One query's scores to weights; its maximum, sum and output so far are carried on.
template <class S, class M>
void weigh(Scratch<S, M>& s, int64_t query, int64_t row, int64_t first_key, float scale, int64_t dim) {
  float* scores = s.scores + row * kTile;
  const int64_t visible = s.visible[query] - first_key;
  for (int64_t key = std::max<int64_t>(0, visible); key < kTile; ++key) scores[key] = kHidden;
  Vec top = load(scores);
  for (int64_t key = kWidth; key < kTile; key += kWidth) top = vmax(top, load(scores + key));
  if (exceeds(top * scale, s.top[query] + kSlack)) raise(s, query, largest(top) * scale, dim);
  const float zero = s.top[query];
  Vec total = s.total[query];
  for (int64_t key = 0; key < kTile; key += kWidth) {
    const Vec p = exp2v<M::kTerms>(load(scores + key) * scale - zero);
    total += p;
    put_weights(s.weights + (row * kTile + key) / M::kDepth, p);
  }
  s.total[query] = total;
}

// R queries against the keys that are laid out.
template <class S, class M, int R>
void attend_rows(Scratch<S, M>& s, int64_t query, int64_t first_key, float scale, int64_t dim) {
  const int64_t steps = dim / M::kDepth;
  product<M, R>(s.scores, s.queries + query * steps, steps, s.keys, kTile, steps, false);
  for (int r = 0; r < R; ++r) weigh<S, M>(s, query + r, r, first_key, scale, dim);
  product<M, R>(s.output + query * dim, s.weights, kTile / M::kDepth, s.values, dim, kTile / M::kDepth, true);
}

// The keys of an item where they lie.
struct Run {
  const Source& source;
  const int64_t* pieces;
  int64_t head, head_stride, piece_tokens, dim;

  Run(const AttentionArgs& args, const Item& item)
      : source(args.sources[args.groups[item.group].source]),
        pieces(args.pieces + args.groups[item.group].pieces),
        head(item.head),
        head_stride(args.groups[item.group].head_stride),
        piece_tokens(args.groups[item.group].piece_tokens),
        dim(args.dim) {}

  bool is_bytes() const { return source.key_scales != nullptr; }

  // Calls visit(i, where the i-th key from `first` on lies) for `count` of them.
  template <class Visit>
  void each(int64_t first, int64_t count, const Visit& visit) const {
    const int64_t* piece = pieces + first / piece_tokens;
    int64_t inside = first % piece_tokens;
    for (int64_t i = 0; i < count; ++i) {
      visit(i, *piece + head * head_stride + inside * dim);
      if (++inside == piece_tokens) {
        inside = 0;
        ++piece;
      }
    }
  }
  const float* key_scales(int64_t key) const {
    const int64_t tiles = (piece_tokens + kTile - 1) / kTile;
    return source.key_scales + (head * tiles + key / kTile) * dim;
  }
  float value_scale(int64_t key) const { return source.value_scales[head * piece_tokens + key]; }

  template <class T>
  void fetch(int64_t first, int64_t count) const {
    each(first, count, [&](int64_t, int64_t at) {
      ::fetch((const T*)source.keys + at, dim);
      ::fetch((const T*)source.values + at, dim);
    });
  }
};

// Lays out a tile of keys and values from `first` on, which end before `end`.
template <class S, class M>
void lay_numbers(const Run& run, int64_t first, int64_t end, Scratch<S, M>& s) {
  const int64_t count = std::min<int64_t>(kTile, end - first);
  const S *keys[kTile], *values[kTile];
  run.each(first, count, [&](int64_t i, int64_t at) {
    keys[i] = (const S*)run.source.keys + at;
    values[i] = (const S*)run.source.values + at;
  });
  lay_keys(s.keys, keys, count, run.dim);
  lay_values(s.values, values, count, run.dim);
}

template <class S, class M>
void lay_bytes(const Run& run, int64_t first, int64_t end, Scratch<S, M>& s) {
  const int64_t count = std::min<int64_t>(kTile, end - first);
  const S *keys[kTile], *values[kTile];
  const float* scales = run.key_scales(first);
  run.each(first, count, [&](int64_t i, int64_t at) {
    S *key = s.turned[0] + i * run.dim, *value = s.turned[1] + i * run.dim;
    turn_row(key, (const int8_t*)run.source.keys + at, scales, run.dim);
    turn_row(value, (const int8_t*)run.source.values + at, run.value_scale(first + i), run.dim);
    keys[i] = key;
    values[i] = value;
  });
  lay_keys(s.keys, keys, count, run.dim);
  lay_values(s.values, values, count, run.dim);
}

template <class S, class M>
void attend(const AttentionArgs& args, const Item& item, Scratch<S, M>& s) {
  const int64_t dim = args.dim, group_heads = args.heads / args.kv_heads, steps = dim / M::kDepth;
  const int64_t queries = item.count * group_heads;
  const Reader* readers = args.readers + item.first;
  const Run run(args, item);
  const auto fetch_keys = [&](int64_t first, int64_t count) {
    if (run.is_bytes())
      run.template fetch<int8_t>(first, count);
    else
      run.template fetch<S>(first, count);
  };
  fetch_keys(item.begin, std::min<int64_t>(kTile, item.end - item.begin));
  int64_t end = 0;
  for (int64_t q = 0; q < queries; ++q) {
    const Reader& reader = readers[q / group_heads];
    const int64_t head = item.head * group_heads + q % group_heads;
    copy_row(s.queries + q * steps, (const S*)args.queries + reader.row * args.query_stride + head * dim, dim);
    s.visible[q] = std::min(reader.visible, item.end);
    end = std::max(end, s.visible[q]);
  }
  std::fill_n(s.top, queries, kLeast);
  std::fill_n(s.total, queries, Vec{});
  std::fill_n(s.output, queries * dim, 0.0f);
  const float scale = kLog2e / std::sqrt(float(dim));
  for (int64_t first = item.begin; first < end; first += kTile) {
    if (run.is_bytes())
      lay_bytes(run, first, end, s);
    else
      lay_numbers(run, first, end, s);
    // the next tile comes from memory while this one is multiplied, a part of it beside each block of rows: what is
    // asked for at once is waited for
    const int64_t ahead = std::clamp<int64_t>(end - first - kTile, 0, kTile);
    int64_t q = 0, fetched = 0;
    const auto fetch_beside = [&](int64_t rows) {
      const int64_t wanted = ahead * (q + rows) / queries - fetched;
      fetch_keys(first + kTile + fetched, wanted);
      fetched += wanted;
    };
    for (; q + kRows <= queries; q += kRows) {
      fetch_beside(kRows);
      attend_rows<S, M, kRows>(s, q, first, scale, dim);
    }
    for (; q + 3 <= queries; q += 3) {
      fetch_beside(3);
      attend_rows<S, M, 3>(s, q, first, scale, dim);
    }
    for (; q < queries; ++q) {
      fetch_beside(1);
      attend_rows<S, M, 1>(s, q, first, scale, dim);
    }
  }
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t head = item.head * group_heads + q % group_heads;
    const int64_t state = (readers[q / group_heads].state + item.part) * args.heads + head;
    std::memcpy(args.outputs + state * dim, s.output + q * dim, dim * sizeof(float));
    args.sums[2 * state] = s.top[q];
    args.sums[2 * state + 1] = sum(s.total[q]);
  }
}

template <class S>
void merge_row(const AttentionArgs& args, int64_t row) {
  const int64_t dim = args.dim, first = args.states[row], last = args.states[row + 1];
  for (int64_t head = 0; head < args.heads; ++head) {
    const auto sums = [&](int64_t state) { return args.sums + 2 * (state * args.heads + head); };
    float top = kLeast, total = 0;
    for (int64_t state = first; state < last; ++state) top = std::max(top, sums(state)[0]);
    alignas(64) float merged[kMaxDim] = {};
    for (int64_t state = first; state < last; ++state) {
      if (sums(state)[1] == 0.0f) continue;
      const float weight = std::exp2(sums(state)[0] - top);
      total += weight * sums(state)[1];
      const float* output = args.outputs + (state * args.heads + head) * dim;
      for (int64_t i = 0; i < dim; i += kWidth) store(merged + i, load(merged + i) + load(output + i) * weight);
    }
    S* out = (S*)args.out + (row * args.heads + head) * dim;
    for (int64_t i = 0; i < dim; i += kWidth) store(out + i, load(merged + i) * (1.0f / total));
  }
}

template <class S>
void write_row(const AttentionArgs& args, int64_t row) {
  for (int64_t head = 0; head < args.kv_heads; ++head) {
    const int64_t to = args.written[row] + head * args.cache_head_stride, bytes = args.dim * sizeof(S);
    std::memcpy((S*)args.sources[0].keys + to, (const S*)args.new_keys + row * args.key_stride + head * args.dim, bytes);
    std::memcpy((S*)args.sources[0].values + to, (const S*)args.new_values + row * args.value_stride + head * args.dim,
                bytes);
  }
}

template <class S, class M>
void run(const AttentionArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) write_row<S>(args, row);
  pool().run(args.threads, args.num_items, [&](int64_t i) {
    static thread_local Scratch<S, M> scratch;
    attend<S, M>(args, args.items[i], scratch);
  });
  const int64_t blocks = (args.rows + kMergedRows - 1) / kMergedRows;
  pool().run(args.threads, blocks, [&](int64_t block) {
    const int64_t first = block * kMergedRows, last = std::min(first + kMergedRows, args.rows);
    for (int64_t row = first; row < last; ++row) merge_row<S>(args, row);
  });
}

}  // namespace

extern "C" void attend_bf16(const AttentionArgs* args) {
#if defined(__AVX512BF16__)
  run<Bf16, Pair>(*args);
#else
  run<Bf16, Single>(*args);
#endif
}

extern "C" void attend_fp32(const AttentionArgs* args) { run<float, Single>(*args); }

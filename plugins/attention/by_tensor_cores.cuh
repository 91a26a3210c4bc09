// Attention on tensor cores, in floats split into two fp16 numbers each (split.cuh): sm_80 and newer.
//
// Mapping: a block has a head and 16 queries for each warp, and goes over the keys, 32 or 64 at a time. All its threads split the queries once, and
// keys and values each time, into shared memory. Then each warp computes its scores, their exponentials relative to the largest score so far,
// and adds these shares of the values to its sums, which become smaller where a larger score comes (online softmax). Scores never leave the
// registers: the sums of the first product lie in the lanes as the left operand of the second has to.
// Bytes: q, y and the mask once; k and v once for each block of queries, from L2.
//
// A number beyond fp16 becomes an infinity and a NaN, so all of its sums are NaN. Such rows, and those whose results are so small that lo may
// not be exact, are computed again, plainly.
#pragma once

#include "attention/layer.cuh"
#include "copies.cuh"
#include "dense/instructions.cuh"
#include "split_floats/split.cuh"

constexpr int kKeys = kDepth < 112 ? 64 : 32;         // at a time
constexpr int kPitch = kDepth + 8;                    // of a row in shared memory: rows that ldmatrix reads at once have different banks
constexpr int kPart = kKeys * kPitch;                 // fp16 numbers: hi or lo, of keys or values
constexpr int kSteps = kDepth / 16;                   // products of a score
constexpr int kStepsAtOnce = 4;                       // whose sums the tensor cores add up, before they are added as floats
constexpr int kColumns = kDepth % 32 == 0 ? 32 : 16;  // of the values at once
static_assert(kDepth % 16 == 0);

template <int kThreads>
struct Tile {
  static constexpr int kRows = kThreads / 32 * 16, kQueries = kRows * kPitch;  // fp16 numbers, hi or lo
  static constexpr int kSharedBytes = 2 * (2 * kPart + kQueries) * 2;
  // How many have the registers of a multiprocessor. With four small ones of 64 elements a head, the compiler spills.
  static constexpr int kBlocks = kThreads == 256 ? (kDepth <= 64 ? 2 : 1) : kDepth <= 32 ? 4 : kDepth <= 64 ? 3 : 2;
};

// The operand of 16 rows and 16 columns that a lane holds.
struct Operand {
  unsigned hi[4], lo[4];
};

// Adds the three products that stand for one of floats, for kCount independent sums that take turns.
template <int kCount>
__device__ __forceinline__ void multiply(float (&sums)[kCount][4], float (&low_sums)[kCount][4], const Operand& a,
                                         const unsigned (&b_hi)[kCount][2], const unsigned (&b_lo)[kCount][2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) dense::multiply<__half>(sums[i], a.hi, b_hi[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) dense::multiply<__half>(low_sums[i], a.hi, b_lo[i]);
#pragma unroll
  for (int i = 0; i < kCount; ++i) dense::multiply<__half>(low_sums[i], a.lo, b_hi[i]);
}

// Right operands of kCount products from hi and from lo: two of them from 16 rows and 16 columns at each `address`, kNext bytes further each.
template <int kCount, bool kTransposed, int kNext>
__device__ __forceinline__ void load_operands(unsigned (&b)[kCount][2], unsigned address) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    unsigned m[4];
    load_matrices<kTransposed>(m, address + i / 2 * kNext);
    b[i][0] = m[0], b[i][1] = m[1], b[i + 1][0] = m[2], b[i + 1][1] = m[3];
  }
}

// Rows of q, k or v times `factor`, split into shared memory, 4 columns a thread; zeros beyond the last one.
template <int kThreads, int kRows>
__device__ __forceinline__ void split_rows(__half* to, const T* from, size_t pitch, int rows, float factor) {
  constexpr int kPieces = kDepth / 4;
#pragma unroll
  for (int first = 0; first < kRows * kPieces; first += kThreads) {
    const int unit = first + static_cast<int>(threadIdx.x), row = unit / kPieces, column = unit % kPieces * 4;
    if (kRows * kPieces % kThreads != 0 && row >= kRows) continue;
    Vector<T, 4> x{};
    if (row < rows) x = load_vector<4>(from + row * pitch + column);
    uint2 hi, lo;
    split(x.value[0] * factor, x.value[1] * factor, hi.x, lo.x);
    split(x.value[2] * factor, x.value[3] * factor, hi.y, lo.y);
    *reinterpret_cast<uint2*>(to + row * kPitch + column) = hi;
    *reinterpret_cast<uint2*>(to + kRows * kPitch + row * kPitch + column) = lo;
  }
}

// A warp's 16 rows.
struct WarpRows {
  float sums[kDepth / 8][4] = {};
  float most[2] = {softmax::nothing(), softmax::nothing()};  // of the scores of rows g and g + 8
  float total[2] = {};                                   // of this lane's exponentials
};

// What is added to the scores of each row of a warp; minus infinity where there is no key.
template <typename MaskRow>
__device__ __forceinline__ void begin_scores(float (&scores)[kKeys / 8][4], const MaskRow (&mask)[2], int first_key, int keys) {
#pragma unroll
  for (int i = 0; i < kKeys / 2; ++i) {
    const int key = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    scores[i / 4][i % 4] = key < keys ? mask[i / 2 % 2].added(first_key + key) : softmax::nothing();
  }
}

// Adds the products of queries and keys.
__device__ __forceinline__ void add_scores(float (&scores)[kKeys / 8][4], unsigned of_queries, int queries_bytes, unsigned of_keys, int keys) {
#pragma unroll
  for (int half = 0; half < kKeys / 8; half += 4) {
    if (half * 8 >= keys) continue;
#pragma unroll
    for (int first = 0; first < kSteps; first += kStepsAtOnce) {
      float part[4][4] = {}, low[4][4] = {};
#pragma unroll
      for (int step = first; step < smaller(first + kStepsAtOnce, kSteps); ++step) {
        Operand q;
        load_matrices(q.hi, of_queries + step * 32);
        load_matrices(q.lo, of_queries + step * 32 + queries_bytes);
        unsigned hi[4][2], lo[4][2];
        const unsigned address = of_keys + (half * 8 * kPitch + step * 16) * 2;
        load_operands<4, false, 16 * kPitch * 2>(hi, address);
        load_operands<4, false, 16 * kPitch * 2>(lo, address + kPart * 2);
        multiply<4>(part, low, q, hi, lo);
      }
#pragma unroll
      for (int i = 0; i < 16; ++i) scores[half + i / 4][i % 4] += fmaf(low[i / 4][i % 4], 1.0f / kLow, part[i / 4][i % 4]);
    }
  }
}

// Scores become exponentials; sums of rows whose largest score grew become smaller.
__device__ __forceinline__ void exponentials_of(float (&scores)[kKeys / 8][4], WarpRows& rows) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = rows.most[r];
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) most = fmaxf(most, fmaxf(scores[i][2 * r], scores[i][2 * r + 1]));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = fmaxf(most, __shfl_xor_sync(kAllLanes, most, 2));
    const float base = softmax::reference_of(most), kept = exp_below(rows.most[r] - base);
    rows.most[r] = most;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        scores[i][e] = exp_below(scores[i][e] - base);
        total += scores[i][e];
      }
    }
    rows.total[r] = fmaf(rows.total[r], kept, total);
#pragma unroll
    for (int i = 0; i < kDepth / 8; ++i) rows.sums[i][2 * r] *= kept, rows.sums[i][2 * r + 1] *= kept;
  }
}

// Adds the values, each times its exponential.
__device__ __forceinline__ void add_values(WarpRows& rows, const Operand (&shares)[kKeys / 16], unsigned of_values, int keys) {
  constexpr int kBlocks = kColumns / 8;
#pragma unroll
  for (int first = 0; first < kDepth / 8; first += kBlocks) {
    float part[kBlocks][4] = {}, low[kBlocks][4] = {};
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      if (step * 16 >= keys) continue;
      unsigned hi[kBlocks][2], lo[kBlocks][2];
      const unsigned address = of_values + (step * 16 * kPitch + first * 8) * 2;
      load_operands<kBlocks, true, 16 * 2>(hi, address);
      load_operands<kBlocks, true, 16 * 2>(lo, address + kPart * 2);
      multiply<kBlocks>(part, low, shares[step], hi, lo);
    }
#pragma unroll
    for (int i = 0; i < kBlocks * 4; ++i) rows.sums[first + i / 4][i % 4] += fmaf(low[i / 4][i % 4], 1.0f / kLow, part[i / 4][i % 4]);
  }
}

template <int kThreads, typename AnyMask>
__device__ __forceinline__ void attention_by_tensor_cores(__half* shared, const Arguments<AnyMask>& layer) {
  using Block = Tile<kThreads>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int tiles = ceil_div(layer.m, Block::kRows), first_row = static_cast<int>(blockIdx.x) % tiles * Block::kRows;
  const int image = static_cast<int>(blockIdx.x) / tiles / layer.heads, head = static_cast<int>(blockIdx.x) / tiles % layer.heads;
  const int row = first_row + warp * 16 + g;  // the lane has it and the one 8 further
  const typename AnyMask::Row mask[2] = {layer.mask.row(image, head, smaller(row, layer.m - 1)),
                                      layer.mask.row(image, head, smaller(row + 8, layer.m - 1))};
  const size_t pitch = static_cast<size_t>(layer.heads) * kDepth;
  __half *const keys = shared, *const values = keys + 2 * kPart, *const queries = values + 2 * kPart;
  split_rows<kThreads, Block::kRows>(queries, layer.q + layer.place(image, head, first_row, layer.m), pitch, layer.m - first_row, kScale);

  // Where this lane's row of a matrix lies that ldmatrix loads: of keys, two products of 8 keys; of values, of 8 columns.
  const unsigned of_keys = shared_address(keys) + ((lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8) * 2;
  const unsigned of_values = shared_address(values) + (lane % 16 * kPitch + lane / 16 * 8) * 2;
  const unsigned of_queries = shared_address(queries) + ((warp * 16 + lane % 16) * kPitch + lane / 16 * 8) * 2;
  WarpRows rows;
#pragma unroll 1
  for (int first_key = 0; first_key < layer.t; first_key += kKeys) {
    const size_t from = layer.place(image, head, first_key, layer.t);
    const int left = layer.t - first_key;  // perhaps more than kKeys
    float scores[kKeys / 8][4];
    begin_scores(scores, mask, first_key, left);
    if (first_key != 0) __syncthreads();  // all have left the keys before
    split_rows<kThreads, kKeys>(keys, layer.k + from, pitch, left, 1.0f);
    split_rows<kThreads, kKeys>(values, layer.v + from, pitch, left, 1.0f);
    __syncthreads();
    add_scores(scores, of_queries, Block::kQueries * 2, of_keys, left);
    exponentials_of(scores, rows);
    Operand shares[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const float* pair = &scores[i / 4 * 2 + i / 2 % 2][i % 2 * 2];
      split(pair[0], pair[1], shares[i / 4].hi[i % 4], shares[i / 4].lo[i % 4]);
    }
    add_values(rows, shares, of_values, left);
  }

  unsigned again = 0;  // a bit for each row of the warp
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = rows.total[r], most = 0.0f;
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    const float share = 1.0f / total;
#pragma unroll
    for (int i = 0; i < kDepth / 8; ++i) {
      const Vector<T, 2> pair{{rows.sums[i][2 * r] * share, rows.sums[i][2 * r + 1] * share}};
      most = max_nan(most, max_nan(fabsf(pair.value[0]), fabsf(pair.value[1])));
      if (row + 8 * r < layer.m) store_vector(layer.y + layer.place(image, head, row + 8 * r, layer.m) + 2 * t + 8 * i, pair);
    }
    most = max_nan(most, __shfl_xor_sync(kAllLanes, most, 1));
    most = max_nan(most, __shfl_xor_sync(kAllLanes, most, 2));
    again |= static_cast<unsigned>(!(most >= kLeastX) && row + 8 * r < layer.m) << (g + 8 * r);
  }
  again = __reduce_or_sync(kAllLanes, again);
  __syncwarp();  // before others write rows that a lane has written
#pragma unroll 1
  for (; again != 0; again &= again - 1) plain_row(layer, image, head, first_row + warp * 16 + __ffs(static_cast<int>(again)) - 1);
}

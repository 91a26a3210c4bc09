// Attention on tensor cores, in floats split into two fp16 numbers each (split.cuh): sm_80 and newer.
//
// Mapping: a block has a head and 16 queries for each warp; a warp keeps its queries and its sums in registers. The block goes over the keys, 64
// at a time: all its threads split them, and the values, into shared memory; then each warp computes its scores, their exponentials relative to
// the largest score so far, and adds these shares of the values to its sums, which become smaller where a larger score comes (online softmax).
// Scores never leave the registers: the sums of the first product lie in the lanes as the left operand of the second has to.
// Bytes: q and y once; k and v once for each block of queries, from L2.
//
// Where an element is no fp16 number, or all values are so small that lo is not exact, the block computes its rows again, plainly.
#pragma once

#include "attention/layer.cuh"
#include "copies.cuh"
#include "dense/instructions.cuh"
#include "split_floats/split.cuh"

constexpr int kKeys = 64;                // at a time
constexpr int kPitch = kDepth + 8;       // of a row in shared memory: rows that ldmatrix reads at once have different banks
constexpr int kPart = kKeys * kPitch;    // fp16 numbers: hi or lo, of keys or values
constexpr int kSharedBytes = 4 * kPart * 2;
constexpr int kSteps = kDepth / 16;      // products of a score
constexpr int kStepsAtOnce = 4;          // whose sums the tensor cores add up, before they are added as floats
constexpr int kColumns = kDepth % 32 == 0 ? 32 : 16;  // of the values at once
static_assert(kDepth % 16 == 0);

// The operand of 16 rows and 16 columns that a lane holds.
struct Operand {
  unsigned hi[4], lo[4];
  __device__ __forceinline__ void set(int i, float a, float b) { split(a, b, hi[i], lo[i]); }
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

// What a thread saw of the operands: sums are exact if none is too large, and the values are not all too small.
struct Extremes {
  float most = 0.0f, most_value = 0.0f;  // NaN where one was
  __device__ __forceinline__ void see(float x) { most = max_nan(most, fabsf(x)); }
  __device__ __forceinline__ void see_value(float x) { most_value = max_nan(most_value, fabsf(x)); }
};

// A row of k or v for each `kDepth / 4` threads, 4 columns a thread, split into shared memory; zeros beyond the last row.
template <int kThreads, typename See>
__device__ __forceinline__ void split_rows(__half* to, const T* from, size_t pitch, int rows, See see) {
  constexpr int kPieces = kDepth / 4;
#pragma unroll
  for (int first = 0; first < kKeys * kPieces; first += kThreads) {
    const int unit = first + static_cast<int>(threadIdx.x), row = unit / kPieces, column = unit % kPieces * 4;
    if (kKeys * kPieces % kThreads != 0 && row >= kKeys) continue;
    Vector<T, 4> x{};
    if (row < rows) x = load_vector<4>(from + row * pitch + column);
    uint2 hi, lo;
    split(x.value[0], x.value[1], hi.x, lo.x);
    split(x.value[2], x.value[3], hi.y, lo.y);
#pragma unroll
    for (float each : x.value) see(each);
    *reinterpret_cast<uint2*>(to + row * kPitch + column) = hi;
    *reinterpret_cast<uint2*>(to + kPart + row * kPitch + column) = lo;
  }
}

// A warp's 16 rows.
struct WarpRows {
  float sums[kDepth / 8][4] = {};
  float most[2] = {minus_infinity(), minus_infinity()};  // of the scores of rows g and g + 8
  float total[2] = {};                                   // of this lane's exponentials
};

// 64 scores of each row of a warp; `keys` of them are there.
template <typename MaskRow>
__device__ __forceinline__ void scores_of(float (&scores)[kKeys / 8][4], const Operand (&q)[kSteps], unsigned of_keys, int keys,
                                          const MaskRow (&mask)[2], int first_key) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int half = 0; half < kKeys / 8; half += 4) {
    float all[4][4] = {};
    if (half * 8 < keys) {
#pragma unroll
      for (int first = 0; first < kSteps; first += kStepsAtOnce) {
        float part[4][4] = {}, low[4][4] = {};
#pragma unroll
        for (int step = first; step < smaller(first + kStepsAtOnce, kSteps); ++step) {
          unsigned hi[4][2], lo[4][2];
          const unsigned address = of_keys + (half * 8 * kPitch + step * 16) * 2;
          load_operands<4, false, 16 * kPitch * 2>(hi, address);
          load_operands<4, false, 16 * kPitch * 2>(lo, address + kPart * 2);
          multiply<4>(part, low, q[step], hi, lo);
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) all[i / 4][i % 4] += fmaf(low[i / 4][i % 4], 1.0f / kLow, part[i / 4][i % 4]);
      }
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int key = (half + i / 4) * 8 + 2 * t + i % 2;
      scores[half + i / 4][i % 4] = key < keys ? mask[i / 2 % 2].added(all[i / 4][i % 4], first_key + key) : minus_infinity();
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
    const float base = most == minus_infinity() ? 0.0f : most, kept = __expf(rows.most[r] - base);
    rows.most[r] = most;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kKeys / 8; ++i) {
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; ++e) {
        scores[i][e] = __expf(scores[i][e] - base);
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

template <int kThreads, typename Mask>
__device__ __forceinline__ void attention_by_tensor_cores(__half* shared, const Arguments<Mask>& layer) {
  constexpr int kRows = kThreads / 32 * 16;
  __shared__ int most_of_all[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int tiles = ceil_div(layer.m, kRows), first_row = static_cast<int>(blockIdx.x) % tiles * kRows;
  const int image = static_cast<int>(blockIdx.x) / tiles / layer.heads, head = static_cast<int>(blockIdx.x) / tiles % layer.heads;
  const int row = first_row + warp * 16 + g;  // the lane has it and the one 8 further
  if (threadIdx.x < 2) most_of_all[threadIdx.x] = 0;
  Extremes extremes;

  Operand q[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps * 4; ++i) {
    const int at = row + i % 2 * 8;
    Vector<T, 2> pair{};
    if (at < layer.m) pair = load_vector<2>(layer.q + layer.place(image, head, at, layer.m) + i / 4 * 16 + i / 2 % 2 * 8 + 2 * t);
#pragma unroll
    for (float& each : pair.value) extremes.see(each *= kScale);
    q[i / 4].set(i % 4, pair.value[0], pair.value[1]);
  }
  const typename Mask::Row mask[2] = {layer.mask.row(image, head, smaller(row, layer.m - 1)),
                                      layer.mask.row(image, head, smaller(row + 8, layer.m - 1))};

  // Where this lane's row of a matrix lies that ldmatrix loads: of keys, two products of 8 keys; of values, of 8 columns.
  const unsigned of_keys = shared_address(shared) + ((lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8) * 2;
  const unsigned of_values = shared_address(shared + 2 * kPart) + (lane % 16 * kPitch + lane / 16 * 8) * 2;
  WarpRows rows;
  const size_t pitch = static_cast<size_t>(layer.heads) * kDepth;
#pragma unroll 1
  for (int first_key = 0; first_key < layer.t; first_key += kKeys) {
    const size_t from = layer.place(image, head, first_key, layer.t);
    const int keys = layer.t - first_key;  // and perhaps more than kKeys
    __syncthreads();                       // all have left the keys before
    split_rows<kThreads>(shared, layer.k + from, pitch, keys, [&](float x) { extremes.see(x); });
    split_rows<kThreads>(shared + 2 * kPart, layer.v + from, pitch, keys, [&](float x) { extremes.see_value(x); });
    __syncthreads();
    float scores[kKeys / 8][4];
    scores_of(scores, q, of_keys, keys, mask, first_key);
    exponentials_of(scores, rows);
    Operand shares[kKeys / 16];
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const float* pair = &scores[i / 4 * 2 + i / 2 % 2][i % 2 * 2];
      shares[i / 4].set(i % 4, pair[0], pair[1]);
    }
    add_values(rows, shares, of_values, keys);
  }

  // Not negative or NaN, so their bits have their order.
  atomicMax(most_of_all, __float_as_int(extremes.most));
  atomicMax(most_of_all + 1, __float_as_int(extremes.most_value));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float total = rows.total[r];
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    if (row + 8 * r >= layer.m) continue;
    T* const to = layer.y + layer.place(image, head, row + 8 * r, layer.m) + 2 * t;
#pragma unroll
    for (int i = 0; i < kDepth / 8; ++i) {
      store_vector(to + 8 * i, Vector<T, 2>{{rows.sums[i][2 * r] / total, rows.sums[i][2 * r + 1] / total}});
    }
  }
  __syncthreads();
  const float most = __int_as_float(most_of_all[0]), most_value = __int_as_float(most_of_all[1]);
  if (most <= kMostX && (most_value == 0.0f || (most_value >= kLeastX && most_value <= kMostX))) return;
#pragma unroll 1
  for (int again = first_row + warp; again < smaller(first_row + kRows, layer.m); again += kThreads / 32) {
    plain_row(layer, image, head, again);
  }
}

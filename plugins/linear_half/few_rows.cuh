// Dense layers of up to 8, 16 or 32 rows in fp16 or bfloat16: their time is that of reading the weights. Their own `Layer` is included before.
//
// Mapping: a block has 8, 16 or 32 outputs of all rows, more where the layer has many. Its warps divide the chunks of inputs, and add their sums
// through shared memory. Rows of x are the 16-row operand of a product, outputs the columns: so weights are multiplied from the registers into which
// they were loaded. The order of the inputs within a chunk is free: lane (g = lane / 4, t = lane % 4) loads 16 bytes of the packed weights, 8 inputs
// of output g, and the same inputs of row g of x. A warp reads 512 neighbouring bytes of the weights at a time. They are loaded some chunks ahead,
// the first ones before the kernel in front has ended.
//
// Bytes: the weights once, from memory; x once for each block, from L1 or L2; y once.
#pragma once

#include "linear/packed.cuh"
#include "mma.cuh"
#include "prefetch.cuh"

// kMostRows: 8, 16 or 32.
template <int kMostRows>
struct FewRows {
  static constexpr int kThreads = 256, kWarps = kThreads / 32;
  static constexpr int kRowEights = kMostRows / kEight, kProducts = ceil_div(kRowEights, 2);  // of 16 rows
  // Eights of outputs that a block has: as Product.few_rows() of linear/declaration.py says. 32 rows take as many bytes as 32 outputs; with more than
  // 8192 outputs such blocks would not be under way all at once.
  static constexpr bool kWide = kMostRows == 32 && kOutputs >= 4096 && kOutputs <= 8192;
  static constexpr int kEights = kOutputs < 2048 ? 1 : kWide ? 4 : 2, kColumns = kEights * kEight;
  // Blocks that have room on a multiprocessor: all of its share where there are 128, but no more than leave registers enough.
  static constexpr int kBlocks = kEights == 1 ? 2 : smaller(ceil_div(kOutputs, 128 * kColumns), kMostRows < 32 ? 4 : 2);
  // The most chunks of a warp; those whose weights it loads ahead, and whose x: as many as there are registers for.
  static constexpr int kRounds = ceil_div(kAllChunks, kWarps);
  static constexpr bool kHasRoom = kBlocks * kEights < 8;
  static constexpr int kAhead = smaller(kRounds, kEights == 1 ? 8 : kHasRoom ? 4 : 3), kXAhead = smaller(kAhead, kHasRoom ? 2 : 1);
  static_assert(kAhead == kRounds || kAhead % kXAhead == 0, "x has the same place in each turn");
  static constexpr int kPitch = kColumns + (kEights == 1 ? 0 : kEight);  // of a row of sums: what half a warp writes at once has different banks

  struct Weights {
    uint4 eights[kEights];
  };
  struct X {
    uint4 eights[kRowEights];
  };

  // This lane's weights and inputs of the next chunk of its warp.
  const T* weights;
  const T* x;
  int left;  // chunks of this warp
  int ends;  // inputs of a row from this lane's on
  bool has_row[kRowEights];
  const int eights;  // of outputs from the block's first one on

  template <typename Layer>
  __device__ __forceinline__ FewRows(const Layer& layer, int first, int lane) : eights((kOutputs - first) / kEight) {
    const int warp = threadIdx.x / 32, g = lane / 4, t = lane % 4, chunk = warp * kAllChunks / kWarps;
    left = (warp + 1) * kAllChunks / kWarps - chunk;
    weights = layer.weights + (static_cast<size_t>(chunk) * kOfAll + first / kEight * kOfEight + (t * kEight + g) * kEight);
    x = layer.row(g) + (chunk * kChunk + t * kEight);
    ends = kInputs - (chunk * kChunk + t * kEight);
#pragma unroll
    for (int i = 0; i < kRowEights; ++i) has_row[i] = i * kEight + g < layer.n;
  }

  // Goes on to the chunks behind those that were loaded ahead.
  __device__ __forceinline__ void advance() {
    weights += kAhead * kOfAll;
    x += kAhead * kChunk;
    left -= kAhead;
    ends -= kAhead * kChunk;
  }

  // The weights of the i-th chunk from here; zeros where there are none.
  __device__ __forceinline__ Weights load_weights(int i) const {
    Weights loaded{};
#pragma unroll
    for (int j = 0; j < kEights; ++j) {
      const bool exists = i < left && (kOutputs % kColumns == 0 || j < eights);
      if (exists) loaded.eights[j] = __ldcs(reinterpret_cast<const uint4*>(weights + (i * kOfAll + j * kOfEight)));
    }
    return loaded;
  }

  // The same of x.
  __device__ __forceinline__ X load_x(int i) const {
    const bool inside = i < left && (kInputs % kChunk == 0 || i * kChunk < ends);
    X loaded{};
#pragma unroll
    for (int j = 0; j < kRowEights; ++j) {
      if (inside && has_row[j]) loaded.eights[j] = *reinterpret_cast<const uint4*>(x + (i * kChunk + j * kEight * kInputs));
    }
    return loaded;
  }

  // Adds the products of a chunk to the sums of rows g and g + 8 of each 16, of outputs 2t and 2t + 1 of each eight.
  static __device__ __forceinline__ void multiply(float (&sums)[kProducts][kEights][4], const Weights& w, const X& x) {
#pragma unroll
    for (int p = 0; p < kProducts; ++p) {
      const uint4 low = x.eights[2 * p], high = kRowEights > 1 ? x.eights[smaller(2 * p + 1, kRowEights - 1)] : uint4{};
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
        mma_16x8x16<T>(sums[p][i], low.x, high.x, low.y, high.y, w.eights[i].x, w.eights[i].y);
        mma_16x8x16<T>(sums[p][i], low.z, high.z, low.w, high.w, w.eights[i].z, w.eights[i].w);
      }
    }
  }
};

template <int kMostRows>
__device__ __forceinline__ void dense_of_few_rows(const Layer& layer) {
  using Plan = FewRows<kMostRows>;
  __shared__ __align__(16) float parts[Plan::kWarps][kMostRows][Plan::kPitch];
  const int lane = threadIdx.x % 32, first = blockIdx.x * Plan::kColumns;
  if (threadIdx.x == 0) prefetch_l2(layer.bias + first);  // that of all outputs of the block

  Plan plan(layer, first, lane);
  typename Plan::Weights weights[Plan::kAhead];
#pragma unroll
  for (int i = 0; i < Plan::kAhead; ++i) weights[i] = plan.load_weights(i);
  wait_for_previous_kernel();
  if (are_few<smaller(kInputs, kOutputs)>(layer.n)) allow_next_kernel();
  typename Plan::X x[Plan::kXAhead];
#pragma unroll
  for (int i = 0; i < Plan::kXAhead; ++i) x[i] = plan.load_x(i);

  float sums[Plan::kProducts][Plan::kEights][4] = {};
#pragma unroll 1
  for (int round = 0; round < Plan::kRounds; round += Plan::kAhead) {
#pragma unroll
    for (int i = 0; i < Plan::kAhead; ++i) {
      Plan::multiply(sums, weights[i], x[i % Plan::kXAhead]);
      __syncwarp();  // or the compiler loads x of several chunks, and has too few registers
      if constexpr (Plan::kRounds > Plan::kAhead) weights[i] = plan.load_weights(i + Plan::kAhead);
      if (Plan::kRounds > Plan::kAhead || i + Plan::kXAhead < Plan::kAhead) x[i % Plan::kXAhead] = plan.load_x(i + Plan::kXAhead);
    }
    plan.advance();
  }

#pragma unroll
  for (int i = 0; i < Plan::kEights; ++i) {
#pragma unroll
    for (int j = 0; j < Plan::kRowEights; ++j) {
      float* const to = &parts[threadIdx.x / 32][j * kEight + lane / 4][i * kEight + lane % 4 * 2];
      *reinterpret_cast<float2*>(to) = make_float2(sums[j / 2][i][j % 2 * 2], sums[j / 2][i][j % 2 * 2 + 1]);
    }
  }
  __syncthreads();
  // A thread finishes two outputs at a time.
  constexpr int kPairs = Plan::kColumns / 2;
#pragma unroll
  for (int first_row = 0; first_row < kMostRows; first_row += Plan::kThreads / kPairs) {
    const int row = first_row + threadIdx.x / kPairs, pair = threadIdx.x % kPairs * 2;
    if (row >= smaller(layer.n, kMostRows) || first + pair >= kOutputs) return;
    float totals[2] = {};
#pragma unroll
    for (int warp = 0; warp < Plan::kWarps; ++warp) {
      const float2 part = *reinterpret_cast<const float2*>(&parts[warp][row][pair]);
      totals[0] += part.x, totals[1] += part.y;
    }
    layer.finish(totals, 0, row, first + pair);
  }
}

// x is no __restrict__ pointer: it may be written until the wait, so its loads must stay behind that.
#define ENTRY_OF_FEW_ROWS(entry, most_rows)                                                                                                    \
  ASSERT_LAUNCH(entry, FewRows<most_rows>::kThreads, 0);                                                                                       \
  extern "C" __global__ void __launch_bounds__(FewRows<most_rows>::kThreads, FewRows<most_rows>::kBlocks)                                      \
      entry(const T* x OTHER_PARAMETER, const T* __restrict__ weights, const T* __restrict__ bias, int rows TOKENS_PARAMETER, T* __restrict__ y) { \
    if constexpr (!is_launched(#entry)) return; /* the other one is compiled with its variant */                                               \
    dense_of_few_rows<most_rows>(Layer{{x, weights, bias, rows, y OTHER_ARGUMENT}});                                                           \
  }

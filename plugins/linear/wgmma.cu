// linear by wgmma, Hopper's own instruction for its tensor cores: y = act(x w^T + bias), in floats.
//
// x [n, I], weights and scales (w, packed: layer.cuh), bias [O], y [n, O].
//
// Mapping: a block stays and takes tile after tile (tile.cuh). Its first warpgroup lets the stages be copied. The two others load the rows of
// their products into registers, split them there (split.cuh), and multiply them by the weights in shared memory. hi hi is summed alone over
// a step of 32 or 64 inputs. Where tiles are few, the blocks of a cluster divide the inputs of one: each leaves its sums in its
// shared memory, adds up some rows of all, in the same order always, and finishes these. A row whose largest x is too small to be split, and
// each sum that is not finite, is computed again by plain multiply-adds.
// Bytes: x once for each 128 outputs and the weights once for each 128 rows, from L2; y once.
// What is known of it: docs/kernels/linear.md.
#include "block_cluster.cuh"
#include "copies.cuh"
#include "linear/tile.cuh"
#include "wgmma.cuh"

struct Arguments {
  const T* __restrict__ x;
  const __half* __restrict__ weights;
  const T* __restrict__ scales;
  const T* __restrict__ bias;
  const int n;
  T* __restrict__ y;

  __device__ __forceinline__ const T* row(int row) const { return x + static_cast<size_t>(row) * kInputs; }
  __device__ __forceinline__ T* place(int row, int column) const { return y + (static_cast<size_t>(row) * kOutputs + column); }
  __device__ __forceinline__ void again(int row, int column) const { *place(row, column) = plain_output(this->row(row), weights, scales, bias, column); }
};

// The warpgroup that fills the stages.
template <typename Plan>
__device__ __forceinline__ void fill_stages(const Stages<Plan>& ring, const Arguments& layer) {
  constexpr int kPieces = Plan::kDepth / 4, kRowsAtOnce = kRole / kPieces;  // of 16 bytes
  const int thread = threadIdx.x, piece = thread % kPieces;
  const unsigned to = ring.address + thread / kPieces * Plan::kPitch * 4 + piece * 16;
  Share<Plan> share;
  Turn<Plan> turn;
#pragma unroll 1
  for (; share.tile < tiles(layer.n); share.advance()) {
    const Place place(share.tile);
    const unsigned bytes = (kFull ? kColumns : smaller(kColumns, kOutputs - place.column)) / kEight * kOfEight * 2;
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      const unsigned stage = turn.stage * Plan::kStageBytes, full = ring.full(turn.stage);
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (thread == 0) {
        expect_bytes(full, Plan::kChunks * 2 * bytes);
#pragma unroll
        for (int i = 0; i < Plan::kChunks * 2; ++i) {  // hi and lo
          const __half* from = layer.weights + ((step * Plan::kChunks * 2 + i) * kOfAll + place.column / kEight * kOfEight);
          begin_bulk_copy(ring.address + stage + Plan::kXBytes + i * Plan::kWeightBytes, from, bytes, full);
        }
      }
#pragma unroll
      for (int row = 0; row < kTileRows; row += kRowsAtOnce) {
        const int from = place.row + row + thread / kPieces;
        const bool exists = from < layer.n;
        const T* const of_x = layer.row(exists ? from : 0) + (step * Plan::kDepth + piece * 4);
        copy_async<16>(to + stage + row * Plan::kPitch * 4, of_x, exists ? 16 : 0);
      }
      arrive_with_copies(full);
      turn.advance();
    }
  }
}

// A lane's sums of rows `row` and 8 further become outputs.
__device__ __forceinline__ void finish_lane(const Arguments& layer, const float (&sums)[kColumns / 2], const int (&largest)[2], int row, int column) {
  float zero[2] = {};  // NaN where a sum is not finite
#pragma unroll
  for (int j = 0; j < kColumns / kEight; ++j) {
    if (!kFull && column + j * kEight >= kOutputs) continue;
    const Vector<T, 2> scale = load_vector<2>(layer.scales + column + j * kEight), bias = load_vector<2>(layer.bias + column + j * kEight);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Vector<T, 2> outputs;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float sum = sums[4 * j + 2 * i + e];
        zero[i] = fmaf(sum, 0.0f, zero[i]);
        outputs.value[e] = activate<kActivation>(fmaf(sum, scale.value[e], bias.value[e]));
      }
      if (row + 8 * i < layer.n) store_vector(layer.place(row + 8 * i, column + j * kEight), outputs);
    }
  }
  if (exact_sum(zero[0], largest[0]) && exact_sum(zero[1], largest[1])) return;
  unsigned long long again = 0;  // a bit for each that has to be computed again
#pragma unroll
  for (int i = 0; i < kColumns / 2; ++i) again |= static_cast<unsigned long long>(!exact_sum(sums[i], largest[i / 2 % 2])) << i;
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int index = __ffsll(static_cast<long long>(again)) - 1, at = row + index / 2 % 2 * 8, feature = column + index / 4 * kEight + index % 2;
    if (at < layer.n && feature < kOutputs) layer.again(at, feature);
  }
}

// Some rows of a tile, from the shared memory of all blocks of a cluster; a thread has runs of 4 outputs.
template <int kSplits>
__device__ __forceinline__ void finish_share(const Arguments& layer, const float* sums, const Place& place) {
  constexpr int kRun = 4, kRunsOfRow = kColumns / kRun, kRows = kTileRows / kSplits;
#pragma unroll 1
  for (int run = threadIdx.x - kRole; run < kRows * kRunsOfRow; run += 2 * kRole) {
    const int row = blockIdx.x % kSplits * kRows + run / kRunsOfRow, column = run % kRunsOfRow * kRun;
    const int feature = place.column + column;
    if (place.row + row >= layer.n || feature >= kOutputs) continue;
    const float* of_row = sums + row * kSumPitch;
    float total[kRun] = {};
    int largest = 0;
#pragma unroll
    for (unsigned other = 0; other < kSplits; ++other) {
      const float4 part = read_remote(of_row + column, other);
      total[0] += part.x, total[1] += part.y, total[2] += part.z, total[3] += part.w;
      largest = max(largest, __float_as_int(read_remote(of_row + kColumns, other).x));
    }
    const Vector<T, kRun> scale = load_vector<kRun>(layer.scales + feature), bias = load_vector<kRun>(layer.bias + feature);
    Vector<T, kRun> outputs;
#pragma unroll
    for (int i = 0; i < kRun; ++i) outputs.value[i] = activate<kActivation>(fmaf(total[i], scale.value[i], bias.value[i]));
    store_vector(layer.place(place.row + row, feature), outputs);
#pragma unroll 1
    for (int i = 0; i < kRun; ++i) {
      if (!exact_sum(total[i], largest)) layer.again(place.row + row, feature + i);
    }
  }
}

// A lane's part of 16 inputs of its rows, as a product wants it.
struct Rows {
  unsigned hi[4], lo[4];

  __device__ __forceinline__ void load(const float* x, int pitch, float (&most)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Vector<float, 2> pair = load_vector<2>(x + i % 2 * 8 * pitch + i / 2 * 8);
      split(pair.value[0], pair.value[1], hi[i], lo[i]);
      most[i % 2] = fmaxf(most[i % 2], fmaxf(fabsf(pair.value[0]), fabsf(pair.value[1])));
    }
  }
};

// A warpgroup that multiplies its half of the rows of each tile.
template <typename Plan>
__device__ __forceinline__ void multiply_tiles(const Stages<Plan>& ring, const Arguments& layer) {
  constexpr int kProducts = Plan::kDepth / 16;
  const int warp = threadIdx.x / 32 - kRole / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int row = warp * 16 + g;  // of the tile; the lane has it and the one 8 further
  Share<Plan> share;
  Turn<Plan> turn;
#pragma unroll 1
  for (; share.tile < tiles(layer.n); share.advance()) {
    const Place place(share.tile);
    float sums[kColumns / 2] = {}, low_sums[kColumns / 2] = {}, most[2] = {};
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      const unsigned stage = turn.stage * Plan::kStageBytes;
      const float* const x = reinterpret_cast<const float*>(ring.stages + stage) + row * Plan::kPitch + 2 * t;
      const unsigned long long w = wgmma_operand<kEight * 16, kOfEight * 2>(ring.address + stage + Plan::kXBytes);
      float part[kColumns / 2];
      Rows rows[kProducts];
#pragma unroll
      for (int product = 0; product < kProducts; ++product) {
        // While these are loaded and split, the tensor cores have the products before.
        rows[product].load(x + product * 16, Plan::kPitch, most);
        const unsigned long long b_hi = w + product / 2 * (2 * Plan::kWeightBytes / 16) + product % 2 * 2 * kEight;
        const unsigned long long b_lo = b_hi + Plan::kWeightBytes / 16;
        wgmma_begin();
        if (product == 0) {
          wgmma_multiply<false>(part, rows[product].hi, b_hi);
        } else {
          wgmma_multiply<true>(part, rows[product].hi, b_hi);
        }
        wgmma_multiply<true>(low_sums, rows[product].hi, b_lo);
        wgmma_multiply<true>(low_sums, rows[product].lo, b_hi);
      }
      wgmma_finish(part);
      wgmma_finish_with(low_sums);
      if (lane == 0) arrive(ring.empty(turn.stage));
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) sums[i] += part[i];
      turn.advance();
    }
    int largest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 1));
      largest[i] = __float_as_int(fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 2)));
    }
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) sums[i] = fmaf(low_sums[i], 1.0f / kLow, sums[i]);
    if constexpr (Plan::kSplits == 1) {
      finish_lane(layer, sums, largest, place.row + row, place.column + 2 * t);
    } else {
      float* const shared_sums = reinterpret_cast<float*>(ring.stages);
      wait_for_group<2 * kRole>();  // both warpgroups have left the stages
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2) {
        float* const to = shared_sums + (row + i / 2 % 2 * 8) * kSumPitch + i / 4 * kEight + 2 * t;
        *reinterpret_cast<float2*>(to) = make_float2(sums[i], sums[i + 1]);
      }
      if (t < 2) shared_sums[(row + 8 * t) * kSumPitch + kColumns] = __int_as_float(largest[t]);
      cluster_arrive();
      cluster_wait();
      finish_share<Plan::kSplits>(layer, shared_sums, place);
      cluster_arrive_relaxed();  // the others have read this block's memory
      cluster_wait();
      return;  // these blocks have one tile
    }
  }
}

template <typename Plan>
__device__ __forceinline__ void linear_by_wgmma(unsigned char* memory, const Arguments& layer) {
  const Stages<Plan> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  if (threadIdx.x < kRole) {
    keep_registers<kLoadRegisters>();
    fill_stages(ring, layer);
  } else {
    take_registers<kMultiplyRegisters>();
    multiply_tiles(ring, layer);
  }
}

// An entry for each number of blocks that divide the inputs.
#define BY_WGMMA(entry, cluster, splits)                                                                                                   \
  ASSERT_LAUNCH(entry, kWgmmaThreads, Plan<splits>::kSharedBytes);                                                                                       \
  extern "C" __global__ void cluster __launch_bounds__(kWgmmaThreads, 1)                                                                   \
      entry(const T* __restrict__ x, const __half* __restrict__ weights, const T* __restrict__ scales, const T* __restrict__ bias, int n, \
            T* __restrict__ y) {                                                                                                           \
    if constexpr (!is_launched(#entry)) return; /* the others are compiled with other variants */                                          \
    extern __shared__ __align__(128) unsigned char shared[];                                                                               \
    linear_by_wgmma<Plan<splits>>(shared, {x, weights, scales, bias, n, y});                                                                     \
  }
BY_WGMMA(linear_wgmma, , 1)
BY_WGMMA(linear_by2_wgmma, __cluster_dims__(2, 1, 1), 2)
BY_WGMMA(linear_by4_wgmma, __cluster_dims__(4, 1, 1), 4)
BY_WGMMA(linear_by8_wgmma, __cluster_dims__(8, 1, 1), 8)

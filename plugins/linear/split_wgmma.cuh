// A dense layer of floats by wgmma, each split into two fp16 numbers (split.cuh): y = act(x w^T + bias).
//
// x [n, I], weights and scales (w, packed: layer.cuh), bias [O], y [n, O]. The kernel's struct of arguments has them, and says where x lies:
//   row(r)                 a row of x, of which row(r)[i] is the input i
//   begin_copy<Plan>(...)  begins to copy the rows of a tile for a stage
//   place, finish          y of a row and a column; finish_run
//
// Mapping: by_wgmma.cuh. The warpgroups that multiply load the rows of their products into registers, split them there, and multiply them by the
// weights in shared memory. hi hi is summed alone over a step of 32 or 64 inputs. A row whose largest x is too small to be split, and each sum
// that is not finite, is computed again by plain multiply-adds.
#pragma once

#include "linear/by_wgmma.cuh"
#include "linear/layer.cuh"

template <typename Layer>
__device__ __forceinline__ void compute_again(const Layer& layer, int row, int column) {
  *layer.place(row, column) = plain_output(layer.row(row), layer.weights, layer.scales, layer.bias, column);
}

// Sums of neighbouring outputs of a row become outputs.
template <int kCount, typename Layer>
__device__ __forceinline__ void finish_run(const Layer& layer, const float (&sums)[kCount], int largest, int row, int column) {
  const Vector<T, kCount> scale = load_vector<kCount>(layer.scales + column), of_bias = load_vector<kCount>(layer.bias + column);
  Vector<T, kCount> outputs;
#pragma unroll
  for (int i = 0; i < kCount; ++i) outputs.value[i] = activate<kActivation>(fmaf(sums[i], scale.value[i], of_bias.value[i]));
  store_vector(layer.place(row, column), outputs);
#pragma unroll 1
  for (int i = 0; i < kCount; ++i) {
    if (!exact_sum(sums[i], largest)) compute_again(layer, row, column + i);
  }
}

// A lane's sums of rows `row` and 8 further become outputs.
template <typename Plan, typename Layer>
__device__ __forceinline__ void finish_lane(const Layer& layer, const float (&sums)[Plan::kColumns / 2], const int (&largest)[2], int row, int column) {
  float zero[2] = {};  // NaN where a sum is not finite
#pragma unroll
  for (int j = 0; j < Plan::kColumns / kEight; ++j) {
    if (!Plan::kFull && column + j * kEight >= kOutputs) continue;
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
  for (int i = 0; i < Plan::kColumns / 2; ++i) again |= static_cast<unsigned long long>(!exact_sum(sums[i], largest[i / 2 % 2])) << i;
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int index = __ffsll(static_cast<long long>(again)) - 1, at = row + index / 2 % 2 * 8, feature = column + index / 4 * kEight + index % 2;
    if (at < layer.n && feature < kOutputs) compute_again(layer, at, feature);
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
template <typename Plan, typename Layer>
__device__ __forceinline__ void multiply_tiles(const Ring<Plan>& ring, const Layer& layer, int thread) {
  constexpr int kProducts = Plan::kDepth / 16;
  const int warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const int row = warp * 16 + g;  // of the tile; the lane has it and the one 8 further
  Share<Plan> share;
  Turn<Plan> turn;
#pragma unroll 1
  for (; share.tile < Plan::tiles(layer.n); share.advance()) {
    const Place place = Plan::place(share.tile);
    float sums[Plan::kColumns / 2] = {}, low_sums[Plan::kColumns / 2] = {}, most[2] = {};
#pragma unroll 1
    for (int step = share.first; step < share.last; ++step) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      const unsigned stage = turn.stage * Plan::kStageBytes;
      const float* const x = reinterpret_cast<const float*>(ring.stages + stage) + row * Plan::kPitch + 2 * t;
      const unsigned long long w = wgmma_operand<kEight * 16, kOfEight * 2>(ring.address + stage + Plan::kXBytes);
      float part[Plan::kColumns / 2];
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
      for (int i = 0; i < Plan::kColumns / 2; ++i) sums[i] += part[i];
      turn.advance();
    }
    int largest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      most[i] = fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 1));
      largest[i] = __float_as_int(fmaxf(most[i], __shfl_xor_sync(kAllLanes, most[i], 2)));
    }
#pragma unroll
    for (int i = 0; i < Plan::kColumns / 2; ++i) sums[i] = joined_sum<kProducts>(sums[i], low_sums[i]);
    if constexpr (Plan::kSplits == 1) {
      finish_lane<Plan>(layer, sums, largest, place.row + row, place.column + 2 * t);
    } else {
      finish_together(ring, layer, sums, largest, place, row, thread);
      return;  // these blocks have one tile
    }
  }
}

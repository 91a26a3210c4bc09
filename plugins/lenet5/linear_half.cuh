// Linear layers of lenet5_tensor_core: fp16 weights [out, in] as stored; a row tile has 16 images, a warp two column tiles of eight.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"
#include "lenet5/tensor_core.cuh"

namespace lenet5 {

enum class Source { kGlobal, kShared };

// `volatile` keeps the loads where they are: hoisted out of the loop over rounds they would not fit into registers.
template <Source kSource, bool kAligned16>
__device__ __forceinline__ uint4 load_weights(const __half* source) {
  uint4 v;
  if constexpr (kSource == Source::kGlobal) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(source));
  } else if (kAligned16) {
    v = *reinterpret_cast<const uint4*>(source);
  } else {
    const uint2 low = *reinterpret_cast<const uint2*>(source), high = *reinterpret_cast<const uint2*>(source + 4);
    v = make_uint4(low.x, low.y, high.x, high.y);  // rows of 84 are aligned to eight bytes only
  }
  return v;
}

// Weights [kOut, kIn] and bias of kTiles * 8 outputs. Outputs beyond the last repeat it (nobody reads them); inputs beyond the
// last have weight zero. No branches, so that all loads are under way at once.
template <int kIn, int kOut, int kTiles, Source kSource>
struct Linear {
  static constexpr int kChunks = ceil_div(kIn, kChunk);
  uint4 w[kTiles][kChunks];
  float2 bias[kTiles];

  __device__ __forceinline__ void load(const __half* weight, const __half* bias_source, int first, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int out = min(first + tile * 8 + lane / 4, kOut - 1);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int k = chunk * kChunk + lane % 4 * 8;
        const bool whole = (chunk + 1) * kChunk <= kIn;
        w[tile][chunk] = load_weights<kSource, kIn % 8 == 0>(weight + out * kIn + (whole ? k : min(k, kIn - 8)));
        if (!whole) {
          // A row may end half way through eight: the load was moved back to kIn - 8, its second half is what is wanted.
          const bool all = k + 8 <= kIn, half = kIn % 8 != 0 && k + 4 == kIn;
          uint4& v = w[tile][chunk];
          v.x = all ? v.x : half ? v.z : 0u;
          v.y = all ? v.y : half ? v.w : 0u;
          v.z = all ? v.z : 0u;
          v.w = all ? v.w : 0u;
        }
      }
      const int column = min(first + tile * 8 + lane % 4 * 2, kOut - 2);
      bias[tile] = __half22float2(*reinterpret_cast<const __half2*>(bias_source + column));
    }
  }

  // out[tile]: rows lane / 4 and lane / 4 + 8 of the tile of 16 rows at `rows`, columns lane % 4 * 2 and the next.
  __device__ __forceinline__ void multiply(float (&out)[kTiles][4], const __half* rows, int stride, int lane) const {
    float odd[kTiles][4];
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      out[tile][0] = out[tile][2] = bias[tile].x;
      out[tile][1] = out[tile][3] = bias[tile].y;
      odd[tile][0] = odd[tile][1] = odd[tile][2] = odd[tile][3] = 0.0f;
    }
    const unsigned source = shared_address(rows + (lane & 15) * stride + (lane >> 4) * kUnitHalves);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      unsigned a[2][4];
      load_matrices(a[0], source + chunk * kChunk * 2);
      load_matrices(a[1], source + chunk * kChunk * 2 + 2 * kUnitBytes);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        mma_16x8x16<__half>(out[tile], a[0][0], a[0][1], a[0][2], a[0][3], w[tile][chunk].x, w[tile][chunk].y);
        mma_16x8x16<__half>(odd[tile], a[1][0], a[1][1], a[1][2], a[1][3], w[tile][chunk].z, w[tile][chunk].w);
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[tile][i] += odd[tile][i];
    }
  }
};

// ReLU, then columns beyond the last are zero so that the next layer's padding multiplies no NaN. Two tiles lie side by side.
template <int kOut>
__device__ __forceinline__ void store_hidden(__half* rows, int stride, const float (&value)[2][4], int first, int lane) {
  const int column = first + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned pair[2];
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const unsigned real = bits(relu_nan(__floats2half2_rn(value[tile][2 * half], value[tile][2 * half + 1])));
      pair[tile] = column + 8 * tile < kOut ? real : 0u;
    }
    __half* target = rows + (lane / 4 + 8 * half) * stride + chunk_position(column);
    *reinterpret_cast<uint2*>(target) = make_uint2(pair[0], pair[1]);
  }
}

__device__ __forceinline__ void store_pair(float* target, float a, float b) { *reinterpret_cast<float2*>(target) = make_float2(a, b); }
__device__ __forceinline__ void store_pair(__half* target, float a, float b) {
  *reinterpret_cast<__half2*>(target) = __floats2half2_rn(a, b);
}

}  // namespace lenet5

// Linear layers of lenet5_split: fc1 from fp16 parts, fc2 and fc3 from tf32 parts.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/images.cuh"
#include "lenet5/split_numbers.cuh"
#include "lenet5/tensor_core.cuh"

namespace lenet5 {

// ---- fc1, the block, 16 images a row tile, a warp eight outputs ---------------------------------------------------------

__device__ __forceinline__ float4 load_global(const float* source) {
  float4 v;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(source));
  return v;
}

// The largest magnitude, NaN above all.
__device__ __forceinline__ float max_magnitude(float most, const float4& v) {
  return max_nan(max_nan(max_nan(most, fabsf(v.x)), max_nan(fabsf(v.y), fabsf(v.z))), fabsf(v.w));
}

// Over the four lanes that share a row of weights.
__device__ __forceinline__ float row_max(float most) {
  most = max_nan(most, __shfl_xor_sync(kAllLanes, most, 1));
  return max_nan(most, __shfl_xor_sync(kAllLanes, most, 2));
}

struct Fc1 {
  static constexpr int kChunks = kFeatures / kChunk;
  Split w[kChunks][4];
  float scale;  // of the lane's row of weights, NaN if that is out of range
  int exponent;

  // `known`: the same rows were loaded before, so `exponent` is theirs and no weight waits for the others.
  __device__ __forceinline__ void load(const float* weight, int first, bool known, int lane) {
    const float* source = weight + (first + lane / 4) * kFeatures + lane % 4 * 8;
    float4 raw[kChunks][2];
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      raw[chunk][0] = load_global(source + chunk * kChunk);
      raw[chunk][1] = load_global(source + chunk * kChunk + 4);
    }
    if (!known) {
      float most[4] = {};  // four short chains
#pragma unroll
      for (int i = 0; i < 2 * kChunks; ++i) most[i % 4] = max_magnitude(most[i % 4], raw[i / 2][i % 2]);
      exponent = row_exponent(row_max(max4(most[0], most[1], most[2], most[3])));
    }
    const float up = power_of_two(kTopWeight - exponent);
    scale = exponent == kUnfit ? nan() : power_of_two(exponent - kTopWeight);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 v = raw[chunk][i];
        w[chunk][2 * i] = split(v.x * up, v.y * up);
        w[chunk][2 * i + 1] = split(v.z * up, v.w * up);
      }
    }
  }

  // out: rows lane / 4 and lane / 4 + 8 of the tile, columns lane % 4 * 2 and the next. Low parts lie kPart bytes behind high ones.
  template <int kPart>
  __device__ __forceinline__ void multiply(float (&out)[4], unsigned rows, int lane) const {
    float acc[3][4] = {};
    const unsigned source = rows + (lane & 15) * kFeatureStride * 2 + (lane >> 4) * kUnitBytes;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned high[4], low[4];
        load_matrices(high, source + chunk * kChunk * 2 + i * 2 * kUnitBytes);
        load_matrices(low, source + chunk * kChunk * 2 + i * 2 * kUnitBytes + kPart);
        const Split &a = w[chunk][2 * i], &b = w[chunk][2 * i + 1];
        mma_16x8x16<__half>(acc[0], high[0], high[1], high[2], high[3], a.high, b.high);
        mma_16x8x16<__half>(acc[1], high[0], high[1], high[2], high[3], a.low, b.low);
        mma_16x8x16<__half>(acc[2], low[0], low[1], low[2], low[3], a.high, b.high);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = acc[0][i] + (acc[1][i] + acc[2][i]);
  }

  // Four lanes share a row of weights, so the scales of a lane's two outputs are with others.
  __device__ __forceinline__ void unscale(float (&out)[4], int lane) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] *= __shfl_sync(kAllLanes, scale, lane % 4 * 8 + i % 2 * 4);
  }
};

// ---- fc2 and fc3: tf32, whose exponents are float's, each operand in two parts -------------------------------------------
// A thread takes 4 neighbouring k of every 16: two products of k = 8. Overflow shows in the logits. Underflow of low parts, or of
// products with them, is ruled out: a lane's weights below 2^-95 and hidden values below 2^-96 become NaN, such logits inaccurate.

constexpr int kStep = 16;

constexpr unsigned kTf32Mask = 0xffffe000u;
__device__ __forceinline__ unsigned high_tf32(float value) { return __float_as_uint(value) & kTf32Mask; }
__device__ __forceinline__ unsigned low_tf32(float value) {
  return __float_as_uint(value - __uint_as_float(high_tf32(value))) & kTf32Mask;
}

__device__ __forceinline__ bool tiny(float value) { return value > 0.0f && value < kTiniest; }
__device__ __forceinline__ bool accurate(float logit) { return fabsf(logit) <= 3.4e38f && !tiny(fabsf(logit)); }

// Eight outputs of a layer of weights [kOut, kIn]. Outputs beyond the last repeat it; inputs beyond the last have weight zero.
template <int kIn, int kOut>
struct Linear {
  static constexpr int kSteps = ceil_div(kIn, kStep);
  float4 w[kSteps];
  float start;  // of the sums: zero, or NaN if weights are too small

  __device__ __forceinline__ void load(const float* weight, int first, int lane) {
    const float* source = weight + min(first + lane / 4, kOut - 1) * kIn;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int k = step * kStep + lane % 4 * 4;
      const bool inside = (step + 1) * kStep <= kIn || k < kIn;
      const float4 v = load_global(source + (inside ? k : 0));
      w[step] = make_float4(inside ? v.x : 0.0f, inside ? v.y : 0.0f, inside ? v.z : 0.0f, inside ? v.w : 0.0f);
    }
  }

  // Not in load(), which is not to wait for what it loads.
  __device__ __forceinline__ void refuse_tiny() {
    unsigned any[2] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      any[0] |= __float_as_uint(w[step].x) | __float_as_uint(w[step].y);
      any[1] |= __float_as_uint(w[step].z) | __float_as_uint(w[step].w);
    }
    // Exponents of 2^-95 and more have one of their upper three bits set.
    const unsigned magnitudes = (any[0] | any[1]) & 0x7fffffffu;
    start = __any_sync(kAllLanes, magnitudes != 0 && (magnitudes & 0x70000000u) == 0) ? nan() : 0.0f;
  }

  template <int kStride>
  __device__ __forceinline__ void multiply(float (&out)[4], unsigned rows, int lane) const {
    float acc[3][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[1][i] = start;
    const float* source = at<float>(rows + (lane / 4 * kStride + lane % 4 * 4) * 4);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float4 upper = *reinterpret_cast<const float4*>(source + step * kStep);
      const float4 lower = *reinterpret_cast<const float4*>(source + step * kStep + 8 * kStride);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float a[4] = {i ? upper.z : upper.x, i ? lower.z : lower.x, i ? upper.w : upper.y, i ? lower.w : lower.y};
        const float b[2] = {i ? w[step].z : w[step].x, i ? w[step].w : w[step].y};
        unsigned high[4], low[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          high[j] = high_tf32(a[j]);
          low[j] = low_tf32(a[j]);
        }
        mma_16x8x8_tf32(acc[0], high, high_tf32(b[0]), high_tf32(b[1]));
        mma_16x8x8_tf32(acc[1], high, low_tf32(b[0]), low_tf32(b[1]));
        mma_16x8x8_tf32(acc[2], low, high_tf32(b[0]), high_tf32(b[1]));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = acc[0][i] + (acc[1][i] + acc[2][i]);
  }
};

__device__ __forceinline__ float hidden(float value) {
  const float result = relu_nan(value);
  return tiny(result) ? nan() : result;
}

// ReLU of value * scale + bias for two neighbouring columns of two rows; columns beyond the last are zero.
template <int kOut>
__device__ __forceinline__ void store_hidden(unsigned rows, int stride, const float (&value)[4], unsigned bias,
                                             const float (&scale)[2], int first, int lane) {
  const int column = first + lane % 4 * 2;
  const bool real = column < kOut;
  const float2 add = real ? *at<float2>(bias + column * 4) : make_float2(0.0f, 0.0f);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float a = hidden(fmaf(value[2 * half], scale[half], add.x)), b = hidden(fmaf(value[2 * half + 1], scale[half], add.y));
    *at<float2>(rows + ((lane / 4 + 8 * half) * stride + column) * 4) = real ? make_float2(a, b) : make_float2(0.0f, 0.0f);
  }
}

}  // namespace lenet5

// Loads that are issued early, and dot products with rows of a linear layer that a warp holds in registers.
#pragma once

#include "common.cuh"
#include "lenet5/lenet5.cuh"

namespace lenet5 {

// ---- loads that stay where they are written: before everything that could use the time ----------------------------------
// (A plain load from const __restrict__ memory may be moved down to its first use; volatile assembly may not.)

__device__ __forceinline__ float early(const float* address) {
  float value;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(value) : "l"(address));
  return value;
}
__device__ __forceinline__ __half early(const __half* address) {
  unsigned short bits;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(bits) : "l"(address));
  return __ushort_as_half(bits);
}

// ---- sums over a warp --------------------------------------------------------------------------------------------------

__host__ __device__ constexpr int power_of_two_from(int count) { return count <= 1 ? 1 : 2 * power_of_two_from((count + 1) / 2); }

// Sums kCount (a power of two) values over the warp; lane l gets the total of value l / (32 / kCount). Halving the number
// of values at every step takes kCount - 1 + log2(32 / kCount) shuffles instead of 5 * kCount.
template <int kCount, int kOffset = 16>
__device__ __forceinline__ float transposed_sum(const float (&value)[kCount], unsigned lane) {
  if constexpr (kOffset == 0) {
    return value[0];
  } else if constexpr (kCount == 1) {
    const float sum[1] = {value[0] + __shfl_xor_sync(kAllLanes, value[0], kOffset)};
    return transposed_sum<1, kOffset / 2>(sum, lane);
  } else {
    const bool upper = lane & kOffset;
    float half[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float keep = upper ? value[i + kCount / 2] : value[i];
      const float give = upper ? value[i] : value[i + kCount / 2];
      half[i] = keep + __shfl_xor_sync(kAllLanes, give, kOffset);
    }
    return transposed_sum<kCount / 2, kOffset / 2>(half, lane);
  }
}

// Sixteen bytes of neighbouring elements in one load, kept as they were loaded. The address must be 16-byte aligned.
template <typename T>
struct Sixteen {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  uint4 bits;
  __device__ __forceinline__ void load(const T* address) {
    asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(address));
  }
  __device__ __forceinline__ void clear() { bits = make_uint4(0, 0, 0, 0); }
  // Elements 4 * quarter to 4 * quarter + 3; `quarter` is a compile-time constant after unrolling.
  __device__ __forceinline__ float4 value(int quarter) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      return make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z), __uint_as_float(bits.w));
    } else {
      const unsigned first = quarter == 0 ? bits.x : bits.z, second = quarter == 0 ? bits.y : bits.w;
      const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&first));
      const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&second));
      return make_float4(low.x, low.y, high.x, high.y);
    }
  }
};

// Four neighbouring elements in one load, kept as they were loaded until their value is asked for.
// The address must be aligned to four elements.
template <typename T>
struct Quad;
template <>
struct Quad<float> {
  float4 bits;
  __device__ __forceinline__ void load(const float* address) {
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(bits.x), "=f"(bits.y), "=f"(bits.z), "=f"(bits.w)
                 : "l"(address));
  }
  __device__ __forceinline__ void clear() { bits = make_float4(0.0f, 0.0f, 0.0f, 0.0f); }
  __device__ __forceinline__ float4 value() const { return bits; }
};
template <>
struct Quad<__half> {
  uint2 bits;
  __device__ __forceinline__ void load(const __half* address) {
    asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(bits.x), "=r"(bits.y) : "l"(address));
  }
  __device__ __forceinline__ void clear() { bits = make_uint2(0, 0); }
  __device__ __forceinline__ float4 value() const {
    const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&bits.x));
    const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&bits.y));
    return make_float4(low.x, low.y, high.x, high.y);
  }
};

// A linear layer for a whole block: a warp holds every kWarps-th row of the weights [kOut, kIn] in registers, loaded whenever
// the caller has time, and multiplies them with kImages vectors in shared memory.
template <typename T, int kIn, int kOut, int kWarps, int kImages>
struct Linear {
  static_assert(kIn % 4 == 0, "inputs in groups of four");
  static constexpr int kQuads = kIn / 4;
  static constexpr int kChunks = ceil_div(kQuads, 32);
  static constexpr int kRows = ceil_div(kOut, kWarps);
  static constexpr int kValues = power_of_two_from(kRows * kImages);
  static_assert(kValues <= 32, "one total a lane");

  Quad<T> weight[kRows][kChunks];
  T bias;

  // Which of the warp's totals lane `lane` gets: image and row of the layer; none when `row` is not below kOut.
  static __device__ __forceinline__ unsigned image_of(unsigned lane) { return lane / (32 / kValues) % kImages; }
  static __device__ __forceinline__ unsigned row_of(unsigned warp, unsigned lane) {
    const unsigned value = lane / (32 / kValues);
    return lane % (32 / kValues) == 0 && value < kRows * kImages ? warp + value / kImages * kWarps : kOut;
  }

  __device__ __forceinline__ void load(const T* weights, const T* biases, unsigned warp, unsigned lane) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        weight[i][chunk].clear();
        if (warp + i * kWarps < kOut && (kQuads % 32 == 0 || chunk * 32 + lane < kQuads)) {
          weight[i][chunk].load(weights + (warp + i * kWarps) * kIn + (chunk * 32 + lane) * 4);
        }
      }
    }
    if (row_of(warp, lane) < kOut) bias = early(biases + row_of(warp, lane));
  }

  // input [kImages][kIn] in shared memory, 16-byte aligned -> the total, with bias, of (image_of, row_of).
  __device__ __forceinline__ float apply(const float* input, unsigned lane) const {
    float sums[kValues] = {};
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      if (kQuads % 32 == 0 || chunk * 32 + lane < kQuads) {
#pragma unroll
        for (int which = 0; which < kImages; ++which) {
          const float4 in = *reinterpret_cast<const float4*>(input + which * kIn + (chunk * 32 + lane) * 4);
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            const float4 w = weight[i][chunk].value();
            float& sum = sums[i * kImages + which];
            sum = fmaf(in.x, w.x, sum);
            sum = fmaf(in.y, w.y, sum);
            sum = fmaf(in.z, w.z, sum);
            sum = fmaf(in.w, w.w, sum);
          }
        }
      }
    }
    return transposed_sum(sums, lane) + to_float(bias);
  }
};

}  // namespace lenet5

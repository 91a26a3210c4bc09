// Products of small matrices in registers, again and again: how many operations a second mma.sync does.
//
//   y[w] = ATTR_STEPS * (a[w] b[w]), as ATTR_STEPS sums
//
// a [warps, 32, 16] and b [warps, 16, 32] of T (float, rounded to tf32 when it is loaded; fp16; bf16), y [warps, 32, 32]
// float32. A warp holds its a (2 tiles of 16 rows) and b (4 tiles of 8 columns) in registers and has 8 sums that do not wait for
// each other. Operations: 2 * 32 * 32 * 16 * ATTR_STEPS a warp. Before sm_80 tf32 and bf16 have no tensor cores; there the same
// is computed by multiply-adds (and not used as a ceiling). Hopper and Blackwell need wgmma and tcgen05 for their peaks, which
// mma.sync does not reach.
#include "mma.cuh"

constexpr int kSide = 32, kDepth = 16, kRowTile = 16, kColumnTile = 8;
constexpr int kRowTiles = kSide / kRowTile, kColumnTiles = kSide / kColumnTile;
constexpr int kWarps = LAUNCH_THREADS / 32;

template <typename T>
constexpr bool kIs32Bit = sizeof(T) == 4;
template <typename T>
constexpr bool kIsHalf = false;
template <>
constexpr bool kIsHalf<__half> = true;

#if __CUDA_ARCH__ >= 800
constexpr bool kTensorCores = true;
#else
constexpr bool kTensorCores = kIsHalf<TYPE_T>;
#endif

// Two neighbours of T in one register; in memory they are `apart` numbers from each other.
template <typename T>
__device__ __forceinline__ unsigned pair_of(const T* first, int apart) {
  T two[2] = {first[0], first[apart]};
  return *reinterpret_cast<unsigned*>(two);
}

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ unsigned tf32_of(float value) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ void mma_tf32_16x8x8(float (&d)[4], const unsigned* a, const unsigned* b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// One lane's operands: 16-deep products of half-size types, or two 8-deep ones of tf32.
template <typename T>
struct Operands {
  static constexpr bool kTf32 = kIs32Bit<T>;
  static constexpr int kParts = kTf32 ? 2 : 1;
  unsigned a[kRowTiles][kParts][4], b[kColumnTiles][kParts][2];

  __device__ __forceinline__ void load(const T* left, const T* right, int g, int t) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int tile = 0; tile < kRowTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const T* row = left + (tile * kRowTile + g + 8 * (i % 2)) * kDepth;
          if constexpr (kTf32) {
#if __CUDA_ARCH__ >= 800
            a[tile][part][i] = tf32_of(row[8 * part + t + 4 * (i / 2)]);
#endif
          } else {
            a[tile][part][i] = pair_of(row + 2 * t + 8 * (i / 2), 1);
          }
        }
      }
#pragma unroll
      for (int tile = 0; tile < kColumnTiles; ++tile) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const T* column = right + tile * kColumnTile + g;
          if constexpr (kTf32) {
#if __CUDA_ARCH__ >= 800
            b[tile][part][i] = tf32_of(column[(8 * part + t + 4 * i) * kSide]);
#endif
          } else {
            b[tile][part][i] = pair_of(column + (2 * t + 8 * i) * kSide, kSide);
          }
        }
      }
    }
  }

  __device__ __forceinline__ void multiply(float (&d)[4], int row_tile, int column_tile) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const unsigned *left = a[row_tile][part], *right = b[column_tile][part];
      if constexpr (kTf32) {
#if __CUDA_ARCH__ >= 800
        mma_tf32_16x8x8(d, left, right);
#endif
      } else {
        mma_16x8x16<T>(d, left[0], left[1], left[2], left[3], right[0], right[1]);
      }
    }
  }
};

// In a template, so that what an architecture lacks is not asked of it.
template <typename T, bool kUsed>
__device__ void by_tensor_cores(const T* left, const T* right, float* result, int lane) {
  if constexpr (kUsed) {
    const int g = lane / 4, t = lane % 4;
    Operands<T> operands;
    operands.load(left, right, g, t);
    float d[kRowTiles][kColumnTiles][4] = {};
#pragma unroll 4
    for (int step = 0; step < ATTR_STEPS; ++step) {
#pragma unroll
      for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
        for (int column = 0; column < kColumnTiles; ++column) operands.multiply(d[row][column], row, column);
      }
    }
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
      for (int column = 0; column < kColumnTiles; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int r = row * kRowTile + g + 8 * (i / 2), c = column * kColumnTile + 2 * t + i % 2;
          result[r * kSide + c] = d[row][column][i];
        }
      }
    }
  }
}

template <typename T>
__device__ void by_multiply_adds(const T* left, const T* right, float* result, int lane) {
  for (int r = 0; r < kSide; ++r) {
    float sum = 0.0f;
    for (int step = 0; step < ATTR_STEPS; ++step) {
      for (int k = 0; k < kDepth; ++k) sum = fmaf(to_float(left[r * kDepth + k]), to_float(right[k * kSide + lane]), sum);
    }
    result[r * kSide + lane] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(LAUNCH_THREADS)
    ceiling_mma(const TYPE_T* __restrict__ a, const TYPE_T* __restrict__ b, int warps, float* __restrict__ y) {
  const long long warp = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (warp >= warps) return;
  const TYPE_T *left = a + warp * kSide * kDepth, *right = b + warp * kDepth * kSide;
  float* result = y + warp * kSide * kSide;
  const int lane = threadIdx.x % 32;
  if constexpr (kTensorCores) {
    by_tensor_cores<TYPE_T, kTensorCores>(left, right, result, lane);
  } else {
    by_multiply_adds<TYPE_T>(left, right, result, lane);
  }
}

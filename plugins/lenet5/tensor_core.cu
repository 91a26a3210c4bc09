// lenet5_tensor_core: all of LeNet-5 in one launch, fp16 operands, fp32 accumulation; for batches of a hundred images and more.
//
//   x [n, 1, 28, 28] TX, ten weights T (plain torch layouts) -> y [n, 10] TY; see lenet5.cuh for the layers.
#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/tensor_core.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;

namespace lenet5 {

#ifndef CFG_WARPS
#define CFG_WARPS 8
#define CFG_TILES 3
#define CFG_BLOCKS 2
#endif
constexpr int kWarps = CFG_WARPS;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = CFG_TILES * kRowsATile;  // images whose features wait in shared memory for the linear layers

// ---- shared memory -----------------------------------------------------------------------------------------------------

constexpr int kFeatureStride = kFeatures + 32;  // halves; rows half of the banks apart
constexpr int kHidden1Stride = 128 + 32;
constexpr int kHidden2Stride = 96;

constexpr int kConv1Offset = 0;
constexpr int kConv2Offset = kConv1Offset + kConv1FragmentQuads * kLanes * 16;
constexpr int kFeatureOffset = kConv2Offset + kConv2FragmentQuads * kLanes * 16;
constexpr int kStagingOffset = kFeatureOffset + kRound * kFeatureStride * 2;
constexpr int kStagingBytes = kImagePixels * static_cast<int>(sizeof(TX));
constexpr int kWarpOffset = kStagingOffset + kWarps * kStagingBytes;
constexpr int kWarpBytes = kWindowBytes + kMapBytes;
constexpr int kHidden1Offset = kWarpOffset;  // the linear layers reuse what the convolutions have finished with
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride * 2;
constexpr int kSharedBytes = kWarpOffset + kWarps * kWarpBytes;
static_assert(kHidden2Offset + kRound * kHidden2Stride * 2 <= kSharedBytes, "hidden layers fit");

// ---- convolutions, a warp an image -------------------------------------------------------------------------------------

template <int kQuads>
__device__ __forceinline__ void load_fragments(unsigned (&w)[4 * kQuads], const unsigned char* shared, int lane) {
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    const uint4 four = reinterpret_cast<const uint4*>(shared)[quad * kLanes + lane];
    w[4 * quad] = four.x, w[4 * quad + 1] = four.y, w[4 * quad + 2] = four.z, w[4 * quad + 3] = four.w;
  }
}

// Staged pixels -> fp16 windows. Returns whether all are finite in fp16, to every lane.
__device__ __forceinline__ bool build_windows(__half* windows, const TX* staging, const WindowStore& store, int lane) {
  __half2 most = __float2half2_rn(0.0f);
  if (lane < kFetchLanes) {
#pragma unroll
    for (int step = 0; step < kFetchSteps; ++step) {
      const float4 pixels = load_quad(staging + step * kFetchPixels + lane * kQuad);
      const __half2 a = __floats2half2_rn(pixels.x, pixels.y), b = __floats2half2_rn(pixels.z, pixels.w);
      most = __hmax2_nan(most, __hmax2_nan(__habs2(a), __habs2(b)));
      const uint2 four = make_uint2(bits(a), bits(b));
      const int offset = step * kWindowStepUnits * kUnitHalves;
      if (store.in_even) *reinterpret_cast<uint2*>(windows + store.even + offset) = four;
      if (store.in_odd) *reinterpret_cast<uint2*>(windows + store.odd + offset) = four;
    }
  }
  constexpr unsigned kExponentLow = 0x7c00u, kExponentHigh = 0x7c000000u;
  const unsigned m = bits(most);
  return !__any_sync(kFullWarp, (m & kExponentLow) == kExponentLow || (m & kExponentHigh) == kExponentHigh);
}

__device__ __forceinline__ void conv1_pool(__half* map, unsigned windows, const unsigned* weight, __half2 bias01, __half2 bias2,
                                           unsigned rows03, unsigned rows14, int lane) {
  const int row = lane / 4, pixel = lane & 1, channels = lane >> 1 & 1;
  __half* target = map + (pixel * kMapParity + 2 * row) * kUnitHalves + channels * kQuad;
  const __half2 one = __float2half2_rn(1.0f);
#pragma unroll
  for (int group = 0; group < kConv1Groups; ++group) {
    unsigned x[3][4];
    const unsigned shift = group * 8 * kUnitBytes;
    load_matrices(x[0], windows + rows03 + shift);
    load_matrices(x[1], windows + rows14 + shift);
    load_matrices(x[2], windows + rows03 + shift + kWindowsARow * kUnitBytes);
    float acc[2][kConv1Tiles][4] = {};
    conv1_product(acc, x, weight);
    if (group * 8 + row < kConv1Rows) {
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) {
        float most[kConv1Tiles];
#pragma unroll
        for (int j = 0; j < kConv1Tiles; ++j) {
          most[j] = max4(acc[0][j][2 * parity], acc[0][j][2 * parity + 1], acc[1][j][2 * parity], acc[1][j][2 * parity + 1]);
        }
        const __half2 c01 = __hfma2_relu(__floats2half2_rn(most[0], most[1]), one, bias01);
        const __half2 c2 = __hfma2_relu(__floats2half2_rn(most[2], 0.0f), one, bias2);
        *reinterpret_cast<uint2*>(target + (group * 16 + parity) * kUnitHalves) = make_uint2(bits(c01), bits(c2));
      }
    }
  }
}

// The same for an image with a pixel that is not finite in fp16: windows would multiply it by their zeros.
__device__ __noinline__ void conv1_pool_exact(__half* map, const TX* image, const T* weight, const T* bias, int lane) {
#pragma unroll 1
  for (int i = lane; i < kConv1Channels * kPool1Pixels; i += kLanes) {
    const int channel = i / kPool1Pixels, y = i % kPool1Pixels / kPool1Side, x = i % kPool1Side;
    float most = __int_as_float(0xff800000);
#pragma unroll 1
    for (int member = 0; member < kPool * kPool; ++member) {
      const TX* corner = image + (kPool * y + member / kPool) * kImageSide + kPool * x + member % kPool;
      float sum = 0.0f;
#pragma unroll 1
      for (int tap = 0; tap < kFilterTaps; ++tap) {
        const float pixel = __half2float(__float2half_rn(to_float(corner[tap / kFilterSide * kImageSide + tap % kFilterSide])));
        sum = fmaf(pixel, to_float(weight[channel * kFilterTaps + tap]), sum);
      }
      most = max_nan(most, sum);
    }
    __half* pixel = map + map_offset(y, x);
    pixel[map_slot(channel)] = __float2half_rn(relu_nan(most + to_float(bias[channel])));
    if (channel % 3 == 0) pixel[map_slot(channel) + kBiasSlot] = __float2half_rn(1.0f);
  }
}

__device__ __forceinline__ void conv2_pool(__half* features, unsigned map, const unsigned* weight, unsigned columns0314,
                                           unsigned columns25, int lane) {
  float acc[kConv2Groups][2][2][4] = {};
#pragma unroll
  for (int row = 0; row < kMapRows; ++row) {
    unsigned c[kConv2Groups][4], c25[4];
    const unsigned shift = row * kMapRow * kUnitBytes;
    load_matrices(c[0], map + columns0314 + shift);
    load_matrices(c[1], map + columns0314 + shift + kMapGroup * kUnitBytes);
    load_matrices(c25, map + columns25 + shift);
#pragma unroll
    for (int group = 0; group < kConv2Groups; ++group) {
#pragma unroll
      for (int dy = 0; dy < kPool; ++dy) {
        const int ky = row - dy;
        if (ky < 0 || ky >= kFilterSide) continue;
        conv2_product(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], weight, ky);
      }
    }
  }
  __half* target = features + lane / 4 * kPool2Pixels + lane % 4 * 2;
#pragma unroll
  for (int group = 0; group < kConv2Groups; ++group) {
    float most[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      most[i] = relu_nan(max4(acc[group][0][0][i], acc[group][0][1][i], acc[group][1][0][i], acc[group][1][1][i]));
    }
    *reinterpret_cast<__half2*>(target + 8 * group) = __floats2half2_rn(most[0], most[1]);
    *reinterpret_cast<__half2*>(target + 8 * group + 8 * kPool2Pixels) = __floats2half2_rn(most[2], most[3]);
  }
}

// ---- linear layers, the block, 16 images a row tile --------------------------------------------------------------------
// A fragment's k order is free as long as both operands agree: a thread takes 8 neighbouring k of every 32, one 16-byte load.

constexpr int kChunk = 32;

__device__ __forceinline__ uint4 load8(const __half* source, int valid) {
  uint2 low = make_uint2(0u, 0u), high = low;
  if (valid >= 4) low = *reinterpret_cast<const uint2*>(source);
  if (valid >= 8) high = *reinterpret_cast<const uint2*>(source + 4);
  return make_uint4(low.x, low.y, high.x, high.y);
}
__device__ __forceinline__ uint4 load8(const float* source, int valid) {
  float4 low = make_float4(0.0f, 0.0f, 0.0f, 0.0f), high = low;
  if (valid >= 4) low = *reinterpret_cast<const float4*>(source);
  if (valid >= 8) high = *reinterpret_cast<const float4*>(source + 4);
  return make_uint4(bits(__floats2half2_rn(low.x, low.y)), bits(__floats2half2_rn(low.z, low.w)),
                    bits(__floats2half2_rn(high.x, high.y)), bits(__floats2half2_rn(high.z, high.w)));
}

// Weights [kOut, kIn] and bias of kTiles * 8 outputs, zero beyond the last.
template <int kIn, int kOut, int kTiles>
struct Linear {
  static constexpr int kChunks = (kIn + kChunk - 1) / kChunk;
  uint4 w[kTiles][kChunks];
  float2 bias[kTiles];

  __device__ __forceinline__ void load(const T* weight, const T* bias_source, int first, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int out = first + tile * 8 + lane / 4;
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int k = chunk * kChunk + lane % 4 * 8;
        const T* source = weight + out * kIn + k;
        if constexpr (sizeof(T) == 2 && kIn % 8 == 0) {
          w[tile][chunk] = make_uint4(0u, 0u, 0u, 0u);
          if (out < kOut && k < kIn) w[tile][chunk] = *reinterpret_cast<const uint4*>(source);
        } else {
          w[tile][chunk] = load8(source, out < kOut ? kIn - k : 0);
        }
      }
      const int column = first + tile * 8 + lane % 4 * 2;
      bias[tile].x = column < kOut ? to_float(bias_source[column]) : 0.0f;
      bias[tile].y = column + 1 < kOut ? to_float(bias_source[column + 1]) : 0.0f;
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
    const __half* source = rows + lane / 4 * stride + lane % 4 * 8;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const uint4 low = *reinterpret_cast<const uint4*>(source + chunk * kChunk);
      const uint4 high = *reinterpret_cast<const uint4*>(source + chunk * kChunk + 8 * stride);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        mma16(out[tile], low.x, high.x, low.y, high.y, w[tile][chunk].x, w[tile][chunk].y);
        mma16(odd[tile], low.z, high.z, low.w, high.w, w[tile][chunk].z, w[tile][chunk].w);
      }
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[tile][i] += odd[tile][i];
    }
  }
};

// ReLU, then columns beyond the last are zero so that the next layer's padding multiplies no NaN.
template <int kOut, int kTiles>
__device__ __forceinline__ void store_hidden(__half* rows, int stride, const float (&value)[kTiles][4], int first, int lane) {
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int column = first + tile * 8 + lane % 4 * 2;
    const bool real = column < kOut;
    __half* target = rows + lane / 4 * stride + column;
    const __half2 zero = __float2half2_rn(0.0f);
    *reinterpret_cast<__half2*>(target) =
        real ? relu_nan(__floats2half2_rn(value[tile][0], value[tile][1])) : zero;
    *reinterpret_cast<__half2*>(target + 8 * stride) =
        real ? relu_nan(__floats2half2_rn(value[tile][2], value[tile][3])) : zero;
  }
}

__device__ __forceinline__ void store_pair(float* target, float a, float b) { *reinterpret_cast<float2*>(target) = make_float2(a, b); }
__device__ __forceinline__ void store_pair(__half* target, float a, float b) {
  *reinterpret_cast<__half2*>(target) = __floats2half2_rn(a, b);
}

constexpr int kPairs1 = (kFc1 + 15) / 16;   // 8 pairs of column tiles
constexpr int kPairs2 = (kFc2 + 15) / 16;   // 6
constexpr int kColumnWarps = 8;
constexpr int kRowWarps = kWarps / kColumnWarps;
static_assert(kWarps % kColumnWarps == 0 && kPairs1 <= kColumnWarps, "a warp owns a pair of column tiles");

}  // namespace lenet5

extern "C" __global__ void __launch_bounds__(lenet5::kThreads, CFG_BLOCKS)
    lenet5_tensor_core(const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
                       const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias,
                       const T* __restrict__ fc1_weight, const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight,
                       const T* __restrict__ fc2_bias, const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias,
                       int n, TY* __restrict__ y) {
  using namespace lenet5;
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  const int share = (n + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const long long first = static_cast<long long>(blockIdx.x) * share;
  const int count = static_cast<int>(first >= n ? 0 : n - first < share ? n - first : share);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  TX* staging = reinterpret_cast<TX*>(shared + kStagingOffset + warp * kStagingBytes);
  if (warp < count) fetch_image(staging, x + static_cast<long long>(warp) * kImagePixels, lane);

  // The linear layers' weights come last: bring them into L2 now, every block its share of the lines.
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
  for (int line = blockIdx.x + gridDim.x * thread; line < kFc1 * kFeatures / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(fc1_weight + line * kLine);
    if (line < kFc2 * kFc1 / kLine) prefetch_l2(fc2_weight + line * kLine);
    if (line < kClasses * kFc2 / kLine) prefetch_l2(fc3_weight + line * kLine);
  }

  for (int i = thread; i < 4 * kConv1FragmentQuads * kLanes; i += kThreads) {
    const int index = i / kLanes, of = i % kLanes;
    const float2 pair = conv1_fragment(conv1_weight, index, of);
    reinterpret_cast<unsigned*>(shared + kConv1Offset)[(index / 4 * kLanes + of) * 4 + index % 4] =
        bits(__floats2half2_rn(pair.x, pair.y));
  }
  for (int i = thread; i < 4 * kConv2FragmentQuads * kLanes; i += kThreads) {
    const int index = i / kLanes, of = i % kLanes;
    float2 pair = conv2_fragment(conv2_weight, index, of);
    // conv1_pool leaves 1 in the padding slots: conv2's bias is the weight of one of them, at one tap (ky 0, kx 2).
    if (index / 2 == kConv2Pairs / 2 && of % 4 * 2 + 1 == kBiasSlot) pair.y = to_float(conv2_bias[of / 4 + index % 2 * 8]);
    reinterpret_cast<unsigned*>(shared + kConv2Offset)[(index / 4 * kLanes + of) * 4 + index % 4] =
        bits(__floats2half2_rn(pair.x, pair.y));
  }
  const int channel = 3 * (lane >> 1 & 1);
  const __half2 bias01 = __floats2half2_rn(to_float(conv1_bias[channel]), to_float(conv1_bias[channel + 1]));
  const __half2 bias2 = __floats2half2_rn(to_float(conv1_bias[channel + 2]), 1.0f);
  __syncthreads();

  __half* windows = reinterpret_cast<__half*>(shared + kWarpOffset + warp * kWarpBytes);
  __half* map = windows + kWindowBytes / 2;
  __half* features = reinterpret_cast<__half*>(shared + kFeatureOffset);
  __half* hidden1 = reinterpret_cast<__half*>(shared + kHidden1Offset);
  __half* hidden2 = reinterpret_cast<__half*>(shared + kHidden2Offset);
  const WindowStore store = window_store(lane);
  const unsigned rows03 = window_rows03(lane), rows14 = window_rows14(lane);
  const unsigned columns0314 = map_columns0314(lane), columns25 = map_columns25(lane);
  const int column_warp = warp % kColumnWarps, row_warp = warp / kColumnWarps;

#pragma unroll 1
  for (int base = 0; base < count; base += kRound) {
    const int images = count - base < kRound ? count - base : kRound;
    {
      unsigned weight2[4 * kConv2FragmentQuads];
      load_fragments<kConv2FragmentQuads>(weight2, shared + kConv2Offset, lane);
#pragma unroll 1
      for (int image = warp; image < images; image += kWarps) {
        copy_async_wait();
        const bool finite = build_windows(windows, staging, store, lane);
        const int next = base + (image + kWarps < images ? image + kWarps : kRound + warp);
        if (next < count) fetch_image(staging, x + static_cast<long long>(next) * kImagePixels, lane);
        __syncwarp();
        if (finite) {
          unsigned weight1[4 * kConv1FragmentQuads];
          load_fragments<kConv1FragmentQuads>(weight1, shared + kConv1Offset, lane);
          conv1_pool(map, shared_address(windows), weight1, bias01, bias2, rows03, rows14, lane);
        } else {
          conv1_pool_exact(map, x + static_cast<long long>(base + image) * kImagePixels, conv1_weight, conv1_bias, lane);
        }
        __syncwarp();
        conv2_pool(features + image * kFeatureStride, shared_address(map), weight2, columns0314, columns25, lane);
      }
    }

    Linear<kFeatures, kFc1, 2> fc1;
    fc1.load(fc1_weight, fc1_bias, column_warp * 16, lane);
    __syncthreads();
    for (int row = row_warp * kRowsATile; row < images; row += kRowWarps * kRowsATile) {
      float value[2][4];
      fc1.multiply(value, features + row * kFeatureStride, kFeatureStride, lane);
      store_hidden<kFc1>(hidden1 + row * kHidden1Stride, kHidden1Stride, value, column_warp * 16, lane);
    }
    Linear<kFc1, kFc2, 2> fc2;
    fc2.load(fc2_weight, fc2_bias, column_warp * 16, lane);
    __syncthreads();
    if (column_warp < kPairs2) {
      for (int row = row_warp * kRowsATile; row < images; row += kRowWarps * kRowsATile) {
        float value[2][4];
        fc2.multiply(value, hidden1 + row * kHidden1Stride, kHidden1Stride, lane);
        store_hidden<kFc2>(hidden2 + row * kHidden2Stride, kHidden2Stride, value, column_warp * 16, lane);
      }
    }
    Linear<kFc2, kClasses, 2> fc3;
    fc3.load(fc3_weight, fc3_bias, 0, lane);
    __syncthreads();
    for (int row = warp * kRowsATile; row < images; row += kWarps * kRowsATile) {
      float value[2][4];
      fc3.multiply(value, hidden2 + row * kHidden2Stride, kHidden2Stride, lane);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int image = row + lane / 4 + 8 * half;
        if (image >= images) continue;
        TY* logits = y + static_cast<long long>(base + image) * kClasses;
        store_pair(logits + lane % 4 * 2, value[0][2 * half], value[0][2 * half + 1]);
        if (lane % 4 == 0) store_pair(logits + 8, value[1][2 * half], value[1][2 * half + 1]);
      }
    }
    __syncthreads();  // hidden layers and features are free again
  }
}

// The convolutions of lenet5_tensor_core, a warp an image, in fp16.
#pragma once

#include "lenet5/lenet5.cuh"
#include "lenet5/tensor_core.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;
static_assert(sizeof(T) == 2, "weights are fp16");

namespace lenet5 {

__device__ __forceinline__ void store_fragment(unsigned char* shared, int index, int lane, float2 pair) {
  reinterpret_cast<unsigned*>(shared)[(index / 4 * kLanes + lane) * 4 + index % 4] = bits(__floats2half2_rn(pair.x, pair.y));
}

// An image as it came -> its fp16 windows in the same place. Returns whether all pixels are finite in fp16, to every lane.
__device__ __forceinline__ bool build_windows(__half* windows, const TX* image, const WindowStore& store, int lane) {
  uint2 quads[kFetchSteps];
  __half2 most = __float2half2_rn(0.0f);
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 pixels = load_quad(image + step * kFetchPixels + min(lane, kFetchLanes - 1) * kQuad);
    const __half2 a = __floats2half2_rn(pixels.x, pixels.y), b = __floats2half2_rn(pixels.z, pixels.w);
    most = __hmax2_nan(most, __hmax2_nan(__habs2(a), __habs2(b)));
    quads[step] = make_uint2(bits(a), bits(b));
  }
  constexpr unsigned kExponentLow = 0x7c00u, kExponentHigh = 0x7c000000u;
  const unsigned m = bits(most);
  const bool infinite = (m & kExponentLow) == kExponentLow || (m & kExponentHigh) == kExponentHigh;
  const bool finite = !__any_sync(kAllLanes, infinite);
  __syncwarp();  // every lane has read what the windows overwrite
  if (store.in_even) {
#pragma unroll
    for (int step = 0; step < kFetchSteps; ++step) {
      *reinterpret_cast<uint2*>(windows + store.even + step * kWindowStepUnits * kUnitHalves) = quads[step];
    }
  }
  if (store.in_odd) {
#pragma unroll
    for (int step = 0; step < kFetchSteps; ++step) {
      *reinterpret_cast<uint2*>(windows + store.odd + step * kWindowStepUnits * kUnitHalves) = quads[step];
    }
  }
  return finite;
}

__device__ __forceinline__ void store_pooled(__half* target, const float (&acc)[2][kConv1Tiles][4]) {
#pragma unroll
  for (int parity = 0; parity < 2; ++parity) {
    float value[kConv1Tiles];
#pragma unroll
    for (int j = 0; j < kConv1Tiles; ++j) {
      value[j] = relu_max4(acc[0][j][2 * parity], acc[0][j][2 * parity + 1], acc[1][j][2 * parity], acc[1][j][2 * parity + 1]);
    }
    *reinterpret_cast<uint2*>(target + parity * kUnitHalves) =
        make_uint2(bits(__floats2half2_rn(value[0], value[1])), bits(__floats2half2_rn(value[2], 1.0f)));
  }
}

__device__ __forceinline__ void conv1_pool(__half* map, unsigned windows, const unsigned* weight, const float4 (&bias)[kConv1Tiles],
                                           unsigned rows03, unsigned rows14, int lane) {
  const int row = lane / 4, pixel = lane & 1, channels = lane >> 1 & 1;
  __half* target = map + (pixel * kMapParity + 2 * row) * kUnitHalves + channels * kQuad;
#pragma unroll
  for (int group = 0; group < kConv1Groups; ++group) {
    unsigned x[3][4];
    float acc[2][kConv1Tiles][4];
    load_windows(x, windows, rows03, rows14, group);
    conv1_product<true>(acc, x, weight, bias);
    if (group * 8 + row < kConv1Rows) store_pooled(target + group * 16 * kUnitHalves, acc);
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
  unsigned above[kConv2Groups][2];  // what tap 2 takes from the row before
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
        const unsigned *w = weight + 8 * ky, *w2 = weight + kConv2Pairs + 2 * ky;
        if (ky == kFilterSide - 1) {
          conv2_product(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], w, w2);
          continue;
        }
        conv2_product<false>(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], w, w2);
        if (ky % 2 == 1) {  // tap 2 has half of a product's terms: two rows of filters share one
          mma_16x8x16<__half>(acc[group][dy][0], w2[-2], w2[-1], w2[0], w2[1], above[group][0], c25[2 * group]);
          mma_16x8x16<__half>(acc[group][dy][1], w2[-2], w2[-1], w2[0], w2[1], above[group][1], c[group][1]);
        }
      }
      above[group][0] = c25[2 * group];
      above[group][1] = c[group][1];
    }
  }
  __half2 pooled[2][kConv2Groups];  // channels lane / 4 and lane / 4 + 8
#pragma unroll
  for (int group = 0; group < kConv2Groups; ++group) {
    float most[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) most[i] = relu_max4(acc[group][0][0][i], acc[group][0][1][i], acc[group][1][0][i], acc[group][1][1][i]);
    pooled[0][group] = __floats2half2_rn(most[0], most[1]);
    pooled[1][group] = __floats2half2_rn(most[2], most[3]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int feature = (lane / 4 + 8 * half) * kPool2Pixels + lane % 4 * 2;
    *reinterpret_cast<uint2*>(features + chunk_position(feature)) = make_uint2(bits(pooled[half][0]), bits(pooled[half][1]));
  }
}

}  // namespace lenet5

// lenet5_split: all of LeNet-5 in one launch, float32 in and out, computed by tensor cores to float32 accuracy.
#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/tensor_core.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;
static_assert(sizeof(TX) == 4 && sizeof(T) == 4 && sizeof(TY) == 4, "everything is float32");

namespace lenet5 {

constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = 2 * kRowsATile;  // images whose features wait in shared memory for the linear layers
constexpr int kParts = 2;               // high and low

// ---- scales ------------------------------------------------------------------------------------------------------------

constexpr float kWeightScale = 256.0f;
constexpr int kTopExponent = 14;                     // scaled values stay below 2^14, well inside fp16
constexpr unsigned kSmallestBits = (127u - 80u) << 23;  // 2^-80 and 2^50: between them no scale and no bound leaves float
constexpr unsigned kLargestBits = (127u + 50u) << 23;
constexpr float kLargestBound = 1.15292150e18f;      // 2^60
constexpr int kSmallestExponent = -100;
constexpr unsigned kSmallStep = 14u << 23;           // see one_scale
constexpr unsigned kFewSmall = 64;

__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// e such that value < 2^e; value >= 0 and finite.
__device__ __forceinline__ int exponent_above(float value) {
  return max((__float_as_int(value) >> 23) - 126, kSmallestExponent);
}

struct Split {
  unsigned high, low;
};
__device__ __forceinline__ Split split(float a, float b) {
  const __half2 high = __floats2half2_rn(a, b);
  const float2 rounded = __half22float2(high);
  return {bits(high), bits(__floats2half2_rn(a - rounded.x, b - rounded.y))};
}

// ---- shared memory -----------------------------------------------------------------------------------------------------

constexpr int kFeatureStride = kFeatures + kUnitHalves;  // halves; an odd number of units, so that eight rows share no bank
constexpr int kHidden1Stride = 128 + 16;                 // floats; rows half of the banks apart
constexpr int kHidden2Stride = 96 + 16;

constexpr int kConv1Part = kConv1FragmentQuads * kLanes * 16;
constexpr int kConv2Part = kConv2FragmentQuads * kLanes * 16;
constexpr int kFeaturePart = kRound * kFeatureStride * 2;

constexpr int kConv1Offset = 0;
constexpr int kConv2Offset = kConv1Offset + kParts * kConv1Part;
constexpr int kBias1 = kConv2Offset + kParts * kConv2Part;
constexpr int kBias2 = kBias1 + kConv1Channels * 4;
constexpr int kBiasFc1 = kBias2 + kConv2Channels * 4;
constexpr int kBiasFc2 = kBiasFc1 + kFc1 * 4;
constexpr int kBiasFc3 = kBiasFc2 + kFc2 * 4;
constexpr int kSumOffset = kBiasFc3 + kClasses * 4;       // of |conv1 weights|, of every channel
constexpr int kScaleOffset = kSumOffset + kConv1Channels * 4;            // of every image's fc1
constexpr int kExactOffset = kScaleOffset + kRound * 4;   // whether an image is to be done again without tensor cores
constexpr int kFeatureOffset = (kExactOffset + kRound * 4 + 15) / 16 * 16;
constexpr int kImageOffset = kFeatureOffset + kParts * kFeaturePart;
constexpr int kImageBytes = kParts * kWindowBytes;
constexpr int kMapOffset = kImageOffset + kWarps * kImageBytes;
constexpr int kWarpMapBytes = kParts * kMapBytes;
constexpr int kSharedBytes = kMapOffset + kWarps * kWarpMapBytes;
constexpr int kHidden1Offset = kMapOffset;                // the linear layers reuse the maps
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride * 4;
static_assert(kImageBytes >= kImagePixels * 4, "an image is fetched to where its windows will be");
static_assert(kHidden2Offset + kRound * kHidden2Stride * 4 <= kSharedBytes, "hidden layers fit");
#ifdef SHOW
template <int kN> struct Show; Show<kSharedBytes> show;
#endif

// The order of a product's k is free as long as both operands agree. Weights come 16 bytes a load: a thread takes 8 neighbouring
// k of every 32. So activations are stored with k = 8 t + 2 i of a chunk of 32 at 8 i + 2 t, where ldmatrix hands them to thread t.
constexpr int kChunk = 32;
__device__ __forceinline__ int chunk_position(int k) { return k / kChunk * kChunk + k % 8 / 2 * 8 + k % kChunk / 8 * 2; }

// ---- convolutions, a warp an image -------------------------------------------------------------------------------------

__device__ __forceinline__ void store_fragment(unsigned char* shared, int part_bytes, int index, int lane, float2 pair) {
  const Split weights = split(pair.x * kWeightScale, pair.y * kWeightScale);
  const int word = (index / 4 * kLanes + lane) * 4 + index % 4;
  reinterpret_cast<unsigned*>(shared)[word] = weights.high;
  reinterpret_cast<unsigned*>(shared + part_bytes)[word] = weights.low;
}

template <int kQuads>
__device__ __forceinline__ void load_fragments(unsigned* w, unsigned source, int lane) {
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[4 * quad]), "=r"(w[4 * quad + 1]), "=r"(w[4 * quad + 2]), "=r"(w[4 * quad + 3])
                 : "r"(source + (quad * kLanes + lane) * 16)
                 : "memory");
  }
}

struct Pixels {
  float4 quads[kFetchSteps];
  unsigned most;   // bits of the largest |pixel|, NaN above infinity; the same in every lane
  unsigned least;  // twice the bits of the smallest |pixel| that is not zero, less one
};

__device__ __forceinline__ void load_pixels(Pixels& pixels, const float* image, int lane) {
  float most = 0.0f;
  unsigned least = 0xffffffffu;
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 quad = load_quad(image + step * kFetchPixels + min(lane, kFetchLanes - 1) * kQuad);
    pixels.quads[step] = quad;
    most = max_nan(max_nan(max_nan(most, fabsf(quad.x)), max_nan(fabsf(quad.y), fabsf(quad.z))), fabsf(quad.w));
    least = min(min(least, 2 * __float_as_uint(quad.x) - 1), 2 * __float_as_uint(quad.y) - 1);
    least = min(min(least, 2 * __float_as_uint(quad.z) - 1), 2 * __float_as_uint(quad.w) - 1);
  }
  pixels.most = __reduce_max_sync(kFullWarp, __float_as_uint(most));
  pixels.least = __reduce_min_sync(kFullWarp, least);
}

// Whether one scale serves all pixels: two fp16 parts hold a pixel to 2^-39 of the largest. That is not enough for pixels below
// 2^-14 of it where the large ones end in a negative sum, which ReLU drops. A few such pixels (noise around zero) do no harm.
__device__ __forceinline__ bool one_scale(const Pixels& pixels) {
  if (pixels.most == 0) return true;
  if (pixels.most < kSmallestBits || pixels.most > kLargestBits) return false;
  const unsigned small = 2 * (pixels.most - kSmallStep);
  if (pixels.least >= small) return true;
  unsigned few = 0, nonzero = 0;
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 quad = pixels.quads[step];
    const float four[kQuad] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const unsigned magnitude = 2 * __float_as_uint(four[i]);
      nonzero += magnitude != 0;
      few += magnitude - 1 < small;
    }
  }
  return __reduce_add_sync(kFullWarp, few) * kFewSmall <= __reduce_add_sync(kFullWarp, nonzero);
}

__device__ __forceinline__ void build_windows(__half* windows, const Pixels& pixels, float scale, const WindowStore& store) {
#pragma unroll
  for (int step = 0; step < kFetchSteps; ++step) {
    const float4 quad = pixels.quads[step];
    const Split a = split(quad.x * scale, quad.y * scale), b = split(quad.z * scale, quad.w * scale);
    const int offset = step * kWindowStepUnits * kUnitHalves;
    if (store.in_even) {
      *reinterpret_cast<uint2*>(windows + store.even + offset) = make_uint2(a.high, b.high);
      *reinterpret_cast<uint2*>(windows + store.even + offset + kWindowBytes / 2) = make_uint2(a.low, b.low);
    }
    if (store.in_odd) {
      *reinterpret_cast<uint2*>(windows + store.odd + offset) = make_uint2(a.high, b.high);
      *reinterpret_cast<uint2*>(windows + store.odd + offset + kWindowBytes / 2) = make_uint2(a.low, b.low);
    }
  }
}

// map = ReLU(pooled sum * scale + bias), all of it already times the scale of the map.
__device__ __forceinline__ void conv1_pool(__half* map, unsigned windows, unsigned weights, float scale,
                                           const float (&bias)[kConv1Tiles], unsigned rows03, unsigned rows14, int lane) {
  unsigned w[kParts][4 * kConv1FragmentQuads];
  load_fragments<kConv1FragmentQuads>(w[0], weights, lane);
  load_fragments<kConv1FragmentQuads>(w[1], weights + kConv1Part, lane);
  const int row = lane / 4, pixel = lane & 1, channels = lane >> 1 & 1;
  __half* target = map + (pixel * kMapParity + 2 * row) * kUnitHalves + channels * kQuad;
#pragma unroll 1
  for (int group = 0; group < kConv1Groups; ++group) {
    float acc[2][kConv1Tiles][4] = {};
#pragma unroll
    for (int part = kParts - 1; part >= 0; --part) {
      unsigned x[3][4];
      const unsigned shift = group * 8 * kUnitBytes + part * kWindowBytes;
      load_matrices(x[0], windows + rows03 + shift);
      load_matrices(x[1], windows + rows14 + shift);
      load_matrices(x[2], windows + rows03 + shift + kWindowsARow * kUnitBytes);
      if (part == 0) conv1_product(acc, x, w[1]);
      conv1_product(acc, x, w[0]);
    }
    if (group * 8 + row < kConv1Rows) {
#pragma unroll
      for (int parity = 0; parity < 2; ++parity) {
        float value[kConv1Tiles];
#pragma unroll
        for (int j = 0; j < kConv1Tiles; ++j) {
          const float most = max4(acc[0][j][2 * parity], acc[0][j][2 * parity + 1], acc[1][j][2 * parity], acc[1][j][2 * parity + 1]);
          value[j] = fmaxf(fmaf(most, scale, bias[j]), 0.0f);
        }
        const Split c01 = split(value[0], value[1]), c2 = split(value[2], 0.0f);
        uint2* unit = reinterpret_cast<uint2*>(target + (group * 16 + parity) * kUnitHalves);
        unit[0] = make_uint2(c01.high, c2.high);
        unit[kMapBytes / 8] = make_uint2(c01.low, c2.low);
      }
    }
  }
}

struct FilterRow {
  unsigned pairs[8], single[2];

  __device__ __forceinline__ void load(unsigned weights, int ky, int lane) {
    load_fragments<2>(pairs, weights + ky * 2 * kLanes * 16, lane);
    const int index = kConv2Pairs + 2 * ky;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(single[0]), "=r"(single[1])
                 : "r"(weights + ((index / 4 * kLanes + lane) * 4 + index % 4) * 4)
                 : "memory");
  }
};

// value[half][group][2]: ReLU(pooled sum * scale + bias) of channel lane / 4 + 8 half, outputs 8 group + lane % 4 * 2 and the next.
__device__ __forceinline__ void conv2_pool(float (&value)[2][kConv2Groups][2], unsigned map, unsigned weights, float scale,
                                           const float (&bias)[2], unsigned columns0314, unsigned columns25, int lane) {
  float acc[kConv2Groups][2][2][4] = {};
  FilterRow w[2][kParts];  // of even and odd ky
#pragma unroll
  for (int row = 0; row < kMapRows; ++row) {
    if (row < kFilterSide) {
      w[row % 2][0].load(weights, row, lane);
      w[row % 2][1].load(weights + kConv2Part, row, lane);
    }
#pragma unroll
    for (int part = kParts - 1; part >= 0; --part) {
      unsigned c[kConv2Groups][4], c25[4];
      const unsigned shift = row * kMapRow * kUnitBytes + part * kMapBytes;
      load_matrices(c[0], map + columns0314 + shift);
      load_matrices(c[1], map + columns0314 + shift + kMapGroup * kUnitBytes);
      load_matrices(c25, map + columns25 + shift);
#pragma unroll
      for (int dy = 0; dy < kPool; ++dy) {
        const int ky = row - dy;
        if (ky < 0 || ky >= kFilterSide) continue;
        const FilterRow(&filters)[kParts] = w[ky % 2];
#pragma unroll
        for (int other = 0; other < kParts - part; ++other) {  // the product of the two low parts is too small to matter
#pragma unroll
          for (int group = 0; group < kConv2Groups; ++group) {
            conv2_product(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], filters[other].pairs, filters[other].single);
          }
        }
      }
    }
  }
#pragma unroll
  for (int group = 0; group < kConv2Groups; ++group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float most = max4(acc[group][0][0][i], acc[group][0][1][i], acc[group][1][0][i], acc[group][1][1][i]);
      value[i / 2][group][i % 2] = fmaxf(fmaf(most, scale, bias[i / 2]), 0.0f);
    }
  }
}

// Features to fp16 parts; returns what a sum over features and scaled weights is to be multiplied with.
__device__ __forceinline__ float store_features(__half* features, const float (&value)[2][kConv2Groups][2], int lane) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) most = fmaxf(most, value[i / 4][i / 2 % 2][i % 2]);
  most = __uint_as_float(__reduce_max_sync(kFullWarp, __float_as_uint(most)));
  const int exponent = kTopExponent - exponent_above(most);
  const float scale = power_of_two(exponent);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Split a = split(value[half][0][0] * scale, value[half][0][1] * scale);
    const Split b = split(value[half][1][0] * scale, value[half][1][1] * scale);
    const int feature = (lane / 4 + 8 * half) * kPool2Pixels + lane % 4 * 2;
    __half* target = features + chunk_position(feature);
    *reinterpret_cast<uint2*>(target) = make_uint2(a.high, b.high);
    *reinterpret_cast<uint2*>(target + kFeaturePart / 2) = make_uint2(a.low, b.low);
  }
  return power_of_two(-exponent) / kWeightScale;
}

// ---- fc1, the block, 16 images a row tile, a warp eight outputs ---------------------------------------------------------

__device__ __forceinline__ float4 load_global(const float* source) {
  float4 v;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(source));
  return v;
}

struct Fc1 {
  static constexpr int kChunks = kFeatures / kChunk;
  Split w[kChunks][4];

  __device__ __forceinline__ void load(const float* weight, int first, int lane) {
    const float* source = weight + (first + lane / 4) * kFeatures + lane % 4 * 8;
    float4 raw[kChunks][2];
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      raw[chunk][0] = load_global(source + chunk * kChunk);
      raw[chunk][1] = load_global(source + chunk * kChunk + 4);
    }
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float4 v = raw[chunk][i];
        w[chunk][2 * i] = split(v.x * kWeightScale, v.y * kWeightScale);
        w[chunk][2 * i + 1] = split(v.z * kWeightScale, v.w * kWeightScale);
      }
    }
  }

  // out: rows lane / 4 and lane / 4 + 8 of the tile, columns lane % 4 * 2 and the next.
  __device__ __forceinline__ void multiply(float (&out)[4], const __half* rows, int lane) const {
    float acc[3][4] = {};
    const unsigned source = shared_address(rows + (lane & 15) * kFeatureStride + (lane >> 4) * kUnitHalves);
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        unsigned high[4], low[4];
        load_matrices(high, source + chunk * kChunk * 2 + i * 2 * kUnitBytes);
        load_matrices(low, source + chunk * kChunk * 2 + i * 2 * kUnitBytes + kFeaturePart);
        const Split &a = w[chunk][2 * i], &b = w[chunk][2 * i + 1];
        mma16(acc[0], high[0], high[1], high[2], high[3], a.high, b.high);
        mma16(acc[1], high[0], high[1], high[2], high[3], a.low, b.low);
        mma16(acc[2], low[0], low[1], low[2], low[3], a.high, b.high);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = acc[0][i] + (acc[1][i] + acc[2][i]);
  }
};

// ---- fc2 and fc3: tf32, whose exponents are float's, each operand in two parts -------------------------------------------
// A thread takes 4 neighbouring k of every 16: two products of k = 8.

constexpr int kStep = 16;

__device__ __forceinline__ void mma_tf32(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

constexpr unsigned kTf32Mask = 0xffffe000u;
__device__ __forceinline__ unsigned high_tf32(float value) { return __float_as_uint(value) & kTf32Mask; }
__device__ __forceinline__ unsigned low_tf32(float value) {
  return __float_as_uint(value - __uint_as_float(high_tf32(value))) & kTf32Mask;
}

// Eight outputs of a layer of weights [kOut, kIn]. Outputs beyond the last repeat it; inputs beyond the last have weight zero.
template <int kIn, int kOut>
struct Linear {
  static constexpr int kSteps = (kIn + kStep - 1) / kStep;
  float4 w[kSteps];

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

  __device__ __forceinline__ void multiply(float (&out)[4], const float* rows, int stride, int lane) const {
    float acc[3][4] = {};
    const float* source = rows + lane / 4 * stride + lane % 4 * 4;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const float4 upper = *reinterpret_cast<const float4*>(source + step * kStep);
      const float4 lower = *reinterpret_cast<const float4*>(source + step * kStep + 8 * stride);
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
        mma_tf32(acc[0], high, high_tf32(b[0]), high_tf32(b[1]));
        mma_tf32(acc[1], high, low_tf32(b[0]), low_tf32(b[1]));
        mma_tf32(acc[2], low, high_tf32(b[0]), high_tf32(b[1]));
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = acc[0][i] + (acc[1][i] + acc[2][i]);
  }
};

// ReLU of value * scale + bias for two neighbouring columns of two rows; columns beyond the last are zero.
template <int kOut>
__device__ __forceinline__ void store_hidden(float* rows, int stride, const float (&value)[4], const float* bias,
                                             const float (&scale)[2], int first, int lane) {
  const int column = first + lane % 4 * 2;
  const bool real = column < kOut;
  const float2 add = real ? *reinterpret_cast<const float2*>(bias + column) : make_float2(0.0f, 0.0f);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float a = relu_nan(fmaf(value[2 * half], scale[half], add.x)), b = relu_nan(fmaf(value[2 * half + 1], scale[half], add.y));
    *reinterpret_cast<float2*>(rows + (lane / 4 + 8 * half) * stride + column) = real ? make_float2(a, b) : make_float2(0.0f, 0.0f);
  }
}

// ---- any image at all, by one warp, without tensor cores -----------------------------------------------------------------

struct Weights {
  const float *conv1, *conv1_bias, *conv2, *conv2_bias, *fc1, *fc1_bias, *fc2, *fc2_bias, *fc3, *fc3_bias;
};

template <int kChannels, int kSide, int kOutputs, bool kGlobalSource>
__device__ __forceinline__ void conv_pool_exact(float* out, const float* in, const float* weight, const float* bias, int lane) {
  constexpr int kOutSide = (kSide - kFilterSide + 1) / kPool;
#pragma unroll 1
  for (int i = lane; i < kOutputs * kOutSide * kOutSide; i += kLanes) {
    const int output = i / (kOutSide * kOutSide), y = i / kOutSide % kOutSide, x = i % kOutSide;
    float sum[kPool][kPool] = {};
#pragma unroll 1
    for (int channel = 0; channel < kChannels; ++channel) {
      const float* window = in + (channel * kSide + kPool * y) * kSide + kPool * x;
      const float* filter = weight + (output * kChannels + channel) * kFilterTaps;
#pragma unroll 1
      for (int tap = 0; tap < kFilterTaps; ++tap) {
        const float* corner = window + tap / kFilterSide * kSide + tap % kFilterSide;
        sum[0][0] = fmaf(corner[0], filter[tap], sum[0][0]);
        sum[0][1] = fmaf(corner[1], filter[tap], sum[0][1]);
        sum[1][0] = fmaf(corner[kSide], filter[tap], sum[1][0]);
        sum[1][1] = fmaf(corner[kSide + 1], filter[tap], sum[1][1]);
      }
    }
    out[i] = relu_nan(max4(sum[0][0], sum[0][1], sum[1][0], sum[1][1]) + bias[output]);
  }
  __syncwarp();
}

template <int kIn, int kOut, bool kRelu>
__device__ __forceinline__ void linear_exact(float* out, const float* in, const float* weight, const float* bias, int lane) {
#pragma unroll 1
  for (int i = lane; i < kOut; i += kLanes) {
    float sum = 0.0f;
#pragma unroll 4
    for (int k = 0; k < kIn; ++k) sum = fmaf(in[k], weight[i * kIn + k], sum);
    sum += bias[i];
    out[i] = kRelu ? relu_nan(sum) : sum;
  }
  __syncwarp();
}

__device__ __noinline__ void image_exact(float* y, const float* image, const Weights& weights, float* scratch, int lane) {
  float* pooled1 = scratch;
  float* pooled2 = pooled1 + kConv1Channels * kPool1Pixels;
  float* hidden1 = pooled1;  // pooled1 is done with by then
  float* hidden2 = hidden1 + kFc1;
  static_assert((kConv1Channels * kPool1Pixels + kFeatures) * 4 <= kWarpMapBytes, "scratch is a warp's map");
  conv_pool_exact<1, kImageSide, kConv1Channels, true>(pooled1, image, weights.conv1, weights.conv1_bias, lane);
  conv_pool_exact<kConv1Channels, kPool1Side, kConv2Channels, false>(pooled2, pooled1, weights.conv2, weights.conv2_bias, lane);
  linear_exact<kFeatures, kFc1, true>(hidden1, pooled2, weights.fc1, weights.fc1_bias, lane);
  linear_exact<kFc1, kFc2, true>(hidden2, hidden1, weights.fc2, weights.fc2_bias, lane);
  linear_exact<kFc2, kClasses, false>(y, hidden2, weights.fc3, weights.fc3_bias, lane);
}

}  // namespace lenet5

extern "C" __global__ void __launch_bounds__(lenet5::kThreads, 1)
    lenet5_split(const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
                 const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,
                 const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,
                 const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, TY* __restrict__ y) {
  using namespace lenet5;
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes;
  const int share = (n + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const long long first = static_cast<long long>(blockIdx.x) * share;
  const int count = static_cast<int>(first >= n ? 0 : n - first < share ? n - first : share);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  __half* windows = reinterpret_cast<__half*>(shared + kImageOffset + warp * kImageBytes);
  __half* map = reinterpret_cast<__half*>(shared + kMapOffset + warp * kWarpMapBytes);
  float* image_in = reinterpret_cast<float*>(windows);
  float* raw2 = reinterpret_cast<float*>(shared + kMapOffset);  // the raw weights lie where the maps will be
  float* raw1 = raw2 + kConv2Channels * kConv2Taps;
  copy_block<16, kThreads>(reinterpret_cast<unsigned char*>(raw2), conv2_weight, kConv2Channels * kConv2Taps * 4, thread);
  copy_block<4, kThreads>(reinterpret_cast<unsigned char*>(raw1), conv1_weight, kConv1Channels * kFilterTaps * 4, thread);
  copy_block<4, kThreads>(shared + kBias1, conv1_bias, kConv1Channels * 4, thread);
  copy_block<4, kThreads>(shared + kBias2, conv2_bias, kConv2Channels * 4, thread);
  copy_async_commit();
  if (warp < count) fetch_image(image_in, x + static_cast<long long>(warp) * kImagePixels, lane);
  copy_block<4, kThreads>(shared + kBiasFc1, fc1_bias, kFc1 * 4, thread);
  copy_block<4, kThreads>(shared + kBiasFc2, fc2_bias, kFc2 * 4, thread);
  copy_block<4, kThreads>(shared + kBiasFc3, fc3_bias, kClasses * 4, thread);
  copy_async_commit();
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
  for (int line = blockIdx.x + gridDim.x * thread; line < kFc1 * kFeatures / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(fc1_weight + line * kLine);
    if (line < kFc2 * kFc1 / kLine) prefetch_l2(fc2_weight + line * kLine);
    if (line < kClasses * kFc2 / kLine) prefetch_l2(fc3_weight + line * kLine);
  }

  copy_async_wait<1>();
  __syncthreads();
  float* sums = reinterpret_cast<float*>(shared + kSumOffset);
  if (warp == kWarps - 1 && lane < kConv1Channels) {
    float sum = 0.0f;
#pragma unroll
    for (int tap = 0; tap < kFilterTaps; ++tap) sum += fabsf(raw1[lane * kFilterTaps + tap]);
    sums[lane] = sum;
  }
  for (int index = warp; index < kConv1Fragments; index += kWarps) {
    store_fragment(shared + kConv1Offset, kConv1Part, index, lane, conv1_fragment(raw1, index, lane));
  }
  for (int index = warp; index < kConv2Fragments; index += kWarps) {
    store_fragment(shared + kConv2Offset, kConv2Part, index, lane, conv2_fragment(raw2, index, lane));
  }
  __syncthreads();

  __half* features = reinterpret_cast<__half*>(shared + kFeatureOffset);
  float* scales = reinterpret_cast<float*>(shared + kScaleOffset);
  int* exact = reinterpret_cast<int*>(shared + kExactOffset);
  float* hidden1 = reinterpret_cast<float*>(shared + kHidden1Offset);
  float* hidden2 = reinterpret_cast<float*>(shared + kHidden2Offset);
  const float channel_sum = sums[lane % kConv1Channels];
  const float channel_bias = reinterpret_cast<const float*>(shared + kBias1)[lane % kConv1Channels];
  const WindowStore store = window_store(lane);
  const unsigned rows03 = window_rows03(lane), rows14 = window_rows14(lane);
  const unsigned columns0314 = map_columns0314(lane), columns25 = map_columns25(lane);
  const unsigned weights1 = shared_address(shared + kConv1Offset), weights2 = shared_address(shared + kConv2Offset);

#pragma unroll 1
  for (int base = 0; base < count; base += kRound) {
    const int images = min(count - base, kRound);
#pragma unroll 1
    for (int image = warp; image < images; image += kWarps) {
      const int next = base + (image + kWarps < images ? image + kWarps : kRound + warp);
      const float* next_image = x + static_cast<long long>(next) * kImagePixels;
      if (next < count) prefetch_image(next_image, lane);
      copy_async_wait<0>();
      Pixels pixels;
      load_pixels(pixels, image_in, lane);
      // Every channel of the map lies in [0, bound1], so its scale follows from the largest pixel alone.
      const float channel_bound = relu_nan(fmaf(__uint_as_float(pixels.most), channel_sum, channel_bias));
      const float bound1 = __uint_as_float(__reduce_max_sync(kFullWarp, __float_as_uint(channel_bound)));
      const bool fits = one_scale(pixels) && bound1 <= kLargestBound;
      const int exponent0 = kTopExponent - exponent_above(__uint_as_float(pixels.most));
      const int exponent1 = kTopExponent - 1 - exponent_above(bound1);
      __syncwarp();  // every lane has read what the windows overwrite
      if (fits) {
        build_windows(windows, pixels, power_of_two(exponent0), store);
        __syncwarp();
        const float map_scale = power_of_two(exponent1);
        const float* bias1 = reinterpret_cast<const float*>(shared + kBias1) + 3 * (lane >> 1 & 1);
        const float bias[kConv1Tiles] = {bias1[0] * map_scale, bias1[1] * map_scale, bias1[2] * map_scale};
        conv1_pool(map, shared_address(windows), weights1, power_of_two(max(exponent1 - exponent0, kSmallestExponent)) / kWeightScale, bias, rows03, rows14,
                   lane);
      }
      __syncwarp();
      if (next < count) fetch_image(image_in, next_image, lane);
      copy_async_commit();
      float scale = __int_as_float(0x7fc00000);  // NaN: the logits will say that this image needs the exact path
      if (fits) {
        const float* bias2 = reinterpret_cast<const float*>(shared + kBias2) + lane / 4;
        const float bias[2] = {bias2[0], bias2[8]};
        float value[2][kConv2Groups][2];
        conv2_pool(value, shared_address(map), weights2, power_of_two(-exponent1) / kWeightScale, bias, columns0314, columns25, lane);
        scale = store_features(features + image * kFeatureStride, value, lane);
      }
      if (lane == 0) scales[image] = scale;
    }
    copy_async_wait<0>();

    const int tiles = (images + kRowsATile - 1) / kRowsATile;
    Fc1 fc1 = {};
    if (warp < kFc1 / 8) fc1.load(fc1_weight, warp * 8, lane);
    Linear<kFc1, kFc2> fc2;
    fc2.load(fc2_weight, warp * 8, lane);
    __syncthreads();
    for (int tile = 0; tile < tiles; ++tile) {
      float value[4] = {};
      const int row = tile * kRowsATile;
      if (warp < kFc1 / 8) fc1.multiply(value, features + row * kFeatureStride, lane);
      const float scale[2] = {scales[row + lane / 4], scales[row + lane / 4 + 8]};
      store_hidden<kFc1>(hidden1 + row * kHidden1Stride, kHidden1Stride, value, reinterpret_cast<const float*>(shared + kBiasFc1),
                         scale, warp * 8, lane);
    }
    constexpr int kTiles2 = 12;  // 96 columns, of which fc3 multiplies the last twelve by zero
    const float one[2] = {1.0f, 1.0f};
    __syncthreads();
    for (int tile = 0; tile < tiles && warp < kTiles2; ++tile) {
      float value[4];
      const int row = tile * kRowsATile;
      fc2.multiply(value, hidden1 + row * kHidden1Stride, kHidden1Stride, lane);
      store_hidden<kFc2>(hidden2 + row * kHidden2Stride, kHidden2Stride, value, reinterpret_cast<const float*>(shared + kBiasFc2), one,
                         warp * 8, lane);
    }
    const int column_tile = warp % 2;
    Linear<kFc2, kClasses> fc3;
    fc3.load(fc3_weight, column_tile * 8, lane);
    if (thread < kRound) exact[thread] = 0;
    __syncthreads();
    bool finite = true;
    if (warp < 2 * tiles) {
      const int row = warp / 2 * kRowsATile, column = column_tile * 8 + lane % 4 * 2;
      float value[4];
      fc3.multiply(value, hidden2 + row * kHidden2Stride, kHidden2Stride, lane);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int image = row + lane / 4 + 8 * half;
        if (image >= images || column >= kClasses) continue;
        const float* bias = reinterpret_cast<const float*>(shared + kBiasFc3) + column;
        const float2 logits = make_float2(value[2 * half] + bias[0], value[2 * half + 1] + bias[1]);
        *reinterpret_cast<float2*>(y + static_cast<long long>(base + image) * kClasses + column) = logits;
        if (!(fabsf(logits.x) <= 3.4e38f && fabsf(logits.y) <= 3.4e38f)) {
          finite = false;
          exact[image] = 1;
        }
      }
    }
    if (__syncthreads_or(!finite)) {
      const Weights weights = {conv1_weight, conv1_bias, conv2_weight, conv2_bias, fc1_weight,
                               fc1_bias,     fc2_weight, fc2_bias,     fc3_weight, fc3_bias};
#pragma unroll 1
      for (int image = warp; image < images; image += kWarps) {
        if (!exact[image]) continue;
        const long long which = base + image;
        image_exact(y + which * kClasses, x + which * kImagePixels, weights, reinterpret_cast<float*>(map), lane);
      }
      __syncthreads();
    }
  }
}

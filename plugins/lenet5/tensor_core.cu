// lenet5_tensor_core: all of LeNet-5 in one launch, fp16 operands, fp32 accumulation; for batches of a hundred images and more.
//
//   x [n, 1, 28, 28] TX, ten weights T (plain torch layouts) -> y [n, 10] TY; see lenet5.cuh for the layers.
#include "common.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/tensor_core.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;
static_assert(sizeof(T) == 2, "weights are fp16");

namespace lenet5 {

#ifndef CFG_W2IN
#define CFG_W2IN 0
#endif
#ifndef CFG_GSEQ
#define CFG_GSEQ 0
#endif
#ifndef CFG_SEP
#define CFG_SEP 0
#endif
#ifndef CFG_U1
#define CFG_U1 5
#endif
#ifndef CFG_WARPS
#define CFG_WARPS 8
#define CFG_TILES 3
#define CFG_BLOCKS 2
#endif
constexpr int kU1 = CFG_U1;
constexpr bool kW2In = CFG_W2IN, kGSeq = CFG_GSEQ;
constexpr int kWarps = CFG_WARPS;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = CFG_TILES * kRowsATile;  // images whose features wait in shared memory for the linear layers

// ---- shared memory -----------------------------------------------------------------------------------------------------

constexpr int kFeatureStride = kFeatures + kUnitHalves;  // halves; an odd number of units, so that eight rows share no bank
constexpr int kHidden1Stride = 128 + kUnitHalves;
constexpr int kHidden2Stride = 96 + kUnitHalves;

constexpr int kConv1Offset = 0;
constexpr int kConv2Offset = kConv1Offset + kConv1FragmentQuads * kLanes * 16;
constexpr int kFc2Offset = kConv2Offset + kConv2FragmentQuads * kLanes * 16;
constexpr int kFc3Offset = kFc2Offset + kFc2 * kFc1 * 2;
constexpr int kBias1 = kFc3Offset + kClasses * kFc2 * 2;
constexpr int kBias2 = kBias1 + kConv1Channels * 2;
constexpr int kBiasFc1 = kBias2 + kConv2Channels * 2;
constexpr int kBiasFc2 = kBiasFc1 + kFc1 * 2;
constexpr int kBiasFc3 = kBiasFc2 + kFc2 * 2;
constexpr int kFeatureOffset = (kBiasFc3 + kClasses * 2 + 15) / 16 * 16;
constexpr int kImageOffset = kFeatureOffset + kRound * kFeatureStride * 2;
constexpr int kStagingBytes = kImagePixels * static_cast<int>(sizeof(TX));  // the image as it comes, then its windows
constexpr int kImageBytes = kStagingBytes > kWindowBytes ? kStagingBytes : kWindowBytes;
constexpr bool kSeparate = CFG_SEP;
constexpr int kStagingOffset = kImageOffset + kWarps * kImageBytes;
constexpr int kMapOffset = kStagingOffset + (kSeparate ? kWarps * kStagingBytes : 0);
constexpr int kHidden1Offset = kMapOffset;  // the linear layers reuse the maps
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride * 2;
constexpr int kHiddenEnd = kHidden2Offset + kRound * kHidden2Stride * 2;
constexpr int kMapEnd = kMapOffset + kWarps * kMapBytes;
constexpr int kSharedBytes = kHiddenEnd > kMapEnd ? kHiddenEnd : kMapEnd;
#ifdef SHOW
template <int kN> struct Show; Show<kSharedBytes> show;
#endif

// The order of a product's k is free as long as both operands agree. Weights come 16 bytes a load: a thread takes 8 neighbouring
// k of every 32. So activations are stored with k = 8 t + 2 i of a chunk of 32 at 8 i + 2 t, where ldmatrix hands them to thread t.
constexpr int kChunk = 32;
__device__ __forceinline__ int chunk_position(int k) { return k / kChunk * kChunk + k % 8 / 2 * 8 + k % kChunk / 8 * 2; }

// ---- convolutions, a warp an image -------------------------------------------------------------------------------------

__device__ __forceinline__ void store_fragment(unsigned char* shared, int index, int lane, float2 pair) {
  reinterpret_cast<unsigned*>(shared)[(index / 4 * kLanes + lane) * 4 + index % 4] = bits(__floats2half2_rn(pair.x, pair.y));
}

// `volatile`: hoisted out of the loop over rounds, conv2's weights would take the linear layers' registers.
template <int kQuads>
__device__ __forceinline__ void load_fragments(unsigned (&w)[4 * kQuads], const unsigned char* shared, int lane) {
  const unsigned source = shared_address(shared) + lane * 16;
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[4 * quad]), "=r"(w[4 * quad + 1]), "=r"(w[4 * quad + 2]), "=r"(w[4 * quad + 3])
                 : "r"(source + quad * kLanes * 16)
                 : "memory");
  }
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
  const bool finite = !__any_sync(kFullWarp, infinite);
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

__device__ __forceinline__ void conv1_pool(__half* map, unsigned windows, const unsigned* weight, __half2 bias01, __half2 bias2,
                                           unsigned rows03, unsigned rows14, int lane) {
  const int row = lane / 4, pixel = lane & 1, channels = lane >> 1 & 1;
  __half* target = map + (pixel * kMapParity + 2 * row) * kUnitHalves + channels * kQuad;
  const __half2 one = __float2half2_rn(1.0f);
#pragma unroll (kU1)
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
  if constexpr (kGSeq) {
#pragma unroll
    for (int group = 0; group < kConv2Groups; ++group) {
#pragma unroll
      for (int row = 0; row < kMapRows; ++row) {
        unsigned c[4], c25[2];
        const unsigned shift = (row * kMapRow + group * kMapGroup) * kUnitBytes;
        load_matrices(c, map + columns0314 + shift);
        load_matrices(c25, map + columns25 + shift);
#pragma unroll
        for (int dy = 0; dy < kPool; ++dy) {
          const int ky = row - dy;
          if (ky < 0 || ky >= kFilterSide) continue;
          conv2_product(acc[group][dy], c, c25[0], c25[1], weight + 8 * ky, weight + kConv2Pairs + 2 * ky);
        }
      }
    }
  } else {
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
        conv2_product(acc[group][dy], c[group], c25[2 * group], c25[2 * group + 1], weight + 8 * ky, weight + kConv2Pairs + 2 * ky);
      }
    }
  }
  }
  __half2 pooled[2][kConv2Groups];  // channels lane / 4 and lane / 4 + 8
#pragma unroll
  for (int group = 0; group < kConv2Groups; ++group) {
    float most[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) most[i] = max4(acc[group][0][0][i], acc[group][0][1][i], acc[group][1][0][i], acc[group][1][1][i]);
    pooled[0][group] = relu_nan(__floats2half2_rn(most[0], most[1]));
    pooled[1][group] = relu_nan(__floats2half2_rn(most[2], most[3]));
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int feature = (lane / 4 + 8 * half) * kPool2Pixels + lane % 4 * 2;
    *reinterpret_cast<uint2*>(features + chunk_position(feature)) = make_uint2(bits(pooled[half][0]), bits(pooled[half][1]));
  }
}

// ---- linear layers, the block, 16 images a row tile --------------------------------------------------------------------

enum class Source { kGlobal, kShared };

// `volatile` keeps the loads where they are: hoisted out of the loop over rounds they would not fit into registers.
template <Source kSource>
__device__ __forceinline__ uint4 load_weights(const T* source) {
  uint4 v;
  if constexpr (kSource == Source::kGlobal) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(source));
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
  static constexpr int kChunks = (kIn + kChunk - 1) / kChunk;
  uint4 w[kTiles][kChunks];
  float2 bias[kTiles];

  __device__ __forceinline__ void load(const T* weight, const T* bias_source, int first, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int out = min(first + tile * 8 + lane / 4, kOut - 1);
#pragma unroll
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        const int k = chunk * kChunk + lane % 4 * 8;
        const bool whole = (chunk + 1) * kChunk <= kIn;
        w[tile][chunk] = load_weights<kSource>(weight + out * kIn + (whole ? k : min(k, kIn - 8)));
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
        mma16(out[tile], a[0][0], a[0][1], a[0][2], a[0][3], w[tile][chunk].x, w[tile][chunk].y);
        mma16(odd[tile], a[1][0], a[1][1], a[1][2], a[1][3], w[tile][chunk].z, w[tile][chunk].w);
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

constexpr int kPairs1 = (kFc1 + 15) / 16;   // 8 pairs of column tiles
constexpr int kPairs2 = (kFc2 + 15) / 16;   // 6
constexpr int kColumnWarps = 8;
constexpr int kRowWarps = kWarps / kColumnWarps;
static_assert(kPairs1 <= kColumnWarps, "a warp owns a pair of column tiles");

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

  __half* windows = reinterpret_cast<__half*>(shared + kImageOffset + warp * kImageBytes);
  __half* map = reinterpret_cast<__half*>(shared + kMapOffset + warp * kMapBytes);
  TX* staging = reinterpret_cast<TX*>(kSeparate ? shared + kStagingOffset + warp * kStagingBytes
                                                : shared + kImageOffset + warp * kImageBytes);

  // Everything needed early is asked for at once: first what the fragments are made of (the raw weights lie where the maps will
  // be), then the image and the last layers. fc1's weights go to L2, every block its share of the lines.
  T* raw2 = reinterpret_cast<T*>(shared + kMapOffset);
  T* raw1 = raw2 + kConv2Channels * kConv2Taps;
  copy_block<16, kThreads>(reinterpret_cast<unsigned char*>(raw2), conv2_weight, kConv2Channels * kConv2Taps * 2, thread);
  copy_block<4, kThreads>(reinterpret_cast<unsigned char*>(raw1), conv1_weight, kConv1Channels * kFilterTaps * 2, thread);
  copy_block<4, kThreads>(shared + kBias1, conv1_bias, kConv1Channels * 2, thread);
  copy_block<4, kThreads>(shared + kBias2, conv2_bias, kConv2Channels * 2, thread);
  copy_async_commit();
  if (warp < count) fetch_image(staging, x + static_cast<long long>(warp) * kImagePixels, lane);
  copy_block<16, kThreads>(shared + kFc2Offset, fc2_weight, kFc2 * kFc1 * 2, thread);
  copy_block<16, kThreads>(shared + kFc3Offset, fc3_weight, kClasses * kFc2 * 2, thread);
  copy_block<4, kThreads>(shared + kBiasFc1, fc1_bias, kFc1 * 2, thread);
  copy_block<4, kThreads>(shared + kBiasFc2, fc2_bias, kFc2 * 2, thread);
  copy_block<4, kThreads>(shared + kBiasFc3, fc3_bias, kClasses * 2, thread);
  copy_async_commit();
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
  for (int line = blockIdx.x + gridDim.x * thread; line < kFc1 * kFeatures / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(fc1_weight + line * kLine);
  }

  copy_async_wait<1>();
  __syncthreads();
  const __half* bias1 = reinterpret_cast<const __half*>(shared + kBias1) + 3 * (lane >> 1 & 1);
  const __half2 bias1_01 = __halves2half2(bias1[0], bias1[1]);
  const __half2 bias1_2 = __halves2half2(bias1[2], __float2half_rn(1.0f));
  for (int index = warp; index < kConv1Fragments; index += kWarps) {
    store_fragment(shared + kConv1Offset, index, lane, conv1_fragment(raw1, index, lane));
  }
  for (int index = warp; index < kConv2Fragments; index += kWarps) {
    float2 pair = conv2_fragment(raw2, index, lane);
    // conv1_pool leaves 1 in the padding slots: conv2's bias is the weight of one of them, at one tap (ky 0, kx 2).
    if (index / 2 == kConv2Pairs / 2 && lane % 4 * 2 + 1 == kBiasSlot) {
      pair.y = __half2float(reinterpret_cast<const __half*>(shared + kBias2)[lane / 4 + index % 2 * 8]);
    }
    store_fragment(shared + kConv2Offset, index, lane, pair);
  }
  __syncthreads();

  __half* features = reinterpret_cast<__half*>(shared + kFeatureOffset);
  __half* hidden1 = reinterpret_cast<__half*>(shared + kHidden1Offset);
  __half* hidden2 = reinterpret_cast<__half*>(shared + kHidden2Offset);
  const WindowStore store = window_store(lane);
  const unsigned rows03 = window_rows03(lane), rows14 = window_rows14(lane);
  const unsigned columns0314 = map_columns0314(lane), columns25 = map_columns25(lane);
  const int column_warp = warp % kColumnWarps, row_warp = kRowWarps - 1 - warp / kColumnWarps;  // < 0: no part in them

#pragma unroll 1
  for (int base = 0; base < count; base += kRound) {
    const int images = count - base < kRound ? count - base : kRound;
    if (warp < images) {
      unsigned weight2[4 * kConv2FragmentQuads];
      if (!kW2In) load_fragments<kConv2FragmentQuads>(weight2, shared + kConv2Offset, lane);
#pragma unroll 1
      for (int image = warp; image < images; image += kWarps) {
        const int next = base + (image + kWarps < images ? image + kWarps : kRound + warp);
        const TX* next_image = x + static_cast<long long>(next) * kImagePixels;
        if (!kSeparate && next < count) prefetch_image(next_image, lane);
        copy_async_wait<0>();
        const bool finite = build_windows(windows, staging, store, lane);
        if (kSeparate && next < count) fetch_image(staging, next_image, lane);
        copy_async_commit();
        __syncwarp();
        if (finite) {
          unsigned weight1[4 * kConv1FragmentQuads];
          load_fragments<kConv1FragmentQuads>(weight1, shared + kConv1Offset, lane);
          conv1_pool(map, shared_address(windows), weight1, bias1_01, bias1_2, rows03, rows14, lane);
        } else {
          conv1_pool_exact(map, x + static_cast<long long>(base + image) * kImagePixels, conv1_weight, conv1_bias, lane);
        }
        __syncwarp();
        if (!kSeparate && next < count) fetch_image(staging, next_image, lane);
        copy_async_commit();
        if (kW2In) load_fragments<kConv2FragmentQuads>(weight2, shared + kConv2Offset, lane);
        conv2_pool(features + image * kFeatureStride, shared_address(map), weight2, columns0314, columns25, lane);
      }
    } else {
      copy_async_wait<0>();
    }

    Linear<kFeatures, kFc1, 2, Source::kGlobal> fc1;
    if (row_warp >= 0 && row_warp * kRowsATile < images) {
      fc1.load(fc1_weight, reinterpret_cast<const T*>(shared + kBiasFc1), column_warp * 16, lane);
    } else {
      fc1 = {};  // left undefined on one path, these registers would be taken through the whole loop
    }
    __syncthreads();
    for (int row = row_warp * kRowsATile; row_warp >= 0 && row < images; row += kRowWarps * kRowsATile) {
      float value[2][4];
      fc1.multiply(value, features + row * kFeatureStride, kFeatureStride, lane);
      store_hidden<kFc1>(hidden1 + row * kHidden1Stride, kHidden1Stride, value, column_warp * 16, lane);
    }
    __syncthreads();
    Linear<kFc1, kFc2, 2, Source::kShared> fc2;
    if (column_warp < kPairs2 && row_warp >= 0 && row_warp * kRowsATile < images) {
      fc2.load(reinterpret_cast<const T*>(shared + kFc2Offset), reinterpret_cast<const T*>(shared + kBiasFc2), column_warp * 16, lane);
      for (int row = row_warp * kRowsATile; row < images; row += kRowWarps * kRowsATile) {
        float value[2][4];
        fc2.multiply(value, hidden1 + row * kHidden1Stride, kHidden1Stride, lane);
        store_hidden<kFc2>(hidden2 + row * kHidden2Stride, kHidden2Stride, value, column_warp * 16, lane);
      }
    }
    __syncthreads();
    Linear<kFc2, kClasses, 2, Source::kShared> fc3;
    fc3.load(reinterpret_cast<const T*>(shared + kFc3Offset), reinterpret_cast<const T*>(shared + kBiasFc3), 0, lane);
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

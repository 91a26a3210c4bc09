// LeNet-5 in one launch, fp16 operands and float sums, for batches of a hundred images and more: y = LeNet5(x), see lenet5.cuh.
//
// x [n, 1, 28, 28] TX (float or half), ten weights half as torch stores them -> y [n, 10] TY.
//
// Mapping. A block computes an equal share of the images, for any grid, in rounds of kRound images. A warp computes the convolutions of an
// image: pixels to fp16 windows, both convolutions as mma.sync from shared memory (tensor_core.cuh), bias, ReLU and pool in registers,
// features to shared memory. Then the block computes the linear layers: a row tile has 16 images, and a warp has two column tiles of 8
// outputs; fc1's weights go from L2 into registers once a round, the weights of fc2 and fc3 stay in shared memory.
// NaN and infinity: conv1's windows multiply pixels by zeros, so conv1_pool_exact computes conv1 of an image with a pixel that is not
// finite in fp16. All later layers multiply only by real weights or finite padding.
//
// Bytes: 3136 read (float) and 40 written per image, 88 KB of weights per block.
// What was tried and measured: docs/kernels/lenet5.md.

// tensor_core_99k.cu is this file with other values: eight warps and two blocks a multiprocessor.
#ifndef LENET5_ENTRY
#define LENET5_ENTRY lenet5_tensor_core
#define LENET5_WARPS 16
#define LENET5_TILES 5
#define LENET5_BLOCKS 1
#endif

#include "common.cuh"
#include "lenet5/half_convolutions.cuh"
#include "lenet5/images.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear_half.cuh"

namespace lenet5 {

constexpr int kWarps = LENET5_WARPS;
constexpr int kThreads = kWarps * kLanes;
constexpr int kRowsATile = 16;
constexpr int kRound = LENET5_TILES * kRowsATile;  // images whose features wait in shared memory for the linear layers

// ---- shared memory -----------------------------------------------------------------------------------------------------

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
constexpr int kBarrierOffset = (kBiasFc3 + kClasses * 2 + 15) / 16 * 16;
constexpr int kBias1Quads = kBarrierOffset + kWarps * 8;
constexpr int kFeatureOffset = kBias1Quads + kConv1Channels * 16;
static_assert(kWarps % 8 == 0, "warps build fragments and share column tiles in eights");
static_assert(kWarps % 2 == 0, "everything is 16-byte aligned");
constexpr int kImageOffset = kFeatureOffset + kRound * kFeatureStride * 2;
constexpr int kStagingBytes = kImagePixels * static_cast<int>(sizeof(TX));  // the image as it comes, then its windows
constexpr int kImageBytes = kStagingBytes > kWindowBytes ? kStagingBytes : kWindowBytes;
constexpr int kMapOffset = kImageOffset + kWarps * kImageBytes;
constexpr int kHidden1Offset = kMapOffset;  // the linear layers reuse the maps
constexpr int kHidden2Offset = kHidden1Offset + kRound * kHidden1Stride * 2;
constexpr int kHiddenEnd = kHidden2Offset + kRound * kHidden2Stride * 2;
constexpr int kMapEnd = kMapOffset + kWarps * kMapBytes;
constexpr int kSharedBytes = kHiddenEnd > kMapEnd ? kHiddenEnd : kMapEnd;
static_assert(kSharedBytes <= 227 * 1024, "what a block may have on the largest GPUs");
ASSERT_LAUNCH(LENET5_ENTRY, kThreads, kSharedBytes);

// ---- who does what in the linear layers ------------------------------------------------------------------------------------

constexpr int kPairs1 = ceil_div(kFc1, 16);  // 8 pairs of column tiles
constexpr int kPairs2 = ceil_div(kFc2, 16);  // 6
constexpr int kColumnWarps = 8;
constexpr int kRowWarps = kWarps / kColumnWarps;
constexpr int kRowWarps2 = kWarps / kPairs2;
static_assert(kPairs1 <= kColumnWarps, "a warp owns a pair of column tiles");

}  // namespace lenet5

extern "C" __global__ void __launch_bounds__(lenet5::kThreads, LENET5_BLOCKS)
    LENET5_ENTRY(const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
                       const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias,
                       const T* __restrict__ fc1_weight, const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight,
                       const T* __restrict__ fc2_bias, const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias,
                       int n, TY* __restrict__ y) {
  using namespace lenet5;
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = threadIdx.x, lane = thread % kLanes, warp = warp_of(thread);
  const auto [first, count] = images_of_block(n);
  if (count == 0) return;
  x += first * kImagePixels;
  y += first * kClasses;

  __half* windows = reinterpret_cast<__half*>(shared + kImageOffset + warp * kImageBytes);
  __half* map = reinterpret_cast<__half*>(shared + kMapOffset + warp * kMapBytes);
  ImageFetch<TX> fetch;
  fetch.init(reinterpret_cast<TX*>(windows), shared + kBarrierOffset + warp * 8, lane);

  // Everything needed early is asked for at once: first what is read before fc1's barrier (the raw weights lie where the maps will
  // be), then the image and the last layers. fc1's weights go to L2, every block its share of the lines.
  T* raw2 = reinterpret_cast<T*>(shared + kMapOffset);
  T* raw1 = raw2 + kConv2Channels * kConv2Taps;
  copy_block<16, kConv2Channels * kConv2Taps * 2, kThreads>(reinterpret_cast<unsigned char*>(raw2), conv2_weight, thread);
  copy_block<4, kConv1Channels * kFilterTaps * 2, kThreads>(reinterpret_cast<unsigned char*>(raw1), conv1_weight, thread);
  copy_block<4, kConv1Channels * 2, kThreads>(shared + kBias1, conv1_bias, thread);
  copy_block<4, kConv2Channels * 2, kThreads>(shared + kBias2, conv2_bias, thread);
  copy_block<4, kFc1 * 2, kThreads>(shared + kBiasFc1, fc1_bias, thread);
  copy_async_commit();
  if (warp < count) fetch.start(x + static_cast<long long>(warp) * kImagePixels, lane);
  copy_block<16, kFc2 * kFc1 * 2, kThreads>(shared + kFc2Offset, fc2_weight, thread);
  copy_block<16, kClasses * kFc2 * 2, kThreads>(shared + kFc3Offset, fc3_weight, thread);
  copy_block<4, kFc2 * 2, kThreads>(shared + kBiasFc2, fc2_bias, thread);
  copy_block<4, kClasses * 2, kThreads>(shared + kBiasFc3, fc3_bias, thread);
  copy_async_commit();
  constexpr int kLine = 128 / static_cast<int>(sizeof(T));
  for (int line = blockIdx.x + gridDim.x * thread; line < kFc1 * kFeatures / kLine; line += gridDim.x * kThreads) {
    prefetch_l2(fc1_weight + line * kLine);
  }

  copy_async_wait<1>();
  __syncthreads();
#pragma unroll
  for (int step = 0; step < kConv1Fragments; step += kWarps) {
    const int index = step + warp;
    if (index < kConv1Fragments) store_fragment(shared + kConv1Offset, index, lane, conv1_fragment(raw1, index, lane));
  }
#pragma unroll
  for (int step = 0; step < kFilterSide; step += kWarps / 8) {
    const int ky = step + warp / 8;
    if (ky < kFilterSide) {
      store_fragment(shared + kConv2Offset, ky * 8 + warp % 8, lane, conv2_fragment(raw2, ky, pair_kx(warp), warp % 2, lane));
    }
  }
#pragma unroll
  for (int step = 0; step < 2 * kFilterSide; step += kWarps) {
    const int index = step + warp;
    if (index >= 2 * kFilterSide) continue;
    float2 pair = conv2_fragment(raw2, index / 2, 2, index % 2, lane);
    // conv1_pool leaves 1 in the padding slots: conv2's bias is the weight of one of them, at one tap (ky 0, kx 2).
    if (index < 2 && lane % 4 * 2 + 1 == kBiasSlot) {
      pair.y = __half2float(reinterpret_cast<const __half*>(shared + kBias2)[lane / 4 + index * 8]);
    }
    store_fragment(shared + kConv2Offset, kConv2Pairs + index, lane, pair);
  }
  if (thread < kConv1Channels) {
    const float value = __half2float(reinterpret_cast<const __half*>(shared + kBias1)[thread]);
    reinterpret_cast<float4*>(shared + kBias1Quads)[thread] = make_float4(value, value, value, value);
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
#pragma unroll 1
    for (int image = warp; image < images; image += kWarps) {
      const int next = base + (image + kWarps < images ? image + kWarps : kRound + warp);
      const TX* next_image = x + static_cast<long long>(next) * kImagePixels;
      if (next < count) prefetch_image(next_image, lane);
      fetch.wait();
      const bool finite = build_windows(windows, fetch.buffer, store, lane);
      __syncwarp();
      if (finite) {
        unsigned weight1[4 * kConv1FragmentQuads];
        load_fragments<kConv1FragmentQuads>(weight1, shared_address(shared + kConv1Offset), lane);
        float4 bias1[kConv1Tiles];
        load_bias(bias1, shared_address(shared + kBias1Quads), lane);
        conv1_pool(map, shared_address(windows), weight1, bias1, rows03, rows14, lane);
      } else {
        conv1_pool_exact(map, x + static_cast<long long>(base + image) * kImagePixels, conv1_weight, conv1_bias, lane);
      }
      __syncwarp();
      if (next < count) fetch.start(next_image, lane);
      unsigned weight2[4 * kConv2FragmentQuads];
      load_fragments<kConv2FragmentQuads>(weight2, shared_address(shared + kConv2Offset), lane);
      conv2_pool(features + image * kFeatureStride, shared_address(map), weight2, columns0314, columns25, lane);
    }
    if (base == 0) copy_async_wait<0>();

    Linear<kFeatures, kFc1, 2, Source::kGlobal> fc1;
    if (row_warp >= 0 && row_warp * kRowsATile < images) {
      fc1.load(fc1_weight, reinterpret_cast<const T*>(shared + kBiasFc1), column_warp * 16, lane);
    } else {
      fc1 = {};  // left undefined on one path, these registers would be taken through the whole loop
    }
    __syncthreads();
#pragma unroll 1
    for (int row = row_warp * kRowsATile; row_warp >= 0 && row < images; row += kRowWarps * kRowsATile) {
      float value[2][4];
      fc1.multiply(value, features + row * kFeatureStride, kFeatureStride, lane);
      store_hidden<kFc1>(hidden1 + row * kHidden1Stride, kHidden1Stride, value, column_warp * 16, lane);
    }
    Linear<kFc1, kFc2, 2, Source::kShared> fc2;
    const int pair2 = warp % kPairs2, row2 = warp / kPairs2;
    const bool busy2 = row2 < kRowWarps2 && row2 * kRowsATile < images;
    if (busy2) {
      fc2.load(reinterpret_cast<const T*>(shared + kFc2Offset), reinterpret_cast<const T*>(shared + kBiasFc2), pair2 * 16, lane);
    } else {
      fc2 = {};
    }
    __syncthreads();
#pragma unroll 1
    for (int row = row2 * kRowsATile; busy2 && row < images; row += kRowWarps2 * kRowsATile) {
      float value[2][4];
      fc2.multiply(value, hidden1 + row * kHidden1Stride, kHidden1Stride, lane);
      store_hidden<kFc2>(hidden2 + row * kHidden2Stride, kHidden2Stride, value, pair2 * 16, lane);
    }
    Linear<kFc2, kClasses, 2, Source::kShared> fc3;
    if (warp * kRowsATile < images) {
      fc3.load(reinterpret_cast<const T*>(shared + kFc3Offset), reinterpret_cast<const T*>(shared + kBiasFc3), 0, lane);
    } else {
      fc3 = {};
    }
    __syncthreads();
#pragma unroll 1
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

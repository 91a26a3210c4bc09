// LeNet-5 in one launch, a thread-block cluster an image, for few images on sm_90 and newer: y = LeNet5(x), layers in lenet5.cuh.
//
// x [n, 1, 28, 28] TX, ten weights T as torch stores them -> y [n, 10] TY; arithmetic is float.
//
// Mapping. Every block first loads all weights that it needs into registers, then its patch of the image. Each of kBlocks blocks
// computes both convolutions for its 16 / kBlocks positions of the second pool, overlap included (convolutions.cuh), and pushes its
// features to all blocks with st.async, which counts its bytes on the receiver's mbarrier: no block waits for the slowest block.
// fc1 is split by outputs, fc2 by inputs; one block adds fc2's partial sums and computes fc3. With several images per cluster,
// image i ends in block i % kBlocks.
//
// Grid: kBlocks * n exactly; right for every n, fast while all clusters fit on the GPU at once.
//
// Bytes: x, the linear layers' weights once per cluster (164 KB in fp32), the convolutions' weights once per block (10 KB), from L2.
// What was measured: docs/kernels/lenet5.md.

#include "common.cuh"
#include "lenet5/cluster.cuh"
#include "lenet5/convolutions.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;

namespace lenet5 {

// ---- the network ---------------------------------------------------------------------------------------------------------

// kBlocks blocks a cluster, kImages images a cluster, kThreads threads a block, of which the first kConv1Threads do conv1 with
// kConv1Lanes lanes a warp and kConv1Each channels a thread. When they are not all, the others do conv2, and prepare for it during conv1.
// kSplits parts of conv2's input channels, kRows rows of conv2 that a thread makes.
template <int kBlocks, int kImages, int kThreads, int kConv1Threads, int kConv1Lanes, int kConv1Each, int kSplits, int kRows>
__device__ __forceinline__ void cluster_forward(const TX* __restrict__ x, const Weights<T>& weights, int n, TY* __restrict__ y) {
  using S = Share<kBlocks>;
  constexpr int kWarps = kThreads / 32;
  constexpr bool kApart = kConv1Threads < kThreads;               // conv2 has threads of its own
  constexpr int kConv2First = kApart ? kConv1Threads : 0;
  constexpr int kConv2Threads = kThreads - kConv2First;
  using Conv2 = Conv2Item<kBlocks, kImages, kSplits, kRows>;
  constexpr int kFeatureStride = kBlocks * S::kShareStride;
  constexpr int kPack = Sixteen<T>::kCount;
  constexpr int kRowsHere = kFc1 / kBlocks;                        // outputs of fc1 in this block
  constexpr int kRowsWarp = ceil_div(kRowsHere, kWarps);           // of them in a warp
  constexpr int kRowChunks = kFeatures / (32 * kPack);             // 16-byte loads a lane and row
  constexpr int kRowValues = power_of_two_from(kRowsWarp * kImages);
  constexpr int kPart = 15;                                        // inputs of fc2 in one partial sum
  constexpr int kParts = kFc1 / kPart;
  constexpr int kPartsHere = kParts / kBlocks;
  constexpr int kPartLanes = 16;
  constexpr int kFc2Step = kConv2Threads / kPartLanes;
  constexpr int kFc2Loads = ceil_div(kFc2, kFc2Step);
  constexpr int kFc2Lanes = ceil_div(kFc2, 32) * 32;
  constexpr int kShared = kImages * S::kFeatures;                  // features that this block computes
  constexpr int kPushCopies = kBlocks == 8 ? 4 : kBlocks == 4 ? 2 : 1;  // warps that push the same features, to other blocks
  constexpr int kPushThreads = (kShared < kThreads ? kShared : kThreads) * kPushCopies;
  constexpr int kPushSteps = kShared * kPushCopies / kPushThreads;
  constexpr int kPushBlocks = kBlocks / kPushCopies;
  constexpr int kTailImages = ceil_div(kImages, kBlocks);          // images whose fc3 this block computes
  constexpr int kLogitsWarp = 4;                                   // of the ten logits in a warp
  constexpr int kTailWarps = ceil_div(kClasses, kLogitsWarp);
  constexpr int kTailFirst = kWarps - kTailWarps;                  // the last warps, which have time to load fc3
  constexpr int kTailLoads = ceil_div(kFc2, 32);
  static_assert(kParts == 8 && kFc2Lanes * kPartsHere <= kThreads && kTailWarps <= kWarps, "threads a block");
  static_assert(kConv1Threads % 32 == 0 && kThreads % 32 == 0, "whole warps");
  static_assert(!kApart || (Conv2::kDepth == 1 && Conv2::kItems <= kConv2Threads), "conv2 prepares one item a thread");
  static_assert(kPushSteps * kPushThreads == kShared * kPushCopies && kPushThreads <= kConv2Threads, "features a thread");

  // conv2's partial sums reuse the memory of the image and of conv1's filters, which nobody reads by then.
  constexpr int kImageFloats = kImages * S::kImageRows * S::kImageStride;
  constexpr int kEarlyFloats = kImageFloats + kConv1Channels * kFilter1Stride;
  constexpr int kPartialFloats = kImages * kSplits * S::kConvRows * kConv2Channels * S::kConvCols;
  __shared__ alignas(16) float scratch[kEarlyFloats > kPartialFloats ? kEarlyFloats : kPartialFloats];
  __shared__ alignas(16) float filters2[kConv2Channels * kConv2Taps];
  __shared__ alignas(16) float patch[kImages * kConv1Channels * S::kPatch];
  __shared__ alignas(16) float features[kImages * kFeatureStride];  // [image][rank][share]
  __shared__ float fc2_part[kPartsHere * kFc2 * kPart];            // [part][output][input]
  __shared__ float hidden1[kImages * kRowsHere];
  __shared__ float sums2[kTailImages * kParts * kFc2];
  __shared__ alignas(8) unsigned long long barriers[2];
  float* const image = scratch;
  float* const filters1 = scratch + kImageFloats;
  float* const partial = scratch;

  const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const unsigned rank = blockIdx.x % kBlocks;
  const int first_image = blockIdx.x / kBlocks * kImages;

  const bool does_conv1 = thread < kConv1Threads, does_conv2 = !kApart || thread >= kConv2First;
  const unsigned thread2 = thread - kConv2First;                   // among the threads of conv2
  const bool pushes = thread >= kThreads - kPushThreads;
  const unsigned pusher = thread - (kThreads - kPushThreads);

  // What the convolutions need comes first. The rest is asked for when that has arrived, and has all of conv1 and conv2 to come.
  StageConv1<TX, T, kBlocks, kImages, kConv1Threads> stage1;
  StageConv2<T, kConv2Threads> stage2;
  if (does_conv1) stage1.load(x, weights.conv1, weights.conv1_bias, first_image, n, rank, thread);
  if (does_conv2) stage2.load(weights.conv2, thread2);

  const unsigned features_barrier = shared_address(&barriers[0]), sums_barrier = shared_address(&barriers[1]);
  if (thread == kThreads - 1) {
    const unsigned mine = rank < kImages ? (kImages - rank + kBlocks - 1) / kBlocks : 0;
    begin_barrier(features_barrier, kImages * kFeatures * sizeof(float));
    begin_barrier(sums_barrier, mine * kParts * kFc2 * sizeof(float));
  }
  __syncwarp();
  cluster_arrive_relaxed();

  if (does_conv1) {
    stage1.store(image, filters1, thread);
    block_wait<1>(kConv1Threads);
  }
  Conv2 conv2;
  if (kApart && does_conv2) {
    stage2.store(filters2, thread2);
    block_wait<2>(kConv2Threads);
    if (thread2 < Conv2::kItems) conv2.prepare(patch, filters2, partial, thread2);
  }

  if (kApart && does_conv1) {
    conv1_pool<kBlocks, kImages, kConv1Threads, kConv1Lanes, kConv1Each>(image, filters1, patch, thread);
  }

  Sixteen<T> row1[kRowsWarp][kRowChunks];
  const T* const rows1 = weights.fc1 + (rank * kRowsHere + warp * kRowsWarp) * kFeatures + lane * kPack;
#pragma unroll
  for (int i = 0; i < kRowsWarp; ++i) {
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk) {
      row1[i][chunk].clear();
      if (warp * kRowsWarp + i < kRowsHere) row1[i][chunk].load(rows1 + i * kFeatures + chunk * 32 * kPack);
    }
  }
  const unsigned value1 = lane / (32 / kRowValues);  // which of the sums of fc1 ends in this lane
  const unsigned row_here = warp * kRowsWarp + value1 / kImages;
  const bool owns_row = lane % (32 / kRowValues) == 0 && value1 < kRowsWarp * kImages && row_here < kRowsHere;
  T bias_fc1;
  if (owns_row) bias_fc1 = early(weights.fc1_bias + rank * kRowsHere + row_here);
  // fc2's columns of this block: 15 of 16 lanes a row and part.
  T element2[kFc2Loads][kPartsHere];
  const unsigned fc2_output = thread2 / kPartLanes, fc2_input = thread2 % kPartLanes;
  const T* const columns2 = weights.fc2 + fc2_output * kFc1 + rank * kRowsHere + fc2_input;
#pragma unroll
  for (int i = 0; i < kFc2Loads; ++i) {
#pragma unroll
    for (int part = 0; part < kPartsHere; ++part) {
      if (does_conv2 && fc2_input < kPart && fc2_output + i * kFc2Step < kFc2) {
        element2[i][part] = early(columns2 + i * kFc2Step * kFc1 + part * kPart);
      }
    }
  }
  // fc3, where the image ends: four logits a warp.
  const bool has_fc3 = rank < kImages && warp >= kTailFirst;
  const unsigned tail_warp = warp - kTailFirst;
  const unsigned logit_here = tail_warp * kLogitsWarp + lane / (32 / kLogitsWarp);  // ends in this lane
  const bool owns_logit = lane % (32 / kLogitsWarp) == 0 && logit_here < kClasses;
  T bias_fc2[kTailLoads], row3[kLogitsWarp][kTailLoads], bias_fc3;
  if (has_fc3) {
    const T* const rows3 = weights.fc3 + tail_warp * kLogitsWarp * kFc2 + lane;
#pragma unroll
    for (int i = 0; i < kTailLoads; ++i) {
      if (lane + 32 * i < kFc2) {
        bias_fc2[i] = early(weights.fc2_bias + lane + 32 * i);
#pragma unroll
        for (int j = 0; j < kLogitsWarp; ++j) {
          row3[j][i] = from_float<T>(0.0f);
          if (tail_warp * kLogitsWarp + j < kClasses) row3[j][i] = early(rows3 + j * kFc2 + 32 * i);
        }
      }
    }
    if (owns_logit) bias_fc3 = early(weights.fc3_bias + logit_here);
  }
  T bias2[kPushSteps];
  if (pushes) {
#pragma unroll
    for (int i = 0; i < kPushSteps; ++i) {
      const unsigned element = (pusher + i * kPushThreads) % S::kFeatures;
      bias2[i] = early(weights.conv2_bias + element / (S::kPoolRows * S::kPoolCols));
    }
  }

  if (!kApart) {
    conv1_pool<kBlocks, kImages, kConv1Threads, kConv1Lanes, kConv1Each>(image, filters1, patch, thread);
  }
  if (!kApart) stage2.store(filters2, thread);
#pragma unroll
  for (int i = 0; i < kFc2Loads; ++i) {
#pragma unroll
    for (int part = 0; part < kPartsHere; ++part) {
      if (does_conv2 && fc2_input < kPart && fc2_output + i * kFc2Step < kFc2) {
        fc2_part[(part * kFc2 + fc2_output + i * kFc2Step) * kPart + fc2_input] = to_float(element2[i][part]);
      }
    }
  }
  if (pushes) cluster_wait();
  __syncthreads();

  // Features to everybody.
  if (does_conv2) {
    if constexpr (kApart) {
      if (thread2 < Conv2::kItems) conv2.run();
    } else {
      conv2_partial<kBlocks, kImages, kThreads, kSplits, kRows>(patch, filters2, partial, thread);
    }
    block_wait<2>(kConv2Threads);
  }
  if (pushes) {
#pragma unroll
    for (int i = 0; i < kPushSteps; ++i) {
      const unsigned item = (pusher + i * kPushThreads) % kShared;
      const unsigned which = item / S::kFeatures, element = item % S::kFeatures;
      const unsigned first_block = kPushCopies > 1 ? pusher / kShared * kPushBlocks : 0;
      const float feature = pooled_feature<kBlocks, kSplits>(partial, to_float(bias2[i]), which, element);
      const unsigned target = shared_address(features + which * kFeatureStride + rank * S::kShareStride + element);
#pragma unroll
      for (int to = 0; to < kPushBlocks; ++to) {
        const unsigned block = first_block + to;
        send_remote(target, features_barrier, block, feature);
      }
    }
  }

  // fc2's weights of this thread: one output, the inputs of one part; images first2, first2 + step2, ...
  constexpr int kSlots = kThreads / kFc2Lanes;
  constexpr int kStep2 = kSlots / kPartsHere;
  const unsigned output2 = thread % kFc2Lanes, slot = thread / kFc2Lanes;
  const unsigned part2 = slot % kPartsHere, first2 = slot / kPartsHere;
  const bool has_fc2 = output2 < kFc2 && first2 < kStep2 && first2 < kImages;
  float weight2[kPart];
  if (has_fc2) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) weight2[i] = fc2_part[(part2 * kFc2 + output2) * kPart + i];
  }

  // fc1: a warp a row (or a few).
  wait_bytes(features_barrier);
  float sums1[kRowValues] = {};
#pragma unroll
  for (int chunk = 0; chunk < kRowChunks; ++chunk) {
#pragma unroll
    for (int quarter = 0; quarter < kPack; quarter += 4) {
      const unsigned line = ((chunk * 32 + lane) * kPack + quarter) / kPool2Side;  // four features: a row of the second pool
      const unsigned channel = line / kPool2Side, row = line % kPool2Side;
#pragma unroll
      for (int which = 0; which < kImages; ++which) {
        float4 quad;
        if constexpr (S::kPoolCols == kPool2Side) {
          quad = *reinterpret_cast<const float4*>(features + which * kFeatureStride + row / S::kPoolRows * S::kShareStride +
                                                  (channel * S::kPoolRows + row % S::kPoolRows) * kPool2Side);
        } else {
          const float* source = features + which * kFeatureStride + row * S::kColParts * S::kShareStride +
                                channel * S::kPoolCols;
          const float2 left = *reinterpret_cast<const float2*>(source);
          const float2 right = *reinterpret_cast<const float2*>(source + S::kShareStride);
          quad = make_float4(left.x, left.y, right.x, right.y);
        }
#pragma unroll
        for (int i = 0; i < kRowsWarp; ++i) {
          const float4 w = row1[i][chunk].value(quarter / 4);
          float& sum = sums1[i * kImages + which];
          sum = fmaf(quad.x, w.x, sum);
          sum = fmaf(quad.y, w.y, sum);
          sum = fmaf(quad.z, w.z, sum);
          sum = fmaf(quad.w, w.w, sum);
        }
      }
    }
  }
  const float total1 = transposed_sum(sums1, lane);
  if (owns_row) hidden1[value1 % kImages * kRowsHere + row_here] = relu_nan(total1 + to_float(bias_fc1));
  __syncthreads();

  // fc2: partial sums to the block that finishes the image.
#pragma unroll
  for (int i = 0; i < ceil_div(kImages, kStep2); ++i) {
    const unsigned which = first2 + i * kStep2;
    if (has_fc2 && which < kImages) {
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kPart; ++j) sum = fmaf(hidden1[which * kRowsHere + part2 * kPart + j], weight2[j], sum);
      const unsigned part = rank * kPartsHere + part2;
      const unsigned target = shared_address(sums2 + (which / kBlocks * kParts + part) * kFc2 + output2);
      send_remote(target, sums_barrier, which % kBlocks, sum);
    }
  }

  // fc3.
  if (!has_fc3) return;
  wait_bytes(sums_barrier);
#pragma unroll
  for (int tail = 0; tail < kTailImages; ++tail) {
    const unsigned which = tail * kBlocks + rank;
    float sums3[kLogitsWarp] = {};
#pragma unroll
    for (int i = 0; i < kTailLoads; ++i) {
      if (lane + 32 * i < kFc2) {
        const float* part = sums2 + tail * kParts * kFc2 + lane + 32 * i;
        const float low = (part[0] + part[kFc2]) + (part[2 * kFc2] + part[3 * kFc2]);
        const float high = (part[4 * kFc2] + part[5 * kFc2]) + (part[6 * kFc2] + part[7 * kFc2]);
        const float hidden2 = relu_nan(low + high + to_float(bias_fc2[i]));
#pragma unroll
        for (int j = 0; j < kLogitsWarp; ++j) sums3[j] = fmaf(hidden2, to_float(row3[j][i]), sums3[j]);
      }
    }
    const float logit = transposed_sum(sums3, lane);
    if (owns_logit && which < kImages && (kImages == 1 || first_image + which < n)) {
      y[static_cast<long long>(first_image + which) * kClasses + logit_here] =
          from_float<TY>(logit + to_float(bias_fc3));
    }
  }
}

}  // namespace lenet5

#define LENET5_CLUSTER(NAME, BLOCKS, IMAGES, THREADS, MIN_BLOCKS, CONV1_THREADS, CONV1_LANES, CONV1_EACH, SPLITS, ROWS) \
  ASSERT_LAUNCH(NAME, THREADS, 0);                                                                                      \
  extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, MIN_BLOCKS) NAME(                \
      const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,                   \
      const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,           \
      const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,                 \
      const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, TY* __restrict__ y) {                    \
    lenet5::cluster_forward<BLOCKS, IMAGES, THREADS, CONV1_THREADS, CONV1_LANES, CONV1_EACH, SPLITS, ROWS>(             \
        x,                                                                                                              \
        {conv1_weight, conv1_bias, conv2_weight, conv2_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias, fc3_weight,    \
         fc3_bias},                                                                                                     \
        n, y);                                                                                                          \
  }

// Blocks an image, images a cluster, threads, blocks a multiprocessor at least, threads and lanes and channels of conv1, splits and
// rows of conv2. The fewer images, the more blocks for each: 8n blocks must find room at once, and in their clusters' neighbourhood.
LENET5_CLUSTER(lenet5_cluster8, 8, 1, 512, 1, 128, 24, 3, 6, 2)
LENET5_CLUSTER(lenet5_cluster4, 4, 1, 512, 1, 224, 32, 2, 6, 1)
LENET5_CLUSTER(lenet5_cluster2, 2, 1, 512, 1, 192, 32, 3, 6, 2)

// LeNet-5 as a kernel that stays on the GPU, for sm_90 and newer: it takes images one by one from a ring in the host's memory and
// writes their logits there, until the host is silent for too long (ring.cuh). Layers in lenet5.cuh.
//
// requests [4][1, 28, 28] TX, ten weights T as torch stores them -> answers [4][16] TY, of which ten are logits; arithmetic is float.
//
// Mapping: cluster.cu's for one image, with eight blocks; but the weights are loaded once, into registers and shared memory. Of
// the first block 196 threads look at the bus together, each for four pixels, and push them to the blocks that need them. Where
// they give up, all blocks learn it with the features and end together, so that no barrier waits for a block that has gone.
//
// Bytes: 3136 from the host a look at the ring, 40 back a request.

#include "common.cuh"
#include "lenet5/cluster.cuh"
#include "lenet5/convolutions.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear.cuh"
#include "lenet5/ring.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;

namespace lenet5 {

constexpr int kBlocks = 8;
constexpr int kThreads = 512;
constexpr int kConv1Threads = 128;
constexpr int kConv1Lanes = 24;
constexpr int kConv1Each = 3;
constexpr int kSplits = 6;
constexpr int kRows = 2;
constexpr int kAnswerStride = 16;

using S = Share<kBlocks>;
using Conv2 = Conv2Item<kBlocks, 1, kSplits, kRows>;
constexpr int kWarps = kThreads / 32;
constexpr int kConv2Threads = kThreads - kConv1Threads;
constexpr int kPack = Sixteen<T>::kCount;
constexpr int kRowsHere = kFc1 / kBlocks;             // outputs of fc1 in this block, inputs of fc2: a warp an output
constexpr int kRowChunks = kFeatures / (32 * kPack);
constexpr int kPushCopies = 4;                        // warps that push the same features, each to kPushBlocks blocks
constexpr int kPushBlocks = kBlocks / kPushCopies;
constexpr int kPushThreads = S::kFeatures * kPushCopies;
constexpr int kRowQuads = kImageSide / 4;             // a taker's four pixels are one of these in a row of the image
constexpr int kTakers = kImageSide * kRowQuads;
constexpr int kLookThreads = ceil_div(kTakers, 32) * 32;
constexpr int kQuads = S::kImageCols / 4;             // of them in a row of a block's part
constexpr int kLogitsWarp = 4;
constexpr int kTailWarps = ceil_div(kClasses, kLogitsWarp);
constexpr int kTailFirst = kWarps - kTailWarps;
constexpr int kTailLoads = ceil_div(kFc2, 32);
constexpr unsigned kImageBytes = S::kImageRows * S::kImageCols * sizeof(float);
constexpr unsigned kFeatureBytes = (kFeatures + 1) * sizeof(float);  // and the first block's word on whether it gave up
constexpr unsigned kSumBytes = kBlocks * kFc2 * sizeof(float);
static_assert(kLookThreads <= kConv2Threads, "threads that have nothing to do until conv1 is done take the image");
static_assert(Conv2::kDepth == 1 && Conv2::kItems <= kConv2Threads, "a thread makes one item of conv2");
static_assert(kPushThreads <= kConv2Threads && kRowsHere <= kWarps && kRowsHere * kBlocks == kFc1, "threads a block");
static_assert(kFc2 <= kConv1Threads && kRowsHere <= kFilterTaps, "threads of conv1 hold fc2 in conv2's registers");

}  // namespace lenet5

ASSERT_LAUNCH(lenet5_resident, lenet5::kThreads, 0);

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(512, 1) lenet5_resident(
    const TX* requests, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,
    const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,
    const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,
    const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, const lenet5::Control* control, unsigned* ended,
    unsigned run, unsigned first, unsigned silent_us, unsigned life_us, TY* answers) {
  using namespace lenet5;
  __shared__ alignas(16) float image[S::kImageRows * S::kImageStride];
  __shared__ alignas(16) float filters1[kConv1Channels * kFilter1Stride];
  __shared__ alignas(16) float filters2[kConv2Channels * kConv2Taps];
  __shared__ alignas(16) float patch[kConv1Channels * S::kPatch];
  __shared__ alignas(16) float partial[kSplits * S::kConvRows * kConv2Channels * S::kConvCols];
  __shared__ alignas(16) float features[kBlocks * S::kShareStride];  // [rank][share]
  __shared__ float hidden1[kRowsHere];
  __shared__ float sums2[kBlocks * kFc2];
  __shared__ float gave_up, gave_up_here;
  __shared__ alignas(8) unsigned long long barriers[3];

  const unsigned thread = threadIdx.x, lane = thread % 32, warp = thread / 32, rank = blockIdx.x;
  const bool does_conv1 = thread < kConv1Threads;
  const unsigned thread2 = thread - kConv1Threads;  // among the threads of conv2
  const bool pushes = thread >= kThreads - kPushThreads;
  const unsigned pusher = thread - (kThreads - kPushThreads);
  const unsigned features_barrier = shared_address(&barriers[0]), sums_barrier = shared_address(&barriers[1]);
  const unsigned image_barrier = shared_address(&barriers[2]);

  // ---- once: barriers and weights ----
  if (thread == 0) {
    begin_barrier(image_barrier, kImageBytes);
    begin_barrier(features_barrier, kFeatureBytes);
    if (rank == 0) begin_barrier(sums_barrier, kSumBytes);
    gave_up_here = 0.0f;
  }
  for (unsigned i = thread; i < kConv1Channels * (kFilterTaps + 1); i += kThreads) {
    const unsigned channel = i / (kFilterTaps + 1), tap = i % (kFilterTaps + 1);
    const T weight = tap < kFilterTaps ? conv1_weight[channel * kFilterTaps + tap] : conv1_bias[channel];
    filters1[channel * kFilter1Stride + tap] = to_float(weight);
  }
  for (unsigned i = thread; i < kConv2Channels * kConv2Taps; i += kThreads) filters2[i] = to_float(conv2_weight[i]);
  Sixteen<T> row1[kRowChunks];
#pragma unroll
  for (int chunk = 0; chunk < kRowChunks; ++chunk) {
    row1[chunk].clear();
    if (warp < kRowsHere) row1[chunk].load(fc1_weight + (rank * kRowsHere + warp) * kFeatures + (chunk * 32 + lane) * kPack);
  }
  const bool owns_row = lane == 0 && warp < kRowsHere;
  const float bias_fc1 = owns_row ? to_float(fc1_bias[rank * kRowsHere + warp]) : 0.0f;
  const bool has_fc2 = thread < kFc2;
  const bool has_fc3 = rank == 0 && warp >= kTailFirst;
  const unsigned first_logit = (warp - kTailFirst) * kLogitsWarp;
  const unsigned logit_here = first_logit + lane / (32 / kLogitsWarp);
  const bool owns_logit = has_fc3 && lane % (32 / kLogitsWarp) == 0 && logit_here < kClasses;
  float bias_fc2[kTailLoads], row3[kLogitsWarp][kTailLoads];
#pragma unroll
  for (int i = 0; i < kTailLoads; ++i) {
    const bool inside = has_fc3 && lane + 32 * i < kFc2;
    bias_fc2[i] = inside ? to_float(fc2_bias[lane + 32 * i]) : 0.0f;
#pragma unroll
    for (int j = 0; j < kLogitsWarp; ++j) {
      row3[j][i] = inside && first_logit + j < kClasses ? to_float(fc3_weight[(first_logit + j) * kFc2 + lane + 32 * i]) : 0.0f;
    }
  }
  const float bias_fc3 = owns_logit ? to_float(fc3_bias[logit_here]) : 0.0f;
  const unsigned element = pusher % S::kFeatures, first_block = pusher / S::kFeatures * kPushBlocks;
  const float bias2 = pushes ? to_float(conv2_bias[element / (S::kPoolRows * S::kPoolCols)]) : 0.0f;
  __syncthreads();
  // The registers that hold a filter of conv2 in some threads hold a row of fc2 in others.
  Conv2 conv2;
  float(&weight2)[kFilterTaps] = conv2.filter;
  if (has_fc2) {
#pragma unroll
    for (int i = 0; i < kRowsHere; ++i) weight2[i] = to_float(fc2_weight[thread * kFc1 + rank * kRowsHere + i]);
  } else if (!does_conv1 && thread2 < Conv2::kItems) {
    conv2.prepare(patch, filters2, partial, thread2);
  }

  // The four pixels that this thread takes of a request.
  const bool looks = rank == 0 && !does_conv1 && thread2 < kLookThreads, takes = looks && thread2 < kTakers;
  const bool leads = looks && thread2 == 0;
  const unsigned image_row = thread2 / kRowQuads, quad = thread2 % kRowQuads;
  Watch watch;
  if (looks) watch.begin(control, silent_us, life_us);
  __syncwarp();
  cluster_arrive_relaxed();
  cluster_wait();  // the barriers of all blocks are there
  cluster_arrive_relaxed();

#pragma unroll 1
  for (unsigned number = first;; ++number) {
    const unsigned slot = number % kSlots, parity = (number - first) & 1;
    constexpr int kWords = sizeof(TX);  // four pixels
    unsigned word[kWords];
    const TX* const pixels_here = requests + slot * kImagePixels + 4 * thread2;
    if (looks && !take<3, kLookThreads>(word, pixels_here, number, takes, leads, watch)) gave_up_here = 1.0f;
    if (takes) {
      const TX* pixel = reinterpret_cast<const TX*>(word);
      const float4 value = make_float4(rounded<T>(to_float(pixel[0])), rounded<T>(to_float(pixel[1])),
                                       rounded<T>(to_float(pixel[2])), rounded<T>(to_float(pixel[3])));
#pragma unroll
      for (unsigned block = 0; block < kBlocks; ++block) {
        const unsigned row = image_row - S::image_row(block), column = quad - S::image_col(block) / 4;
        if (row < S::kImageRows && column < kQuads) {
          const unsigned target = shared_address(image + row * S::kImageStride + 4 * column);
          send_remote(target, image_barrier, block, value);
        }
      }
    }
    __syncwarp();
    if (does_conv1) {
      wait_bytes(image_barrier, parity);
      if (thread == 0) expect_bytes(image_barrier, kImageBytes);
      conv1_pool<kBlocks, 1, kConv1Threads, kConv1Lanes, kConv1Each>(image, filters1, patch, thread);
      __syncwarp();
    }
    __syncthreads();

    // Features to everybody, after all blocks have read those of the request before.
    if (!does_conv1) {
      if (thread2 < Conv2::kItems) conv2.run();
      block_wait<2>(kConv2Threads);
    }
    if (pushes) {
      const float feature = pooled_feature<kBlocks, kSplits>(partial, bias2, 0, element);
      const unsigned target = shared_address(features + rank * S::kShareStride + element);
      cluster_wait();
#pragma unroll
      for (int to = 0; to < kPushBlocks; ++to) {
        const unsigned block = first_block + to;
        send_remote(target, features_barrier, block, feature);
        if (rank == 0 && element == 0) send_remote(shared_address(&gave_up), features_barrier, block, gave_up_here);
      }
    }

    // fc1: a warp an output.
    wait_bytes(features_barrier, parity);
    __syncwarp();
    if (!pushes) cluster_wait();
    float sum1[1] = {0.0f};
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk) {
#pragma unroll
      for (int quarter = 0; quarter < kPack; quarter += 4) {
        const unsigned line = ((chunk * 32 + lane) * kPack + quarter) / kPool2Side;  // four features: a row of the second pool
        const unsigned channel = line / kPool2Side, row = line % kPool2Side;
        const float* source = features + row * S::kColParts * S::kShareStride + channel * S::kPoolCols;
        const float2 left = *reinterpret_cast<const float2*>(source);
        const float2 right = *reinterpret_cast<const float2*>(source + S::kShareStride);
        const float4 w = row1[chunk].value(quarter / 4);
        sum1[0] = fmaf(left.x, w.x, sum1[0]);
        sum1[0] = fmaf(left.y, w.y, sum1[0]);
        sum1[0] = fmaf(right.x, w.z, sum1[0]);
        sum1[0] = fmaf(right.y, w.w, sum1[0]);
      }
    }
    const float total1 = transposed_sum(sum1, lane);
    if (owns_row) hidden1[warp] = relu_nan(total1 + bias_fc1);
    const bool over = gave_up != 0.0f;  // the same in all blocks
    if (thread == 0) expect_bytes(features_barrier, kFeatureBytes);
    __syncthreads();
    if (over) break;
    cluster_arrive_relaxed();

    // fc2: partial sums to the first block, which computes fc3.
    if (has_fc2) {
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kRowsHere; ++i) sum = fmaf(hidden1[i], weight2[i], sum);
      send_remote(shared_address(sums2 + rank * kFc2 + thread), sums_barrier, 0, sum);
    }
    if (has_fc3) {
      wait_bytes(sums_barrier, parity);
      float sums3[kLogitsWarp] = {};
#pragma unroll
      for (int i = 0; i < kTailLoads; ++i) {
        if (lane + 32 * i < kFc2) {
          const float* part = sums2 + lane + 32 * i;
          const float low = (part[0] + part[kFc2]) + (part[2 * kFc2] + part[3 * kFc2]);
          const float high = (part[4 * kFc2] + part[5 * kFc2]) + (part[6 * kFc2] + part[7 * kFc2]);
          const float hidden2 = relu_nan(low + high + bias_fc2[i]);
#pragma unroll
          for (int j = 0; j < kLogitsWarp; ++j) sums3[j] = fmaf(hidden2, row3[j][i], sums3[j]);
        }
      }
      __syncwarp();
      const float logit = transposed_sum(sums3, lane);
      if (owns_logit) host_store(answers + slot * kAnswerStride + logit_here, from_float<TY>(logit + bias_fc3));
      if (thread == kTailFirst * 32) expect_bytes(sums_barrier, kSumBytes);
    }
    __syncwarp();
  }
  if (rank == 0 && thread == 0) {
    __threadfence_system();  // every answer is there before the word that no more will come
    *reinterpret_cast<volatile unsigned*>(ended) = run;
  }
}

// LeNet-5 in one launch, a thread-block cluster an image: the variants for few images (sm_90+).
//
//   y = fc3(relu(fc2(relu(fc1(flatten(pool(relu(conv2(pool(relu(conv1(T(x))))))))))))   x [n, 1, 28, 28] TX -> y [n, 10] TY
//
// Weights are plain torch tensors of type T, arithmetic is float. See lenet5.cuh for the shapes.
//
// Mapping. At n = 1 the time is a chain of latencies, so the chain is kept short and everything that can be loaded early is.
//   1. Every block starts its loads of all weights it will ever need (registers), then of its patch of the image.
//   2. Each of kBlocks blocks computes conv1 and conv2 for its own 16 / kBlocks positions of the second pool, recomputing the
//      overlap of conv1 (convolutions.cuh): two block barriers, no exchange.
//   3. It pushes its features to all blocks with st.async, which also counts the bytes on the receiver's mbarrier: the
//      receiver needs no cluster barrier, only its own mbarrier. The one cluster barrier of the kernel (everybody has started,
//      mbarriers are initialised) is arrived at in the beginning and waited for here.
//   4. fc1 is split by outputs (each block reads 1 / kBlocks of the weights, a warp a row), and fc2 by inputs: a block
//      multiplies the outputs of fc1 that it already holds and pushes 84 partial sums to one block.
//   5. That block adds them up, and computes fc3. With several images a cluster, image i ends in block i % kBlocks.
//
// Bytes: x, the weights once a cluster (fc1, fc2, fc3; 164 KB in fp32) and conv weights once a block (10 KB), mostly from L2.
#include "common.cuh"
#include "lenet5/convolutions.cuh"
#include "lenet5/lenet5.cuh"
#include "lenet5/linear.cuh"

using TX = TYPE_TX;
using T = TYPE_T;
using TY = TYPE_TY;

namespace lenet5 {

// ---- cluster and mbarrier, as PTX ------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ unsigned remote_address(unsigned local, unsigned rank) {
  unsigned remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(rank));
  return remote;
}

// Arms a barrier that completes once `bytes` bytes have arrived; the cluster barrier below publishes it.
__device__ __forceinline__ void expect_bytes(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_bytes(unsigned barrier) {
  asm volatile(
      "{\n\t"
      ".reg .pred done;\n\t"
      "again:\n\t"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n\t"
      "@!done bra again;\n\t"
      "}" ::"r"(barrier)
      : "memory");
}

__device__ __forceinline__ void push(unsigned remote, float value, unsigned remote_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(remote),
               "r"(__float_as_uint(value)), "r"(remote_barrier)
               : "memory");
}

// Relaxed: the fence in expect_bytes is all that it has to publish, and a release would wait for the loads in flight.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// ---- the network ---------------------------------------------------------------------------------------------------------

struct Weights {
  const T *conv1_weight, *conv1_bias, *conv2_weight, *conv2_bias;
  const T *fc1_weight, *fc1_bias, *fc2_weight, *fc2_bias, *fc3_weight, *fc3_bias;
};

// kBlocks blocks a cluster, kImages images a cluster, kThreads threads a block; conv1 channels a thread; parts that conv2's
// input channels are split into, and rows of conv2 that a thread makes.
template <int kBlocks, int kImages, int kThreads, int kConv1Each, int kSplits, int kRows>
__device__ __forceinline__ void cluster_forward(const TX* __restrict__ x, const Weights& weights, int n, TY* __restrict__ y) {
  using S = Share<kBlocks>;
  constexpr int kWarps = kThreads / 32;
  constexpr int kConv1Busy = (kImages * kConv1Channels / kConv1Each * S::kPatch + 31) / 32 * 32;
  constexpr int kStagers = kThreads - kConv1Busy >= 128 ? kThreads - kConv1Busy : kThreads;  // threads that stage conv weights
  constexpr int kPack = Pack16<T>::kCount;
  constexpr int kRowsHere = kFc1 / kBlocks;                        // outputs of fc1 in this block
  constexpr int kRowsWarp = (kRowsHere + kWarps - 1) / kWarps;     // of them in a warp
  constexpr int kRowChunks = kFeatures / (32 * kPack);             // 16-byte loads a lane and row
  constexpr int kRowValues = power_of_two_from(kRowsWarp * kImages);
  constexpr int kPart = 15;                                        // inputs of fc2 in one partial sum
  constexpr int kParts = kFc1 / kPart;
  constexpr int kPartsHere = kParts / kBlocks;
  constexpr int kPartLanes = 16;
  constexpr int kFc2Step = kThreads / kPartLanes;
  constexpr int kFc2Loads = (kFc2 + kFc2Step - 1) / kFc2Step;
  constexpr int kFc2Lanes = (kFc2 + 31) / 32 * 32;
  constexpr int kFeatureSteps = (kImages * S::kFeatures + kThreads - 1) / kThreads;
  constexpr int kTailImages = (kImages + kBlocks - 1) / kBlocks;   // images whose fc3 this block computes
  constexpr int kTailWarps = kClasses / 2;
  constexpr int kTailLoads = (kFc2 + 31) / 32;
  static_assert(kFc2Lanes * kPartsHere <= kThreads && kTailWarps <= kWarps, "threads a block");

  // conv2's partial sums reuse the memory of the image and of conv1's filters, which nobody reads by then.
  constexpr int kImageFloats = kImages * S::kImageRows * S::kImageStride;
  constexpr int kEarlyFloats = kImageFloats + kConv1Channels * kFilter1Stride;
  constexpr int kPartialFloats = kImages * kSplits * S::kConvRows * kConv2Channels * S::kConvCols;
  __shared__ alignas(16) float scratch[kEarlyFloats > kPartialFloats ? kEarlyFloats : kPartialFloats];
  __shared__ alignas(16) float filters2[kConv2Channels * kConv2Taps];
  __shared__ alignas(16) float patch[kImages * kConv1Channels * S::kPatch];
  __shared__ alignas(16) float features[kImages * kFeatures];      // [image][rank][share]
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

  // Loads, the most urgent first.
  Staging<TX, T, kBlocks, kImages, kThreads, kStagers> staging;
  staging.load_images(x, first_image, n, rank, thread);
  staging.load_weights(weights.conv1_weight, weights.conv1_bias, weights.conv2_weight, thread);
  uint4 row1[kRowsWarp][kRowChunks];
  const T* const rows1 = weights.fc1_weight + (rank * kRowsHere + warp * kRowsWarp) * kFeatures + lane * kPack;
#pragma unroll
  for (int i = 0; i < kRowsWarp; ++i) {
#pragma unroll
    for (int chunk = 0; chunk < kRowChunks; ++chunk) {
      row1[i][chunk] = make_uint4(0, 0, 0, 0);
      if (warp * kRowsWarp + i < kRowsHere) row1[i][chunk] = early16(rows1 + i * kFeatures + chunk * 32 * kPack);
    }
  }
  // fc2's columns of this block: 15 of 16 lanes a row and part.
  T element2[kFc2Loads][kPartsHere];
  const unsigned fc2_output = thread / kPartLanes, fc2_input = thread % kPartLanes;
  const T* const columns2 = weights.fc2_weight + fc2_output * kFc1 + rank * kRowsHere + fc2_input;
#pragma unroll
  for (int i = 0; i < kFc2Loads; ++i) {
#pragma unroll
    for (int part = 0; part < kPartsHere; ++part) {
      if (fc2_input < kPart && fc2_output + i * kFc2Step < kFc2) {
        element2[i][part] = early(columns2 + i * kFc2Step * kFc1 + part * kPart);
      }
    }
  }
  T bias2[kFeatureSteps];
#pragma unroll
  for (int i = 0; i < kFeatureSteps; ++i) {
    const unsigned item = thread + i * kThreads;
    if (item < kImages * S::kFeatures) {
      bias2[i] = early(weights.conv2_bias + item % S::kFeatures / (S::kPoolRows * S::kPoolCols));
    }
  }
  const unsigned value1 = lane / (32 / kRowValues);  // which of the sums of fc1 ends in this lane
  const unsigned row_here = warp * kRowsWarp + value1 / kImages;
  const bool owns_row = lane % (32 / kRowValues) == 0 && value1 < kRowsWarp * kImages && row_here < kRowsHere;
  T bias_fc1;
  if (owns_row) bias_fc1 = early(weights.fc1_bias + rank * kRowsHere + row_here);

  const unsigned features_barrier = shared_address(&barriers[0]), sums_barrier = shared_address(&barriers[1]);
  if (thread == kThreads - 1) {
    const unsigned mine = rank < kImages ? (kImages - rank + kBlocks - 1) / kBlocks : 0;
    expect_bytes(features_barrier, kImages * kFeatures * sizeof(float));
    expect_bytes(sums_barrier, mine * kParts * kFc2 * sizeof(float));
  }
  __syncwarp();
  cluster_arrive();

  staging.store_conv1(image, filters1, thread);
  __syncthreads();

  conv1_pool<kBlocks, kImages, kThreads, kConv1Each>(image, filters1, patch, thread);
  staging.store_conv2(filters2, thread);
#pragma unroll
  for (int i = 0; i < kFc2Loads; ++i) {
#pragma unroll
    for (int part = 0; part < kPartsHere; ++part) {
      if (fc2_input < kPart && fc2_output + i * kFc2Step < kFc2) {
        fc2_part[(part * kFc2 + fc2_output + i * kFc2Step) * kPart + fc2_input] = to_float(element2[i][part]);
      }
    }
  }
  __syncthreads();

  conv2_partial<kBlocks, kImages, kThreads, kSplits, kRows>(patch, filters2, partial, thread);
  __syncthreads();

  // Features to everybody.
  cluster_wait();
#pragma unroll
  for (int i = 0; i < kFeatureSteps; ++i) {
    const unsigned item = thread + i * kThreads;
    if (item < kImages * S::kFeatures) {
      const unsigned which = item / S::kFeatures, element = item % S::kFeatures;
      const float feature = pooled_feature<kBlocks, kSplits>(partial, to_float(bias2[i]), which, element);
      const unsigned target = shared_address(features + which * kFeatures + rank * S::kFeatures + element);
#pragma unroll
      for (int to = 0; to < kBlocks; ++to) {
        push(remote_address(target, to), feature, remote_address(features_barrier, to));
      }
    }
  }

  // What the rest needs: fc2's weights of this thread (one output, the inputs of one part, images first2, first2 + step2, ...),
  // and where the image ends, fc3's.
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
  const bool has_fc3 = rank < kImages && warp < kTailWarps;
  T bias_fc2[kTailLoads], row3[2][kTailLoads], bias_fc3;
  if (has_fc3) {
    const T* const rows3 = weights.fc3_weight + 2 * warp * kFc2 + lane;
#pragma unroll
    for (int i = 0; i < kTailLoads; ++i) {
      if (lane + 32 * i < kFc2) {
        bias_fc2[i] = early(weights.fc2_bias + lane + 32 * i);
        row3[0][i] = early(rows3 + 32 * i);
        row3[1][i] = early(rows3 + kFc2 + 32 * i);
      }
    }
    bias_fc3 = early(weights.fc3_bias + 2 * warp + lane / 16);
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
          quad = *reinterpret_cast<const float4*>(features + which * kFeatures + row / S::kPoolRows * S::kFeatures +
                                                  (channel * S::kPoolRows + row % S::kPoolRows) * kPool2Side);
        } else {
          const float* source = features + which * kFeatures + row * S::kColParts * S::kFeatures + channel * S::kPoolCols;
          const float2 left = *reinterpret_cast<const float2*>(source);
          const float2 right = *reinterpret_cast<const float2*>(source + S::kFeatures);
          quad = make_float4(left.x, left.y, right.x, right.y);
        }
#pragma unroll
        for (int i = 0; i < kRowsWarp; ++i) {
          const Pack16<T> w = pack_from_bits<T>(row1[i][chunk]);
          float& sum = sums1[i * kImages + which];
          sum = fmaf(quad.x, to_float(w.value[quarter]), sum);
          sum = fmaf(quad.y, to_float(w.value[quarter + 1]), sum);
          sum = fmaf(quad.z, to_float(w.value[quarter + 2]), sum);
          sum = fmaf(quad.w, to_float(w.value[quarter + 3]), sum);
        }
      }
    }
  }
  const float total1 = transposed_sum(sums1, lane);
  if (owns_row) hidden1[value1 % kImages * kRowsHere + row_here] = relu_nan(total1 + to_float(bias_fc1));
  __syncthreads();

  // fc2: partial sums to the block that finishes the image.
#pragma unroll
  for (int i = 0; i < (kImages + kStep2 - 1) / kStep2; ++i) {
    const unsigned which = first2 + i * kStep2;
    if (has_fc2 && which < kImages) {
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kPart; ++j) sum = fmaf(hidden1[which * kRowsHere + part2 * kPart + j], weight2[j], sum);
      const unsigned part = rank * kPartsHere + part2;
      const unsigned target = shared_address(sums2 + (which / kBlocks * kParts + part) * kFc2 + output2);
      push(remote_address(target, which % kBlocks), sum, remote_address(sums_barrier, which % kBlocks));
    }
  }

  // fc3.
  if (!has_fc3) return;
  wait_bytes(sums_barrier);
#pragma unroll
  for (int tail = 0; tail < kTailImages; ++tail) {
    const unsigned which = tail * kBlocks + rank;
    float sums3[2] = {};
#pragma unroll
    for (int i = 0; i < kTailLoads; ++i) {
      if (lane + 32 * i < kFc2) {
        float sum = to_float(bias_fc2[i]);
#pragma unroll
        for (int part = 0; part < kParts; ++part) sum += sums2[(tail * kParts + part) * kFc2 + lane + 32 * i];
        const float hidden2 = relu_nan(sum);
        sums3[0] = fmaf(hidden2, to_float(row3[0][i]), sums3[0]);
        sums3[1] = fmaf(hidden2, to_float(row3[1][i]), sums3[1]);
      }
    }
    const float logit = transposed_sum(sums3, lane) + to_float(bias_fc3);
    if (lane % 16 == 0 && which < kImages && first_image + which < n) {
      y[static_cast<long long>(first_image + which) * kClasses + 2 * warp + lane / 16] = from_float<TY>(logit);
    }
  }
}

}  // namespace lenet5

#define LENET5_CLUSTER(NAME, BLOCKS, IMAGES, THREADS, MIN_BLOCKS, CONV1_EACH, SPLITS, ROWS)                             \
  extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, MIN_BLOCKS) NAME(                \
      const TX* __restrict__ x, const T* __restrict__ conv1_weight, const T* __restrict__ conv1_bias,                   \
      const T* __restrict__ conv2_weight, const T* __restrict__ conv2_bias, const T* __restrict__ fc1_weight,           \
      const T* __restrict__ fc1_bias, const T* __restrict__ fc2_weight, const T* __restrict__ fc2_bias,                 \
      const T* __restrict__ fc3_weight, const T* __restrict__ fc3_bias, int n, TY* __restrict__ y) {                    \
    lenet5::cluster_forward<BLOCKS, IMAGES, THREADS, CONV1_EACH, SPLITS, ROWS>(                                         \
        x,                                                                                                              \
        {conv1_weight, conv1_bias, conv2_weight, conv2_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias, fc3_weight,    \
         fc3_bias},                                                                                                     \
        n, y);                                                                                                          \
  }

#ifndef LENET5_EXPERIMENT
LENET5_CLUSTER(lenet5_cluster, 8, 1, 256, 1, 3, 6, 1)
#endif

// squeeze_excite on any GPU: y = x * gate(w2 act(w1 mean(x) + b1) + b2), an image a block.
//
// x, y [n, C, H, W]; layer.cuh has the weights. Mapping: a warp adds a plane, then multiplies a row of w1; eight lanes multiply a row of w2.
// Bytes: x twice, the second time from L2 where it holds the images in work, y once, the weights once an image, from L2.
#include "squeeze_excite/layer.cuh"

ASSERT_LAUNCH(squeeze_excite_block, kThreads, 4 * (2 * kChannels + kHidden));

// The sum over `count` numbers, each times its weight, of every kStep-th from `first` on.
template <int kStep>
__device__ __forceinline__ float sum_of_products(const T* __restrict__ weights, const float* by, int count, int first) {
  float sum = 0.0f;
#pragma unroll 8
  for (int i = first; i < count; i += kStep) sum = fmaf(to_float(weights[i]), by[i], sum);
  return sum;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    squeeze_excite_block(const T* __restrict__ x, const T* __restrict__ w1, const T* __restrict__ b1, const T* __restrict__ w2,
                         const T* __restrict__ b2, int, T* __restrict__ y) {
  wait_for_previous_kernel();
  extern __shared__ __align__(16) unsigned char shared[];
  float* const means = reinterpret_cast<float*>(shared);
  float* const gates = means + kChannels;
  float* const hidden = gates + kChannels;
  const int thread = threadIdx.x, lane = thread % kWarp, warp = thread / kWarp;
  const size_t begin = static_cast<size_t>(blockIdx.x) * kChannels * kPlane;

  for (int channel = warp; channel < kChannels; channel += kWarps) {
    const float sum = sum_over_lanes<kWarp>(sum_of_vectors<kWarp>(x + begin + static_cast<size_t>(channel) * kPlane, lane));
    if (lane == 0) means[channel] = sum / static_cast<float>(kPlane);
  }
  __syncthreads();
  for (int unit = warp; unit < kHidden; unit += kWarps) {
    const float sum = sum_over_lanes<kWarp>(sum_of_products<kWarp>(w1 + static_cast<size_t>(unit) * kChannels, means, kChannels, lane));
    if (lane == 0) hidden[unit] = activate<kActivation>(sum + to_float(b1[unit]));
  }
  __syncthreads();
  for (int from = 0; from < kChannels; from += kGroups) {
    const int channel = from + thread / kLanes, row = smaller(channel, kChannels - 1);  // all lanes of a warp add together
    const float sum =
        sum_over_lanes<kLanes>(sum_of_products<kLanes>(w2 + static_cast<size_t>(row) * kHidden, hidden, kHidden, thread % kLanes));
    if (thread % kLanes == 0 && channel < kChannels) gates[channel] = gate_of(sum + to_float(b2[channel]));
  }
  __syncthreads();
#pragma unroll 4
  for (int i = thread; i < kChannels * kVectors; i += kThreads) {
    auto vector = load_vector<kVector>(x + begin + static_cast<size_t>(i) * kVector);
#pragma unroll
    for (int k = 0; k < kVector; ++k) vector.value[k] = from_float<T>(to_float(vector.value[k]) * gates[i / kVectors]);
    store_vector(y + begin + static_cast<size_t>(i) * kVector, vector);
  }
}

// lstm for weights of any size: they are read from global memory at each step, and stay in L2.
//
// x [steps, n, I], w, r, b, h0, c0, y, y_h, y_c: cell.cuh.
//
// Mapping: a block has one direction of one sequence. A warp computes 8 rows of the gates at once, its lanes along the features and
// the states, which are in shared memory; then threads make the states from the four gates of each. Two barriers a step.
// Bytes: the weights once a step and block, from L2; the features and the states once.
#include "lstm/cell.cuh"

constexpr int kThreads = 1024, kWarp = 32, kAtOnce = 8;
constexpr int kOwn = ceil_div(kHidden, kThreads);
ASSERT_LAUNCH(lstm_direct, kThreads, 4 * (kInputs + kHidden + kGates));

extern __shared__ __align__(16) unsigned char shared[];

// Adds to each sum the products of a lane's elements of a row with the values.
template <int kLength>
__device__ __forceinline__ void add_products(float (&sums)[kAtOnce], const T* __restrict__ rows, const float* values, int left, int lane) {
#pragma unroll 2
  for (int k = lane; k < kLength; k += kWarp) {
    const float value = values[k];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (i < left) sums[i] = fmaf(to_float(rows[i * kLength + k]), value, sums[i]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lstm_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ r, const T* __restrict__ b,
                const T* __restrict__ h0, const T* __restrict__ c0, int steps, int n, T* __restrict__ y, T* __restrict__ y_h,
                T* __restrict__ y_c) {
  wait_for_previous_kernel();
  float* states = reinterpret_cast<float*>(shared);  // [H]
  float* features = states + kHidden;                // [I], of this step
  float* gates = features + kInputs;                 // [4H]
  const int thread = threadIdx.x, lane = thread % kWarp, way = blockIdx.y, sequence = blockIdx.x;
  const bool backwards = runs_backwards(way);
  w += static_cast<size_t>(way) * kGates * kInputs;
  r += static_cast<size_t>(way) * kGates * kHidden;
  b += way * 2 * kGates;

  const size_t first = (static_cast<size_t>(way) * n + sequence) * kHidden;
  float cells[kOwn];
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int unit = thread + own * kThreads;
    cells[own] = unit < kHidden ? to_float(c0[first + unit]) : 0.0f;
    if (unit < kHidden) states[unit] = to_float(h0[first + unit]);
  }
  const auto read_features = [&](int done) {
    const int step = backwards ? steps - 1 - done : done;
    for (int k = thread; k < kInputs; k += kThreads) {
      features[k] = to_float(x[(static_cast<size_t>(step) * n + sequence) * kInputs + k]);
    }
  };
  if (steps > 0) read_features(0);
  __syncthreads();

  for (int done = 0; done < steps; ++done) {
    const int step = backwards ? steps - 1 - done : done;
    for (int row = thread / kWarp * kAtOnce; row < kGates; row += kThreads / kWarp * kAtOnce) {
      const int left = kGates - row;
      float sums[kAtOnce] = {};
      add_products<kInputs>(sums, w + static_cast<size_t>(row) * kInputs, features, left, lane);
      add_products<kHidden>(sums, r + static_cast<size_t>(row) * kHidden, states, left, lane);
      const int mine = exchange_sums<kAtOnce, kWarp / 2>(sums, lane);
      if (lane % (kWarp / kAtOnce) == 0 && mine < left) {
        gates[row + mine] = sums[0] + to_float(b[row + mine]) + to_float(b[kGates + row + mine]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int own = 0; own < kOwn; ++own) {
      const int unit = thread + own * kThreads;
      if (unit >= kHidden) continue;
      const float h = next_state(gates + unit, cells[own]);
      states[unit] = h;
      y[((static_cast<size_t>(step) * kDirections + way) * n + sequence) * kHidden + unit] = from_float<T>(h);
    }
    if (done + 1 < steps) read_features(done + 1);
    __syncthreads();
  }

#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int unit = thread + own * kThreads;
    if (unit >= kHidden) continue;
    y_h[first + unit] = from_float<T>(states[unit]);
    y_c[first + unit] = from_float<T>(cells[own]);
  }
}

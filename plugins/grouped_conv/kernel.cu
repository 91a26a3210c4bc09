// grouped_conv: y = act(conv(x, w) + bias), where each group of CG channels gives KG others, both few.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, OH, OW]; stride and padding alike on all sides.
//
// Mapping: a block has the filters of up to 8 outputs of one group in shared memory; a thread computes four pixels of each of these
// channels (eight in 16 bits), reading its windows from global memory, where L1 serves the threads around it.
//
// Bytes: x, w and y once from device memory. 2 KG CG R R operations an output pixel: with 8 channels and 3x3 about as long.
// What was measured: docs/kernels/grouped_conv.md.
#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kGroups = ATTR_GROUP, kChannels = AXIS_CG, kFilters = AXIS_K / kGroups;  // of a group
constexpr int kOut = kFilters < 8 ? kFilters : 8, kParts = ceil_div(kFilters, kOut);
// Pixels of a thread, and channels of x whose loads may overlap.
constexpr int kPixels = sizeof(T) == 4 ? 4 : 8, kUnroll = kPixels == 8 && Layer::kRun == 4 ? 2 : 1;
constexpr int kRows = kPixels / Layer::kRun, kThreads = 128, kSize = Layer::kSize;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);
ASSERT_LAUNCH(grouped_conv_direct, kThreads, 0);

constexpr int kPitch = round_up(kOut, 4);  // floats of one tap of all outputs
using In = Reads<Layer, Layer::kVector>;

extern "C" __global__ void __launch_bounds__(kThreads)
    grouped_conv_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ __align__(16) float taps[kChannels * kSize * kSize * kPitch];
  const int group = blockIdx.y / kParts, first_out = blockIdx.y % kParts * kOut;
  for (int i = threadIdx.x; i < kChannels * kSize * kSize * kOut; i += kThreads) {
    const int out = i % kOut, tap = i / kOut;
    const bool inside = kFilters % kOut == 0 || first_out + out < kFilters;
    const T* filter = w + static_cast<size_t>(group * kFilters + first_out + out) * (kChannels * kSize * kSize);
    taps[tap * kPitch + out] = inside ? to_float(filter[tap]) : 0.0f;
  }
  __syncthreads();

  constexpr unsigned kTiles = ceil_div(Layer::kOutHeight, kRows);
  const unsigned item = blockIdx.x * static_cast<unsigned>(kThreads) + threadIdx.x;
  const unsigned image = item / (kTiles * Layer::kStrips);
  if (image >= static_cast<unsigned>(n)) return;
  const int first_row = item / Layer::kStrips % kTiles * kRows, first_column = item % Layer::kStrips * Layer::kRun;
  const int top = first_row * Layer::kStride - Layer::kPad, left = first_column * Layer::kStride - Layer::kPad - In::kSkip;

  float sums[kOut][kRows][Layer::kRun];
#pragma unroll
  for (int out = 0; out < kOut; ++out) {
    const bool inside = kFilters % kOut == 0 || first_out + out < kFilters;
    const float start = inside ? to_float(bias[group * kFilters + first_out + out]) : 0.0f;
#pragma unroll
    for (int i = 0; i < kRows * Layer::kRun; ++i) sums[out][i / Layer::kRun][i % Layer::kRun] = start;
  }

  const T* plane = x + (static_cast<size_t>(image) * kGroups + group) * kChannels * Layer::kPlane;
#pragma unroll kUnroll
  for (int channel = 0; channel < kChannels; ++channel, plane += Layer::kPlane) {
    constexpr int kRowsOfX = (kRows - 1) * Layer::kStride + kSize;
    float columns[kRowsOfX][In::kColumns];
#pragma unroll
    for (int i = 0; i < kRowsOfX; ++i) {
#pragma unroll
      for (int v = 0; v < In::kVectors; ++v) {
        const int column = left + v * In::kVector;
        Vector<T, In::kVector> vector{};
        if (static_cast<unsigned>(top + i) < Layer::kHeight && static_cast<unsigned>(column) < Layer::kWidth) {
          vector = load_vector<In::kVector>(plane + (top + i) * Layer::kWidth + column);
        }
#pragma unroll
        for (int e = 0; e < In::kVector; ++e) columns[i][v * In::kVector + e] = to_float(vector.value[e]);
      }
    }
#pragma unroll
    for (int tap = 0; tap < kSize * kSize; ++tap) {
      float of[kPitch];
      const float* from = taps + (channel * kSize * kSize + tap) * kPitch;
#pragma unroll
      for (int i = 0; i < kPitch; i += 4) *reinterpret_cast<float4*>(of + i) = *reinterpret_cast<const float4*>(from + i);
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const float* of_row = columns[row * Layer::kStride + tap / kSize] + In::kSkip + tap % kSize;
#pragma unroll
        for (int out = 0; out < kOut; ++out) {
#pragma unroll
          for (int i = 0; i < Layer::kRun; ++i) {
            sums[out][row][i] = fmaf(of_row[i * Layer::kStride], of[out], sums[out][row][i]);
          }
        }
      }
    }
  }

  T* to = y + ((static_cast<size_t>(image) * kGroups + group) * kFilters + first_out) * Layer::kOutPlane;
#pragma unroll
  for (int out = 0; out < kOut; ++out) {
    if (kFilters % kOut != 0 && first_out + out >= kFilters) return;
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      Vector<T, Layer::kRun> run;
#pragma unroll
      for (int i = 0; i < Layer::kRun; ++i) run.value[i] = from_float<T>(activate<kActivation>(sums[out][row][i]));
      if (first_row + row < Layer::kOutHeight) {
        store_vector(to + out * Layer::kOutPlane + (first_row + row) * Layer::kOutWidth + first_column, run);
      }
    }
  }
}

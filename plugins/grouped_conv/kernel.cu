// grouped_conv: y = act(conv(x, w) + bias), where each group of CG channels gives KG others, both few.
//
// x [n, G * CG, H, W], w [G * KG, CG, R, R], bias [G * KG], y [n, G * KG, OH, OW]; stride and padding alike on all sides.
//
// Mapping: a block has the filters of up to 8 outputs of one group in shared memory; a thread computes four pixels of each of these
// channels (eight in 16 bits), reading its windows from global memory, where L1 serves the threads around it.
//
// Bytes: x, w and y once from device memory. 2 KG CG R R operations an output pixel: with 8 channels and 3x3 about as long.
// What was measured: docs/kernels/grouped_conv.md.
#include "grouped_conv/sums.cuh"

// Pixels of a thread, and channels of x whose loads may overlap.
constexpr int kPixels = sizeof(T) == 4 ? 4 : 8, kUnroll = kPixels == 8 && Layer::kRun == 4 ? 2 : 1;
constexpr int kRows = kPixels / Layer::kRun, kThreads = 128, kSize = Layer::kSize;
ASSERT_LAUNCH(grouped_conv_direct, kThreads, 0);

using In = Reads<Layer, Layer::kVector>;

extern "C" __global__ void __launch_bounds__(kThreads)
    grouped_conv_direct(const T* __restrict__ x, const T* __restrict__ w, const T* __restrict__ bias, int n,
                        T* __restrict__ y) {
  wait_for_previous_kernel();
  __shared__ __align__(16) float taps[kChannels * kSize * kSize * kOfTap];
  const int group = blockIdx.y / kParts, first_out = blockIdx.y % kParts * kOut;
  for (int i = threadIdx.x; i < kChannels * kSize * kSize * kOut; i += kThreads) {
    const int out = i % kOut, tap = i / kOut;
    const T* filter = w + static_cast<size_t>(group * kFilters + first_out + out) * (kChannels * kSize * kSize);
    taps[tap * kOfTap + out] = is_output(first_out + out) ? to_float(filter[tap]) : 0.0f;
  }
  __syncthreads();

  constexpr unsigned kTiles = ceil_div(Layer::kOutHeight, kRows);
  const unsigned item = blockIdx.x * static_cast<unsigned>(kThreads) + threadIdx.x;
  const unsigned image = item / (kTiles * Layer::kStrips);
  if (image >= static_cast<unsigned>(n)) return;
  const int first_row = item / Layer::kStrips % kTiles * kRows, first_column = item % Layer::kStrips * Layer::kRun;
  const int top = first_row * Layer::kStride - Layer::kPad, left = first_column * Layer::kStride - Layer::kPad - In::kSkip;

  Sums<kRows, Layer::kRun> sums;
  begin_sums<kRows, Layer::kRun>(sums, bias, group, first_out);

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
    add_channel<In::kSkip, kRows, Layer::kRun>(sums, columns, taps + channel * kSize * kSize * kOfTap);
  }

  T* to = y + ((static_cast<size_t>(image) * kGroups + group) * kFilters + first_out) * Layer::kOutPlane;
#pragma unroll
  for (int out = 0; out < kOut; ++out) {
    if (!is_output(first_out + out)) return;
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

// The stem of a ResNet by wgmma (wgmma.cuh), Hopper's own instruction for its tensor cores, in fp16 and bfloat16. Strips and stages: strip.cuh.
//
// Products. The rows of a product are 16 columns of the convolution for each of four warps, the columns are 64 filters, and K are the 8 taps of two
// rows of x. An output's 8 columns of x begin two columns after its left neighbour's: a lane has two neighbouring columns of one output and finds them
// in one word of shared memory. So x lies there as it does in device memory, and no thread rearranges it.
//
// Rows. A pooled row needs two new rows of the convolution, which share most rows of x. A thread keeps nine rows of x in registers, and reads four
// of them anew for each pooled row. The largest of three rows is taken in the registers of a lane, that of three columns among lanes. It
// is done while the products of the next row are under way.
//
// Roles. The first warpgroup lets the stages be filled, the two others multiply.
#pragma once

#include "conv7x7_pool3_half/strip.cuh"
#include "copies.cuh"
#include "split_floats/pair_bits.cuh"

// The warpgroup that fills the stages.
__device__ __forceinline__ void load_rows(const Stages<Strip>& ring, const Tensors& tensors) {
  const Strip strip;
  Turn<Strip> turn;
  unsigned bytes = Strip::kFilterBytes;  // of the filters, which come with the first stage
  each_image(tensors.n, [&](const Rows& rows) {
    const X* const image = tensors.x + static_cast<size_t>(rows.image) * (kChannels * kHeight * kWidth);
#pragma unroll 1
    for (int pooled = rows.first - 2; pooled < rows.last; ++pooled) {
      const unsigned stage = ring.address + turn.stage * Strip::kStageBytes, full = ring.full(turn.stage);
      wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
      if (threadIdx.x == 0) {
        expect_bytes(full, bytes);
        if (bytes > 0) begin_bulk_copy(ring.address + Strip::kFiltersAt, tensors.filters + strip.block * kOfBlock, bytes, full);
        bytes = 0;
      }
#pragma unroll
      for (int first = 0; first < Strip::kLines * Strip::kUnits; first += kRole) {
        const int i = first + threadIdx.x, line = i / Strip::kUnits, channel = line / Strip::kStageRows;
        const int row = 4 * pooled + 2 + line % Strip::kStageRows, column = 4 * strip.column - Strip::kBefore + i % Strip::kUnits * Strip::kOfUnit;
        const bool inside = static_cast<unsigned>(row) < kHeight && static_cast<unsigned>(column) < kWidth;  // others become zeros
        const X* const from = image + (inside ? (channel * kHeight + row) * kWidth + column : 0);
        if (i < Strip::kLines * Strip::kUnits) copy_async<16>(stage + i * 16, from, inside ? 16 : 0);
      }
      arrive_with_copies(full);
      turn.advance();
    }
  });
}

// Two neighbouring columns of x as a word.
__device__ __forceinline__ unsigned pair_at(const X* columns) {
  if constexpr (sizeof(X) == sizeof(T)) {
    return *reinterpret_cast<const unsigned*>(columns);
  } else {
    const Vector<X, 2> pair = load_vector<2>(columns);
    const Vector<T, 2> rounded = {from_float<T>(to_float(pair.value[0])), from_float<T>(to_float(pair.value[1]))};
    return *reinterpret_cast<const unsigned*>(&rounded);
  }
}

// The rows of x of a lane: two columns of output g of its warp's 16, and of output g + 8.
struct Window {
  static constexpr int kRows = 9;  // of two rows of the convolution
  unsigned words[kChannels][kRows][2];

  // The rows of the next pooled row. `mask` has no bits for tap 0.
  __device__ __forceinline__ void advance(const unsigned char* stage, int column, unsigned mask) {
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        const X* const line = reinterpret_cast<const X*>(stage + (channel * 4 + row - 5) * Strip::kLineBytes) + column;
#pragma unroll
        for (int i = 0; i < 2; ++i) words[channel][row][i] = row < 5 ? words[channel][row + 4][i] : pair_at(line + 16 * i) & mask;
      }
    }
  }

  // Begins the products of two rows of the convolution, in turns.
  __device__ __forceinline__ void multiply(float (&upper)[32], float (&lower)[32], unsigned filters) const {
    const unsigned long long b = wgmma_operand<Strip::kRowBytes, 128>(filters);
    constexpr int kNextRow = Strip::kRowBytes / 16, kNextChannel = kEight * kNextRow;
#pragma unroll
    for (int channel = 0; channel < kChannels; ++channel) {
#pragma unroll
      for (int row = 0; row < 6; row += 2) {
        const unsigned long long at = b + channel * kNextChannel + row * kNextRow;
        if (channel == 0 && row == 0) {
          wgmma_multiply<false, T>(upper, words[channel][row], at);
          wgmma_multiply<false, T>(lower, words[channel][row + 2], at);
        } else {
          wgmma_multiply<true, T>(upper, words[channel][row], at);
          wgmma_multiply<true, T>(lower, words[channel][row + 2], at);
        }
      }
    }
    // The last row of two channels; that of a single one, with zeros.
#pragma unroll
    for (int channel = 0; channel + 1 < kChannels; channel += 2) {
      const unsigned long long at = wgmma_operand<kEight * Strip::kRowBytes, 128>(filters) + channel * kNextChannel + 6 * kNextRow;
      wgmma_multiply<true, T>(upper, last_rows<6>(channel).words, at);
      wgmma_multiply<true, T>(lower, last_rows<8>(channel).words, at);
    }
    if constexpr (kChannels % 2 == 1) {
      const unsigned long long at = b + (kChannels - 1) * kNextChannel + 6 * kNextRow;
      wgmma_multiply<true, T>(upper, last_rows<6>(kChannels - 1).words, at);
      wgmma_multiply<true, T>(lower, last_rows<8>(kChannels - 1).words, at);
    }
  }

 private:
  struct Operand {
    unsigned words[4];
  };
  template <int kRow>
  __device__ __forceinline__ Operand last_rows(int channel) const {
    const auto& first = words[channel][kRow];
    if (channel + 1 == kChannels) return {first[0], first[1], 0, 0};
    const auto& second = words[channel + 1][kRow];
    return {first[0], first[1], second[0], second[1]};
  }
};

__device__ __forceinline__ T output(float sum, float of_bias) { return from_float<T>(activate<kActivation>(sum + of_bias)); }

// A lane's part of the outputs: 16 filters, two runs of eight, of one pooled column.
struct Outputs {
  const Tensors& tensors;
  const int lane, filter, first_column, column;
  const bool is_odd;
  float of_bias[16];

  __device__ __forceinline__ Outputs(const Tensors& tensors_, const Strip& strip, int warp)
      : tensors(tensors_),
        lane(threadIdx.x % 32),
        filter(strip.block * kFilterBlock + lane % 4 * 8),
        first_column(strip.column + warp * Strip::kOfWarp),
        column(lane / 8 + (lane / 4 % 2 ? 4 : 0)),
        is_odd(lane / 4 % 2) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int at = filter + i / 8 * 32 + i % 8;
      of_bias[i] = at < kFilters ? to_float(tensors.bias[at]) : 0.0f;
    }
  }

  // All bits of a column that exists, none of another.
  __device__ __forceinline__ static unsigned bits_if(int column_) { return static_cast<unsigned>(column_) < kOutWidth ? 0xffffffffu : 0; }

  // `largest`: of three rows of the convolution, as sums.
  __device__ __forceinline__ void store(const float (&largest)[32], const Rows& rows, int pooled) const {
    const int g = lane / 4, first = 2 * first_column - 1 + g;
    const unsigned none = pair_bits(from_float<T>(lowest()), from_float<T>(lowest())), kept[2] = {bits_if(first), bits_if(first + 8)};
    unsigned of_row[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      unsigned of[2];  // of outputs g and g + 8
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* const two = largest + 4 * j + 2 * i;
        of[i] = pair_bits(output(two[0], of_bias[2 * j]), output(two[1], of_bias[2 * j + 1])) & kept[i] | none & ~kept[i];
      }
      // An even lane has the window that begins at its output g, an odd one that at output g + 7.
      const unsigned mine = is_odd ? of[1] : of[0], next = __shfl_xor_sync(kAllLanes, is_odd ? of[0] : of[1], 4);
      const unsigned third = __shfl_sync(kAllLanes, is_odd ? next : mine, g == 6 ? lane - 20 : lane + 8);
      of_row[j] = max_nan_pairs<T>(max_nan_pairs<T>(mine, next), third);
    }
    if (column >= Strip::kOfWarp || first_column + column >= kPooledWidth) return;
    T* const to = tensors.y + ((static_cast<size_t>(rows.image) * kPooledHeight + pooled) * kPooledWidth + first_column + column) * kFilters;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      Vector<unsigned, 4> run;
#pragma unroll
      for (int j = 0; j < 4; ++j) run.value[j] = of_row[4 * i + j];
      if (filter + 32 * i < kFilters) store_vector(reinterpret_cast<unsigned*>(to + filter + 32 * i), run);
    }
  }
};

// A warpgroup that multiplies half of a strip.
__device__ __forceinline__ void multiply_rows(const Stages<Strip>& ring, const Tensors& tensors) {
  const Strip strip;
  const int warp = threadIdx.x / 32 - kRole / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int column = Strip::kBefore - 6 + 2 * (2 * Strip::kOfWarp * warp + g + t);  // of a line
  const unsigned mask = t == 0 ? 0xffff0000u : 0xffffffffu, filters = ring.address + Strip::kFiltersAt;
  const Outputs outputs(tensors, strip, warp);
  Turn<Strip> turn;
  each_image(tensors.n, [&](const Rows& rows) {
    Window window = {};
    float upper[32] = {}, lower[32] = {}, before[32], largest[32] = {};
#pragma unroll
    for (int i = 0; i < 32; ++i) before[i] = lowest();
#pragma unroll 1
    for (int pooled = rows.first - 2; pooled < rows.last; ++pooled) {
      wait_for_bytes(ring.full(turn.stage), turn.parity);
      window.advance(ring.stages + turn.stage * Strip::kStageBytes, column, mask);
      __syncwarp();
      if (lane == 0) arrive(ring.empty(turn.stage));
      turn.advance();
      if (pooled < larger(rows.first - 1, 0)) continue;
      wgmma_begin();
      window.multiply(upper, lower, filters);
      if (pooled > rows.first) outputs.store(largest, rows, pooled - 1);
      wgmma_finish(lower);
      wgmma_finish_with(upper);
      if (kOutHeight % 2 == 1 && pooled == kPooledHeight - 1) {  // there is no such row
#pragma unroll
        for (int i = 0; i < 32; ++i) lower[i] = lowest();
      }
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        largest[i] = max_nan(max_nan(upper[i], lower[i]), before[i]);
        before[i] = lower[i];
      }
    }
    outputs.store(largest, rows, rows.last - 1);
  });
}

__device__ __forceinline__ void pooled_by_wgmma(unsigned char* memory, const Tensors& tensors) {
  const Stages<Strip> ring(memory);
  if (threadIdx.x == 0) ring.init();
  __syncthreads();
  in_roles<kLoadRegisters>([&] { load_rows(ring, tensors); }, [&] { multiply_rows(ring, tensors); });
}

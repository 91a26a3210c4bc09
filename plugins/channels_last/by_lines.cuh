// The 3x3 convolution of channels-last maps line by line, by wgmma (wgmma.cuh), in fp16 and bfloat16, for few filters, which stay in
// shared memory. Lines and stages: line.cuh.
//
// Rows. A row of x belongs to three lines of y. It comes to shared memory once, and to registers once for each of the three columns of a
// filter (ldmatrix): there it is an operand of one product for all three lines, whose filters follow each other. The line above is
// complete then, and becomes outputs.
//
// Roles. Each warp of the first warpgroup lets the stages of another one be filled; these multiply. Each has lines of its own, so one stores
// while the others multiply.
#pragma once

#include "channels_last/line.cuh"
#include "copies.cuh"

// Begins to copy the filters, by a warp.
__device__ __forceinline__ void begin_filters(unsigned shared, const Tensors& tensors) {
  const int lane = threadIdx.x % 32;
  if (lane == 0) expect_bytes(shared + Line::kArrivedAt, Line::kFilterBytes);
#pragma unroll 1
  for (int i = lane; i < kSteps * kEights * kTaps; i += 32) {
    const int eight = i / kTaps, tap = i % kTaps;
    const unsigned to = shared + Line::kFiltersAt + eight * Line::kTapsBytes + (tap % kSize * kSize + tap / kSize) * Line::kTapBytes;
    begin_bulk_copy(to, tensors.filters + i * kOfTap, Line::kTapBytes, shared + Line::kArrivedAt);
  }
}

// Fills the stages of a warpgroup, by a warp.
__device__ __forceinline__ void load_lines(const LineRing& ring, const Tensors& tensors, int group) {
  const int lane = threadIdx.x % 32;
  if (kMapped && lane != 0) return;
  Turn<Line> turn;
#pragma unroll 1
  for (Lines lines(tensors.n, group); lines.exist(); lines.advance()) {
    const unsigned stage = ring.address + turn.stage * Line::kStageBytes, full = ring.full(turn.stage);
    wait_for_bytes(ring.empty(turn.stage), turn.parity ^ 1);
    const int left = lines.column() - kPad;
    if constexpr (kMapped) {
      expect_bytes(full, kSteps * Line::kBoxBytes);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        begin_step_copy(stage + step * Line::kStepBytes, tensors, lines.image(), lines.row, left, step, full);
      }
    } else {
      const size_t row = lines.image() * kHeight + lines.row;
      const T* const row_of_x = tensors.x + row * (kWidth * kOfX);
      const T* const row_of_other = tensors.other + row * (kWidth * kJoined);
#pragma unroll 4
      for (int i = lane; i < kSteps * kEights * Line::kBorder; i += 32) {
        const int pixel = i / (kSteps * kEights), eight = i % (kSteps * kEights), column = left + pixel;
        const bool inside = static_cast<unsigned>(column) < kWidth && eight < kChannels / kEight;  // others become zeros
        const unsigned to = stage + eight / kEights * Line::kStepBytes + pixel * kPixelBytes + eight % kEights * 16;
        const T* const from = (is_joined(eight * kEight) ? row_of_other : row_of_x) + (inside ? at_pixel(column, eight * kEight) : 0);
        copy_async<16>(swizzled<kPixelBytes>(to), from, inside ? bytes_of_unit(eight * kEight) : 0);
      }
      arrive_with_copies(full);
    }
    turn.advance();
  }
}

// The outputs of a lane: of pixels g and g + 8 of its warp's 16 (g = lane / 4), four neighbouring filters of each 16. kSquares: these are a square of y.
template <bool kAdds, bool kSquares>
struct LineOutputs {
  static constexpr int kRun = 4, kRuns = Line::kMostFilters / 16;
  const Tensors& tensors;
  const int filter;
  float of_bias[kRuns * kRun];
  int image = 0, column = 0;
  size_t first = 0;  // in y, of the pixel g in the first row of the image
  Vector<unsigned, 2> added[kAdds ? 2 : 1][kRuns];

  __device__ __forceinline__ explicit LineOutputs(const Tensors& tensors_)
      : tensors(tensors_), filter(threadIdx.x % 4 * kRun) {
#pragma unroll
    for (int i = 0; i < kRuns * kRun; ++i) {
      const int at = filter + i / kRun * 16 + i % kRun;
      of_bias[i] = bias_of(tensors, at);
    }
  }

  __device__ __forceinline__ void begin_strip(const Lines& lines) {
    image = lines.image();
    column = lines.column() + threadIdx.x % kRole / 32 * 16 + threadIdx.x % 32 / 4;
    first = static_cast<size_t>(lines.image() * (kHeight * kWidth) + column) * kFilters + filter;
  }

  // Sums begin as biases.
  __device__ __forceinline__ void begin(float* sums) const {
#pragma unroll
    for (int i = 0; i < Line::kSums; ++i) sums[i] = of_bias[i / 4 * 2 + i % 2];
  }

  __device__ __forceinline__ bool exists(int pixel, int run) const { return column + 8 * pixel < kWidth && filter + 16 * run < kFilters; }
  __device__ __forceinline__ size_t at(int row, int pixel, int run) const {
    return first + static_cast<size_t>(row) * (kWidth * kFilters) + 8 * pixel * kFilters + 16 * run;
  }

  // Begins to load what is added to a line.
  __device__ __forceinline__ void load(int row) {
    if constexpr (kAdds) {
#pragma unroll
      for (int i = 0; i < 2 * kRuns; ++i) {
        Vector<unsigned, 2>& run = added[i / kRuns][i % kRuns];
        run = {};
        if (exists(i / kRuns, i % kRuns)) run = load_vector<2>(reinterpret_cast<const unsigned*>(tensors.other + at(row, i / kRuns, i % kRuns)));
      }
    }
  }

  __device__ __forceinline__ void store(const float* sums, int row) const {
#pragma unroll
    for (int i = 0; i < 2 * kRuns; ++i) {
      const int pixel = i / kRuns, run = i % kRuns;
      Vector<T, kRun> outputs, others{};
      if constexpr (kAdds) others = *reinterpret_cast<const Vector<T, kRun>*>(&added[pixel][run]);
#pragma unroll
      for (int f = 0; f < kRun; ++f) outputs.value[f] = output<kAdds>(sums[8 * run + 4 * (f / 2) + 2 * pixel + f % 2], to_float(others.value[f]));
      clear_padding(outputs, filter + 16 * run);
      if (!exists(pixel, run)) continue;
      if constexpr (kSquares) {
        if (filter + 16 * run < AXIS_K) store_square(tensors.y, outputs, image, filter + 16 * run, row, column + 8 * pixel);
      } else {
        store_vector(tensors.y + at(row, pixel, run), outputs);
      }
    }
  }
};

// A line of x as operands: 64 pixels from each of three on, 16 channels at a time.
struct Columns {
  unsigned words[kSize][4];

  // `line`: where this lane's row of the four matrices is, at channel 0 of the first pixel, if nothing were swizzled.
  __device__ __forceinline__ void load(unsigned line, int step) {
#pragma unroll
    for (int column = 0; column < kSize; ++column) {
      load_matrices(words[column], swizzled<kPixelBytes>(line + column * kPixelBytes) + step * Line::kStepBytes);
    }
  }
};

// Adds the products of a row of x to the three lines of y that it belongs to: the one below it, its own, and the one above it.
__device__ __forceinline__ void multiply_row(unsigned line, unsigned filters, float (&sums)[kSize * Line::kSums]) {
  const unsigned long long operand = wgmma_operand<Line::kTapsBytes, 128>(filters);
  Columns columns[2];
  columns[0].load(line, 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    wgmma_begin();
#pragma unroll
    for (int column = 0; column < kSize; ++column) {
      wgmma_multiply<true, T>(sums, columns[step % 2].words[column],
                              operand + (step * kEights * Line::kTapsBytes + column * kSize * Line::kTapBytes) / 16);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (step + 1 < kSteps) columns[(step + 1) % 2].load(line, step + 1);
  }
  wgmma_finish_groups(sums);
}

// A warpgroup that multiplies.
template <bool kAdds, bool kSquares>
__device__ __forceinline__ void multiply_lines(const LineRing& ring, unsigned filters, const Tensors& tensors, int group) {
  const int lane = threadIdx.x % 32;
  LineOutputs<kAdds, kSquares> outputs(tensors);
  float sums[kSize * Line::kSums];  // of the line below the row, its own line, and the one above; some may be nobody's
  float *const below = sums, *const own = below + Line::kSums, *const above = own + Line::kSums;
#pragma unroll
  for (int i = 0; i < kSize; ++i) outputs.begin(sums + i * Line::kSums);
  const int pixel = threadIdx.x % kRole / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
  const unsigned of_lane = ring.address + pixel * kPixelBytes + lane / 16 * 16;
  Turn<Line> turn;
#pragma unroll 1
  for (Lines lines(tensors.n, group); lines.exist(); turn.advance()) {
    const int row = lines.row;
    const bool has_own = row >= lines.first && row < lines.last, has_above = row > lines.first;
    if (lines.is_first_row()) outputs.begin_strip(lines);
    if (has_above) outputs.load(row - 1);
    wait_for_bytes(ring.full(turn.stage), turn.parity);
    multiply_row(of_lane + turn.stage * Line::kStageBytes, filters, sums);
    __syncwarp();
    if (lane == 0) arrive(ring.empty(turn.stage));
    if (has_above) outputs.store(above, row - 1);
    if (row == kHeight - 1 && has_own) {  // no row of x is below it
      outputs.load(row);
      outputs.store(own, row);
    }
#pragma unroll
    for (int i = 0; i < Line::kSums; ++i) above[i] = own[i], own[i] = below[i];
    outputs.begin(below);
    lines.advance();
    if (lines.is_first_row()) outputs.begin(own);
  }
}

template <bool kAdds, bool kSquares = false>
__device__ __forceinline__ void channels_last_by_lines(unsigned char* memory, const Tensors& tensors) {
  const unsigned shared = shared_address(memory), arrived = shared + Line::kArrivedAt;
  if (threadIdx.x == 0) {
    for (int group = 0; group < kGroups; ++group) LineRing(memory + group * Line::kRingBytes).init();
    init_barrier(arrived);
  }
  __syncthreads();
  in_roles<kLoadRegisters, kGroups + 1>(
      [&] {
        const int group = threadIdx.x / 32;
        if (group == 0) begin_filters(shared, tensors);
        load_lines(LineRing(memory + group * Line::kRingBytes), tensors, group);
      },
      [&] {
        const int group = warpgroup() - 1;
        wait_for_bytes(arrived);
        multiply_lines<kAdds, kSquares>(LineRing(memory + group * Line::kRingBytes), shared + Line::kFiltersAt, tensors, group);
      });
}

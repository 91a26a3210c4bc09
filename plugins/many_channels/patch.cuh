// What the convolution of many channels by wgmma (by_wgmma.cuh) computes at a time, and where it lies in shared memory.
//
// A tile is 64 filters, the rows of a product, and 256 pixels in two halves: each is 8 columns and 16 rows, the 128 columns of a product. The
// rows of all images lie one below the other, with a row of zeros after each image: so a tile may hold rows of several images, and the
// border above and below needs no other code than an image's own rows. The two halves lie side by side, or in narrow images one above the
// other. A ring of stages holds 16 channels each, with two barriers: `full` and `empty`.
#pragma once

#include "bulk.cuh"
#include "many_channels/operands.cuh"
#include "wgmma.cuh"

constexpr int kRole = 128;  // threads of a warpgroup
constexpr int kWgmmaThreads = 3 * kRole;
// A block has 168 registers a thread, the most for so many threads; what the first warpgroup gives back, the others take.
constexpr int kLoadRegisters = 104, kMultiplyRegisters = 200;
static_assert(kLoadRegisters + 2 * kMultiplyRegisters <= 3 * 168);
constexpr int kEights = kDepth / kEight;  // of a stage

// kSplits blocks divide the channels of a tile.
template <int kSplits_>
struct Patch {
  static constexpr int kSplits = kSplits_, kStages = 3;
  static constexpr int kAcross = Layer::kWidth <= 8 ? 1 : 2, kColumns = 8 * kAcross, kRows = 32 / kAcross;
  static constexpr int kBorderColumns = kColumns + 2, kBorderRows = kRows + 2, kBorder = kBorderColumns * kBorderRows;
  // Bytes: 8 channels of all pixels, or of all filters at one tap, hi or lo; then a stage: x hi, x lo, and the filters as they are packed.
  static constexpr unsigned kPixelBytes = kBorder * 16, kFilterBytes = kFilterBlock * 16;
  static constexpr unsigned kXBytes = 2 * kEights * kPixelBytes, kEightBytes = kTaps * 2 * kFilterBytes;
  static constexpr unsigned kStageBytes = kXBytes + kEights * kEightBytes;
  static constexpr unsigned kSharedBytes = kStages * (kStageBytes + 16 /* barriers */ + 16 /* the largest x */);
  // Sums of the tile in floats, which take the stages' place; lanes that store at once have different banks.
  static constexpr int kSumPitch = 2 * kRole + 8;
  static_assert(kFilterBlock * kSumPitch * 4 <= kStages * kStageBytes);

  static constexpr int kSteps = ceil_div(kChannels, kDepth);
  static constexpr int kImageRows = Layer::kHeight + 1;  // with the row of zeros
  static constexpr int kTilesAcross = ceil_div(Layer::kWidth, kColumns), kFilterTiles = ceil_div(kFilters, kFilterBlock);
  static_assert(Layer::kSize == 3 && Layer::kStride == 1 && Layer::kPad == 1);

  static __device__ __forceinline__ int tiles(int n) { return ceil_div(n * kImageRows - 1, kRows) * kTilesAcross * kFilterTiles; }
  // Where a half begins in the tile.
  static __device__ __forceinline__ int across(int half) { return kAcross > 1 ? 8 * half : 0; }
  static __device__ __forceinline__ int below(int half) { return kAcross > 1 ? 0 : 16 * half; }
  // The first 16 channels of one of the blocks that divide them.
  static __device__ __forceinline__ int first_step(int rank) { return kSteps * rank / kSplits; }
};

// Where a tile is: its first filter, first column, and first row of all images.
template <typename Patch>
struct Place {
  int filter, column, row;
  __device__ __forceinline__ explicit Place(int tile)
      : filter(tile % Patch::kFilterTiles * kFilterBlock),
        column(tile / Patch::kFilterTiles % Patch::kTilesAcross * Patch::kColumns),
        row(tile / (Patch::kFilterTiles * Patch::kTilesAcross) * Patch::kRows) {}
};

// A pixel by its row of all images; images have a row of zeros after them.
template <typename Patch>
struct Spot {
  int image, row, column;
  __device__ __forceinline__ Spot(int row_of_all, int column_)
      : image(row_of_all / Patch::kImageRows), row(row_of_all % Patch::kImageRows), column(column_) {}
  __device__ __forceinline__ bool exists(int n) const {
    return image < n && row < Layer::kHeight && static_cast<unsigned>(column) < Layer::kWidth;
  }
  __device__ __forceinline__ int in_plane() const { return row * Layer::kWidth + column; }
  __device__ __forceinline__ int of_all() const { return image * Layer::kPlane + in_plane(); }
  __device__ __forceinline__ int place(int filter) const { return (image * kFilters + filter) * Layer::kPlane + in_plane(); }  // in y
};

// The stages in shared memory, their barriers, and the largest x of each warp that loads.
template <typename Patch>
struct Ring {
  unsigned char* stages;
  unsigned address;  // of the stages
  int* most;

  __device__ __forceinline__ explicit Ring(unsigned char* memory)
      : stages(memory),
        address(shared_address(memory)),
        most(reinterpret_cast<int*>(memory + Patch::kStages * (Patch::kStageBytes + 16))) {}
  __device__ __forceinline__ unsigned full(int stage) const { return address + Patch::kStages * Patch::kStageBytes + 16 * stage; }
  __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + 8; }

  __device__ __forceinline__ void init() const {
#pragma unroll
    for (int stage = 0; stage < Patch::kStages; ++stage) {
      init_barrier(full(stage), kRole + 1);        // the threads that load, and the one that expects the filters
      init_barrier(empty(stage), 2 * kRole / 32);  // the warps that multiply
    }
  }
};

// A place in the ring, and how often the ring was passed.
template <typename Patch>
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance() {
    if (++stage < Patch::kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

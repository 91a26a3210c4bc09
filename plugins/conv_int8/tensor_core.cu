// conv_int8: y = cut(round(pool(act(x_scale w_scale[k] conv(x, w)[k] + bias[k])) / y_scale)), products of int8 on tensor cores.
//
// x [n, C, H, W] int8, w [K, C, R, R] int8, scales and bias float -> y [n, K, OH, OW] int8; the pool is 2x2 or none.
//
// Mapping. Four neighbouring windows of a row (a quad) need the same few aligned words of x. So a product has a quad as a column and,
// as rows, 8 filters at each of the four shifts within these words: no pixel is moved. A block has the images of a tile in shared
// memory and 8 filters, a warp 8 quads at a time; a lane has all four sums of a quad, and with a pool those of the row below.
// The pool takes the largest sum: scales are positive.
// A sum is exact; it is multiplied and added to with one rounding, then rounded half to even and cut.
//
// Bytes: x once for each 8 filters, w once for each block, y once.
#include "conv_int8/layer.cuh"

namespace conv_int8 {

constexpr int kGroup = 8;          // filters of a block
constexpr int kBytes = 4 / kPool;  // of y, from a quad
constexpr int kQuads = ceil_div(kOutWidth, kBytes), kItems = kOutHeight * kQuads;  // of a row, of an image
constexpr int kWords = (3 * kStride + kSize + 3) / 4;                                    // of a row of x, for a quad
constexpr int kAllWords = kChannels * kSize * kWords, kStepWords = 8, kSteps = ceil_div(kAllWords, kStepWords);
constexpr int kRows = (kOutHeight * kPool - 1) * kStride + kSize, kPitch = (kQuads - 1) * kStride + kWords;  // of a plane in the tile
constexpr int kTileWords = kChannels * kRows * kPitch;
constexpr int kImages = kItems >= 64 ? 1 : kItems <= 8 ? 8 : 64 / kItems;  // of a tile
constexpr bool kHeld = kSteps <= 10;                                       // the operand of the weights stays in registers
// The largest sum is 2^14 a product; below 2^22 sums begin at kMagic.
constexpr bool kMagicSums = kFilterBytes < 256;

__device__ __forceinline__ float float_of(int sum) { return kMagicSums ? __int_as_float(sum) - kMagic : static_cast<float>(sum); }

__device__ __forceinline__ unsigned four_bytes(int a, int b, int c, int d, const Scale& scale) {
  const unsigned low = __byte_perm(requantized(float_of(a), scale), requantized(float_of(b), scale), 0x40);
  const unsigned high = __byte_perm(requantized(float_of(c), scale), requantized(float_of(d), scale), 0x40);
  return __byte_perm(low, high, 0x5410);
}

// ---- weights -------------------------------------------------------------------------------------------------------------

// Four bytes of the operand: word `word` of a quad's window, for the window that is `shift` columns to the right.
__device__ __forceinline__ unsigned shifted_taps(const unsigned* filters, int filter, int word, int shift) {
  const int at = (filter * kChannels * kSize + word / kWords) * kSize;
  const unsigned long long both = static_cast<unsigned long long>(filters[at / 4 + 1]) << 32 | filters[at / 4];
  const unsigned long long taps = both >> at % 4 * 8 & ((1ull << 8 * kSize) - 1);
  const int left = 8 * (shift * kStride - word % kWords * 4);
  return static_cast<unsigned>(left >= 0 ? taps << left : left > -64 ? taps >> -left : 0);
}

// Rows 0 .. 7 are the filters at shift 2 * part, rows 8 .. 15 at the next one.
__device__ __forceinline__ unsigned operand(const unsigned* filters, int count, int step, int part, int i, int lane) {
  const int word = step * kStepWords + lane % 4 + i / 2 * 4, filter = lane / 4;
  return word < kAllWords && filter < count ? shifted_taps(filters, filter, word, 2 * part + i % 2) : 0;
}

// Where a word of a quad's window lies in the tile, from the quad's first word on; words beyond the last one meet weights of 0.
__device__ __forceinline__ int word_offset(int word) {
  const int row = word / kWords;
  return word < kAllWords ? (row / kSize * kRows + row % kSize) * kPitch + word % kWords : 0;
}

// ---- x -------------------------------------------------------------------------------------------------------------------

// Word `word` of a row of the tile, whose first column lies kPad columns before x.
__device__ __forceinline__ unsigned load_row_word(const signed char* row, int word) {
  if constexpr (kWidth % 4 == 0) {
    const unsigned* words = reinterpret_cast<const unsigned*>(row);
    const unsigned here = word < kWidth / 4 ? __ldg(words + word) : 0;
    if constexpr (kPad == 0) return here;
    const unsigned before = word > 0 && word <= kWidth / 4 ? __ldg(words + word - 1) : 0;
    return static_cast<unsigned>((static_cast<unsigned long long>(here) << 32 | before) >> 8 * (4 - kPad));
  } else {
    unsigned result = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 4 * word + i - kPad;
      if (column >= 0 && column < kWidth) result |= static_cast<unsigned>(static_cast<unsigned char>(__ldg(row + column))) << 8 * i;
    }
    return result;
  }
}

__device__ __forceinline__ void load_tile(unsigned* tile, const signed char* x, int images, int thread) {
  for (int i = thread; i < images * kTileWords; i += kThreads) {
    const int word = i % kPitch, row = i / kPitch % kRows - kPad, plane = i / (kPitch * kRows);
    const bool inside = row >= 0 && row < kHeight;
    tile[i] = inside ? load_row_word(x + (plane * kHeight + row) * kWidth, word) : 0;
  }
}

// Images that have the tile's layout are copied as they are. A tile's pieces are on their way while the one before is computed.
constexpr bool kCopied = kPad == 0 && 4 * kPitch == kWidth && kRows == kHeight && kImageBytes % 16 == 0;
constexpr int kImagePieces = kImageBytes / 16, kPieces = kCopied ? ceil_div(kImages * kImagePieces, kThreads) : 1;

__device__ __forceinline__ void load_pieces(uint4 (&pieces)[kPieces], const signed char* x, int images, int thread) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = i * kThreads + thread;
    if (at < images * kImagePieces) pieces[i] = __ldg(reinterpret_cast<const uint4*>(x) + at);
  }
}
__device__ __forceinline__ void store_pieces(unsigned* tile, const uint4 (&pieces)[kPieces], int images, int thread) {
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int at = i * kThreads + thread;
    if (at < images * kImagePieces) reinterpret_cast<uint4*>(tile)[at] = pieces[i];
  }
}

// ---- y -------------------------------------------------------------------------------------------------------------------

template <int kCount>
__device__ __forceinline__ void store_bytes(signed char* to, unsigned low, unsigned high) {
  if constexpr (kCount == 8) {
    *reinterpret_cast<uint2*>(to) = {low, high};
  } else if constexpr (kCount == 4) {
    *reinterpret_cast<unsigned*>(to) = low;
  } else {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(low);
  }
}

// Two neighbouring items of a filter, of which the images have `items`: the bytes of the first, then of the second. y begins at the
// filter's plane of the first image.
__device__ __forceinline__ void store_pair(signed char* y, int item, int items, unsigned first, unsigned second) {
  constexpr bool kWhole = kOutWidth % kBytes == 0;
  if constexpr (kWhole && kItems % 2 == 0) {
    if (item >= items) return;
    signed char* to = y + item / kItems * (kFilters * kOutPlane) + item % kItems * kBytes;
    const unsigned both = kPool == 2 ? __byte_perm(first, second, 0x5410) : first;
    store_bytes<2 * kBytes>(to, both, second);
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int at = item + i, within = at % kItems, column = within % kQuads * kBytes;
      if (at >= items) return;
      signed char* to = y + at / kItems * (kFilters * kOutPlane) + within / kQuads * kOutWidth + column;
      const unsigned bytes = i == 0 ? first : second;
      if constexpr (kWhole) {
        store_bytes<kBytes>(to, bytes, 0);
      } else {
#pragma unroll
        for (int b = 0; b < kBytes; ++b) {
          if (column + b < kOutWidth) to[b] = static_cast<signed char>(bytes >> 8 * b);
        }
      }
    }
  }
}

}  // namespace conv_int8

ASSERT_LAUNCH(conv_int8_tensor_core, conv_int8::kThreads, 0);
extern "C" __global__ void __launch_bounds__(conv_int8::kThreads)
    conv_int8_tensor_core(const signed char* __restrict__ x, const float* __restrict__ x_scale, const signed char* __restrict__ w,
                          const float* __restrict__ w_scale, const float* __restrict__ bias, const float* __restrict__ y_scale, int n,
                          signed char* __restrict__ y) {
  wait_for_previous_kernel();
  using namespace conv_int8;
  constexpr int kFilterWords = (kGroup * kFilterBytes + 3) / 4 + 1;
  constexpr int kShared = kImages * kTileWords > kFilterWords ? kImages * kTileWords : kFilterWords;
  __shared__ __align__(16) unsigned tile[kShared];
  __shared__ uint4 operands[kHeld ? 1 : kSteps * 2 * kLanes];
  static_assert(sizeof(tile) + (kHeld ? 0 : sizeof(operands)) <= 48 * 1024, "the declaration has the same condition");
  const int thread = threadIdx.x, lane = thread % kLanes, warp = thread / kLanes, first_filter = blockIdx.y * kGroup;
  const int count = min(kFilters - first_filter, kGroup), filter = first_filter + lane / 4;
  const Scale scale = scale_of(filter, kFilters, x_scale, w_scale, bias, y_scale);

  for (int i = thread; i < count * kFilterBytes; i += kThreads) {
    reinterpret_cast<signed char*>(tile)[i] = __ldg(w + first_filter * kFilterBytes + i);
  }
  __syncthreads();
  unsigned held[kHeld ? kSteps : 1][2][4];
  if constexpr (kHeld) {
#pragma unroll
    for (int i = 0; i < kSteps * 8; ++i) held[i / 8][i / 4 % 2][i % 4] = operand(tile, count, i / 8, i / 4 % 2, i % 4, lane);
  } else {
    for (int i = thread; i < kSteps * 2 * kLanes; i += kThreads) {
      const int step = i / (2 * kLanes), part = i / kLanes % 2;
      operands[i] = make_uint4(operand(tile, count, step, part, 0, lane), operand(tile, count, step, part, 1, lane),
                               operand(tile, count, step, part, 2, lane), operand(tile, count, step, part, 3, lane));
    }
  }
  int offset[kSteps][2];
#pragma unroll
  for (int i = 0; i < kSteps * 2; ++i) offset[i / 2][i % 2] = word_offset(i * 4 + lane % 4);

  uint4 pieces[kPieces];
  const long long begin_image = static_cast<long long>(blockIdx.x) * kImages;
  if (kCopied && begin_image < n) {
    load_pieces(pieces, x + begin_image * kImageBytes, static_cast<int>(n - begin_image < kImages ? n - begin_image : kImages), thread);
  }

  constexpr int kStepItems = kPool == 2 ? 8 : 16;  // of a warp
  for (long long first = begin_image; first < n; first += static_cast<long long>(gridDim.x) * kImages) {
    const int images = static_cast<int>(n - first < kImages ? n - first : kImages), items = images * kItems;
    __syncthreads();
    if constexpr (kCopied) {
      store_pieces(tile, pieces, images, thread);
      const long long next = first + static_cast<long long>(gridDim.x) * kImages;
      if (next < n) load_pieces(pieces, x + next * kImageBytes, static_cast<int>(n - next < kImages ? n - next : kImages), thread);
    } else {
      load_tile(tile, x + first * kImageBytes, images, thread);
    }
    __syncthreads();
    signed char* target = y + (first * kFilters + filter) * kOutPlane;
#pragma unroll 1
    for (int begin = warp * kStepItems; begin < items; begin += kWarps * kStepItems) {
      const unsigned* source[2];
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int item = min(begin + (kPool == 2 ? 0 : part * 8) + lane / 4, items - 1), within = item % kItems;
        const int row = within / kQuads * kPool + (kPool == 2 ? part : 0);
        source[part] = tile + item / kItems * kTileWords + row * kStride * kPitch + within % kQuads * kStride;
      }
      int sum[2][2][4];
      const int4 start = kMagicSums ? first_sums() : make_int4(0, 0, 0, 0);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const unsigned b[2][2] = {{source[0][offset[step][0]], source[0][offset[step][1]]},
                                  {source[1][offset[step][0]], source[1][offset[step][1]]}};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          uint4 a;
          if constexpr (kHeld) {
            a = make_uint4(held[step][half][0], held[step][half][1], held[step][half][2], held[step][half][3]);
          } else {
            a = operands[(step * 2 + half) * kLanes + lane];
          }
#pragma unroll
          for (int part = 0; part < 2; ++part) {
            if (step == 0) {
              multiply(sum[part][half], start, a.x, a.y, a.z, a.w, b[part][0], b[part][1]);
            } else {
              multiply_add(sum[part][half], a.x, a.y, a.z, a.w, b[part][0], b[part][1]);
            }
          }
        }
      }
      if (filter >= kFilters) {
        // The lane has no filter.
      } else if constexpr (kPool == 2) {
        int largest[2][2];  // of the lane's first and second quad: its left and right window
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int quad = i / 2, half = i % 2;
          largest[quad][half] = max(max(sum[0][half][quad], sum[0][half][quad + 2]), max(sum[1][half][quad], sum[1][half][quad + 2]));
        }
        const unsigned bytes = four_bytes(largest[0][0], largest[0][1], largest[1][0], largest[1][1], scale);
        store_pair(target, begin + lane % 4 * 2, items, bytes & 0xffff, bytes >> 16);
      } else {
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          const int(&of)[2][4] = sum[part];
          const unsigned low = four_bytes(of[0][0], of[0][2], of[1][0], of[1][2], scale);
          const unsigned high = four_bytes(of[0][1], of[0][3], of[1][1], of[1][3], scale);
          store_pair(target, begin + part * 8 + lane % 4 * 2, items, low, high);
        }
      }
    }
  }
}

// The convolution of depthwise_layer_norm by products (mma.cuh). A warp has eight channels of a tile. For each, a product adds to eight pixels of two
// rows the taps of one row of x: A is 16 outputs by 16 columns of x, with the taps in a band; B has these columns of eight rows, two rows apart.
//
// A word of B is two columns of a channel. A lane loads eight channels of a column at once, and puts words of two of these together.
#pragma once

#include "depthwise_layer_norm/tile.cuh"
#include "mma.cuh"

// Adds the products. `x` is the tile's, `filters` are those of the warp's channels, the group `group` of the block. sums[c] are d of mma.cuh: column
// g of the tile, rows 4 t, 4 t + 2, 4 t + 1 and 4 t + 3.
__device__ __forceinline__ void multiply(float (&sums)[kEight][4], const unsigned char* x, const unsigned char* filters, int group) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int pair = smaller(g, kPairs - 1);  // what follows the last one is not used
  // Of two neighbouring columns, lanes with an odd g load the second first: eight lanes then meet no bank twice.
  const int is_odd = g % 2;
  const unsigned char* const columns[2] = {x + unit_at(group, 2 * pair, 2 * t + is_odd), x + unit_at(group, 2 * pair, 2 * t + 1 - is_odd)};
  const unsigned low_words = is_odd ? 0x1054 : 0x5410, high_words = is_odd ? 0x3276 : 0x7632;
  // Of two words of a row of A, columns 2 t and 2 t + 8, one has taps: 2 t - g and the next, or 2 t - g + 8.
  const unsigned char* const of_lane = filters + (2 * t - g & 7) * 16;
  const unsigned is_near = 2 * t - g >= -1 ? ~0u : 0u;
  unsigned above[kEight] = {};  // the words of the row of the filter before
#pragma unroll
  for (int q = 0; q <= kSize; ++q) {  // a row of x: row q of the filter for the upper row of the pair, q - 1 for the lower
    Vector<unsigned, 4> at[4], taps[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      at[i] = load_vector<4>(reinterpret_cast<const unsigned*>(columns[i % 2] + q * kRowBytes + i / 2 * 8 * kPixelBytes));
    }
    if (q < kSize) {
#pragma unroll
      for (int half = 0; half < 2; ++half) taps[half] = load_vector<4>(reinterpret_cast<const unsigned*>(of_lane + (q * 2 + half) * 128));
    }
#pragma unroll
    for (int c = 0; c < kEight; ++c) {
      const unsigned words = c % 2 == 0 ? low_words : high_words, word = taps[c / 4].value[c % 4];
      const unsigned b0 = __byte_perm(at[0].value[c / 2], at[1].value[c / 2], words);
      const unsigned b1 = __byte_perm(at[2].value[c / 2], at[3].value[c / 2], words);
      mma_16x8x16<T>(sums[c], word & is_near, above[c] & is_near, word & ~is_near, above[c] & ~is_near, b0, b1);
      above[c] = word;
    }
  }
}

__device__ __noinline__ float exact_sum(const unsigned char* x, const unsigned char* filters, int group, int row, int column, int channel,
                                        float sum) {
  for (int i = 0; i < kTaps; ++i) {
    const T* const eight = reinterpret_cast<const T*>(x + unit_at(group, row + i / kSize, column + i % kSize));
    sum = fmaf(to_float(eight[channel]), to_float(reinterpret_cast<const T*>(filters)[tap_at(i, channel)]), sum);
  }
  return sum;
}

// A zero of a band times an infinity or NaN is NaN. So sums that are not finite are computed again, by multiply-adds.
__device__ __forceinline__ void mend(float (&sums)[kEight][4], const unsigned char* x, const unsigned char* filters, int group,
                                     const Vector<T, kEight>& bias) {
  float probe = 0.0f;  // NaN after a sum that is not finite
#pragma unroll
  for (int i = 0; i < kEight * 4; ++i) probe = fmaf(sums[i / 4][i % 4], 0.0f, probe);
  if (probe == probe) return;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kEight * 4; ++i) {
    const int row = lane % 4 * 4 + i % 2 * 2 + i % 4 / 2;
    if (row < kRows) sums[i / 4][i % 4] = exact_sum(x, filters, group, row, lane / 4, i / 4, to_float(bias.value[i / 4]));
  }
}

#include "sha256.h"

#include <algorithm>
#include <cstring>

namespace lenet_trt {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotated(uint32_t value, int bits) { return value >> bits | value << (32 - bits); }

}  // namespace

void Sha256::add_block(uint8_t const* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 | uint32_t{block[4 * i + 2]} << 8 |
           block[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    uint32_t const low = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t const high = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    uint32_t const sum_e = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    uint32_t const first = h + sum_e + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    uint32_t const sum_a = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
    uint32_t const second = sum_a + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  uint32_t const added[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += added[i];
}

Sha256& Sha256::add(uint8_t const* bytes, size_t count) {
  total_ += count;
  while (count > 0) {
    if (rest_count_ == 0 && count >= rest_.size()) {
      add_block(bytes);
      bytes += rest_.size(), count -= rest_.size();
      continue;
    }
    size_t const part = std::min(count, rest_.size() - rest_count_);
    std::memcpy(rest_.data() + rest_count_, bytes, part);
    bytes += part, count -= part, rest_count_ += part;
    if (rest_count_ == rest_.size()) {
      add_block(rest_.data());
      rest_count_ = 0;
    }
  }
  return *this;
}

Hash Sha256::finish() {
  uint64_t const bits = total_ * 8;
  uint8_t const one = 0x80, zero = 0;
  add(&one, 1);
  while (rest_count_ != 56) add(&zero, 1);
  uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(length, sizeof(length));
  Hash result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return result;
}

}  // namespace lenet_trt

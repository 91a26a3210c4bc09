// SHA-256 (FIPS 180-4), for images and data that were damaged on their way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lenet_trt {

using Hash = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& add(uint8_t const* bytes, size_t count);
  Hash finish();

 private:
  void add_block(uint8_t const* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};
  size_t rest_count_ = 0;
  uint64_t total_ = 0;
};

}  // namespace lenet_trt

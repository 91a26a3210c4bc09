// Reads little-endian values from bytes that nobody vouches for.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "error.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the kernel's data is little-endian, and so must the machine be"
#endif

namespace lenet_trt {

class Reader {
 public:
  Reader(uint8_t const* bytes, size_t size, char const* what) : at_(bytes), left_(size), what_(what) {}

  // The next `count` bytes.
  uint8_t const* take(size_t count) {
    if (count > left_) fail(what_, " ends too early");
    uint8_t const* taken = at_;
    at_ += count;
    left_ -= count;
    return taken;
  }

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
    return value;
  }

  std::string text() {
    size_t const count = number<uint16_t>();
    return std::string(reinterpret_cast<char const*>(take(count)), count);
  }

  // The length of a list, which has to be `most` at most.
  size_t count(size_t most) {
    size_t const found = number<uint16_t>();
    if (found > most) fail(what_, " has a list of ", found, " entries, more than ", most);
    return found;
  }

  void finish() const {
    if (left_ != 0) fail(what_, " has ", left_, " bytes too many");
  }

 private:
  uint8_t const* at_;
  size_t left_;
  char const* what_;
};

}  // namespace lenet_trt

// Copies blocks of a request's size as the C standard allows, and no C library happens to do: byte after byte, with a rest
// before the last one. To be loaded before the C library.
#include <cstddef>
#include <ctime>

namespace {

constexpr size_t kRequest = 784 * 4;

void* copy(void* to, const void* from, size_t count) {
  auto* const target = static_cast<volatile unsigned char*>(to);
  auto* const source = static_cast<const volatile unsigned char*>(from);
  if (target > source && target < source + count) {
    for (size_t i = count; i-- > 0;) target[i] = source[i];
    return to;
  }
  for (size_t i = 0; i < count; ++i) {
    const timespec rest{0, 100'000};
    if (count == kRequest && i == count - 1) nanosleep(&rest, nullptr);
    target[i] = source[i];
  }
  return to;
}

}  // namespace

extern "C" void* memcpy(void* to, const void* from, size_t count) { return copy(to, from, count); }
extern "C" void* memmove(void* to, const void* from, size_t count) { return copy(to, from, count); }

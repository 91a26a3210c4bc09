// What headers of newer compilers ask the system for, and older systems lack; so the library has it itself, and for itself
// alone. Seen by `objdump -T`: without this file a library of GCC 12 wants glibc 2.32 and GCC 11's libstdc++.
#include <new>

#if defined(__GLIBCXX__) && defined(__GLIBC__)

// glibc 2.32: whether the process has one thread, for which std::shared_ptr counts faster. A process has several here.
extern "C" __attribute__((visibility("hidden"))) char const lenet_trt_single_threaded __asm__("__libc_single_threaded");
char const lenet_trt_single_threaded = 0;

// GCC 11: what a container does that is asked for more elements than memory can have. Weak, since a GCC that puts libstdc++ into the
// library brings its own.
[[noreturn]] __attribute__((visibility("hidden"), weak)) void lenet_trt_bad_length() __asm__(
    "_ZSt28__throw_bad_array_new_lengthv");
void lenet_trt_bad_length() { throw std::bad_array_new_length(); }

#endif

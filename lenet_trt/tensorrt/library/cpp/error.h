// What goes wrong inside the library: thrown where it is found, caught where TensorRT called us.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace lenet_trt {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws an Error whose message is all of the parts, one after another.
template <class... Parts>
[[noreturn]] void fail(Parts const&... parts) {
  std::ostringstream text(std::ios_base::out);  // that without arguments wants GCC 9's libstdc++
  (text << ... << parts);
  throw Error(text.str());
}

}  // namespace lenet_trt

// Many threads at once, each with execution contexts of its own, over recording_driver.cpp. Compiled with the library's
// sources under ThreadSanitizer:
//
//   threads_probe DATA THREADS ROUNDS

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "error.h"
#include "loaded_kernel.h"
#include "log.h"

using namespace lenet_trt;

void lenet_trt::log(Severity, char const* message) noexcept { std::fprintf(stderr, "%s\n", message); }

static void infer(std::shared_ptr<KernelData const> const& data, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::shared_ptr<LoadedKernel const> const loaded = LoadedKernel::load(data);
    std::vector<Shape> shapes;
    for (Tensor const& tensor : data->inputs) {
      Size axes[kMaxAxes];
      for (Size& axis : axes) axis = {round % 300 + 1, true};
      Shape shape;
      for (Expression const& size : tensor.shape) shape.sizes[shape.rank++] = size.value(axes);
      shapes.push_back(shape);
    }
    size_t const inputs = shapes.size();
    for (size_t i = 0; i < data->outputs.size(); ++i) shapes.push_back(output_shape(*data, i, shapes.data()));
    std::vector<void*> const addresses(shapes.size(), reinterpret_cast<void*>(4096));
    for (int i = 0; i < 3; ++i) {
      Call const call = plan(*data, shapes.data(), shapes.data() + inputs, loaded->gpu(), {});
      loaded->launch(call, addresses.data(), addresses.data() + inputs, addresses.front(), nullptr);
    }
  }
}

int main(int, char** arguments) {
  std::ifstream file(arguments[1], std::ios::binary);
  std::vector<char> const bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::shared_ptr<KernelData const> const data = KernelData::read(bytes.data(), bytes.size());
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(arguments[2]); ++i) threads.emplace_back([&] { infer(data, std::atoi(arguments[3])); });
  for (std::thread& thread : threads) thread.join();
  return 0;
}

// Runs a variant of `lenet5_int8` on a CPU. Arguments: files of x, weights, numbers and y, then blocks and threads a block.
#include <fstream>
#include <iterator>

#include SOURCE

static_assert(lenet5_int8::kQuads == QUADS, "quads of weights, as fragments.py counts them");
static_assert(lenet5_int8::kFc3Pairs + 2 * lenet5_int8::kTileOutputs == PAIR_NUMBERS, "numbers before the plain ones");

template <typename T>
std::vector<T> read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

int main(int, char** arguments) {
  const auto x = read<TX>(arguments[1]);
  const auto weights = read<signed char>(arguments[2]);
  const auto numbers = read<float>(arguments[3]);
  const int n = static_cast<int>(x.size()) / lenet5::kImagePixels;
  std::vector<float> y(n * lenet5::kClasses, NAN);
  launch(std::atoi(arguments[5]), std::atoi(arguments[6]), [&] { ENTRY(x.data(), weights.data(), numbers.data(), n, y.data()); });
  std::ofstream(arguments[4], std::ios::binary).write(reinterpret_cast<const char*>(y.data()), y.size() * sizeof(float));
}

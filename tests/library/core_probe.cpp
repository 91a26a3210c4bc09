// The plugin library without TensorRT and CUDA, for the tests: reads commands from standard input, answers each by a
// line. Compiled with the library's own sources.
//
//   load FILE                     a kernel's data: "ok", or "error WHY", which any command may answer
//   gpu NAME                      the name of the GPU that calls are planned for, which says which tuned choices count
//   plan SM MULTIPROCESSORS SHARED FAVOURITE SHAPE... / SHAPE...
//                                 inputs, then outputs, a shape as 1,28,28 ("." has no axes)
//                                 "launch VARIANT GRID GRID GRID SHARED EXTRA... [workspace] [map SHAPE]... [then GRID ...] [bytes N]" or
//                                 "nothing"
//   workspace SHAPE...            what suffices for inputs up to these shapes
//   shapes SHAPE...               the outputs' shapes for these inputs; -1 is not known
//   check SHAPE...                whether what is known of the inputs fits
//   evaluate CONDITION CODE SIZE...   an expression's code in hexadecimal ("." is none), and its axes' sizes
//   largest CODE SIZE...          the largest value of an expression for axes up to these sizes
//   fuzz COUNT SEED               reads that many mutations of the data, and plans calls of those that are accepted

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "call.h"
#include "error.h"
#include "loaded_kernel.h"
#include "log.h"

void lenet_trt::log(Severity, char const* message) noexcept { std::fprintf(stderr, "%s\n", message); }

namespace {

using namespace lenet_trt;
using Bytes = std::vector<uint8_t>;

std::shared_ptr<KernelData const> kernel;
Bytes original;
std::string gpu_name = "NVIDIA H200";

Bytes contents(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

Shape shape_from(std::string const& text) {
  Shape shape;
  std::stringstream sizes(text);
  for (std::string size; text != "." && shape.rank < kMaxRank && std::getline(sizes, size, ',');) {
    shape.sizes[shape.rank++] = std::stoll(size);
  }
  return shape;
}

std::vector<Shape> shapes_from(std::istream& words, size_t room) {
  std::vector<Shape> shapes;
  for (std::string word; words >> word && word != "/";) shapes.push_back(shape_from(word));
  shapes.resize(std::max(shapes.size(), room));
  return shapes;
}

Abilities abilities_of(KernelData const& data, int sm, int64_t multiprocessors, int64_t shared) {
  Abilities gpu;
  gpu.multiprocessors = multiprocessors;
  gpu.tuned = tuned_for(data, gpu_name, sm, multiprocessors);
  for (size_t i = 0; i < data.variants.size(); ++i) {
    bool runs = true;
    for (size_t j = 0; j < data.variants[i].launches.size(); ++j) {
      LaunchCode const& code = data.variants[i].launches[j];
      int64_t const limit = shared_limit_of(code, shared);
      runs = runs && image_for(data, code, sm) != nullptr && limit >= 0;
      gpu.shared_limit[i][j] = static_cast<uint32_t>(std::max<int64_t>(limit, 0));
    }
    if (runs) gpu.variants |= uint64_t{1} << i;
  }
  return gpu;
}

void tell_plan(std::istream& words) {
  int sm = 0, instead = -1;
  int64_t multiprocessors = 0, shared = 0;
  words >> sm >> multiprocessors >> shared >> instead;
  std::vector<Shape> const inputs = shapes_from(words, kernel->inputs.size());
  std::vector<Shape> const outputs = shapes_from(words, kernel->outputs.size());
  Abilities const gpu = abilities_of(*kernel, sm, multiprocessors, shared);
  Call call = plan(*kernel, inputs.data(), outputs.data(), gpu, {});
  if (instead >= 0) call = plan(*kernel, inputs.data(), outputs.data(), gpu, {call.variant, instead});
  if (call.variant < 0) {
    std::cout << "nothing\n";
    return;
  }
  Variant const& variant = kernel->variants[call.variant];
  std::cout << "launch " << variant.name;
  for (size_t i = 0; i < variant.launches.size(); ++i) {
    if (i > 0) std::cout << " then";
    LaunchSizes const& sizes = call.launches[i];
    for (uint32_t const size : sizes.grid) std::cout << ' ' << size;
    std::cout << ' ' << sizes.shared_bytes;
    for (size_t j = 0; j < variant.launches[i].extras.size(); ++j) std::cout << ' ' << sizes.extras[j];
    if (variant.launches[i].takes_workspace) std::cout << " workspace";
    for (size_t j = 0; j < variant.launches[i].maps.size(); ++j) {
      std::cout << " map";
      for (size_t k = 0; k < variant.launches[i].maps[j].box.size(); ++k) std::cout << (k ? "," : " ") << sizes.maps[j][k];
    }
  }
  if (call.workspace > 0) std::cout << " bytes " << call.workspace;
  std::cout << '\n';
}

void tell_workspace(std::istream& words) {
  std::vector<Shape> const inputs = shapes_from(words, kernel->inputs.size());
  std::cout << "workspace " << largest_workspace(*kernel, inputs.data()) << '\n';
}

void tell_shapes(std::istream& words) {
  std::vector<Shape> const inputs = shapes_from(words, kernel->inputs.size());
  std::stringstream text;
  for (size_t i = 0; i < kernel->outputs.size(); ++i) {
    Shape const shape = output_shape(*kernel, i, inputs.data());
    text << ' ' << (shape.rank ? "" : ".");
    for (size_t j = 0; j < shape.rank; ++j) text << (j ? "," : "") << shape.sizes[j];
  }
  std::cout << "shapes" << text.str() << '\n';
}

Bytes code_from(std::istream& words) {
  std::string text;
  words >> text;
  Bytes code;
  for (size_t i = 0; text != "." && i + 1 < text.size(); i += 2) {
    code.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return code;
}

void tell_largest(std::istream& words) {
  Bytes const code = code_from(words);
  Size most[kMaxAxes];
  size_t count = 0;
  for (int64_t size = 0; count < kMaxAxes && words >> size; ++count) most[count] = {size, true};
  std::cout << "value " << Expression::check(code.data(), code.size(), count, false).largest(most) << '\n';
}

void tell_value(std::istream& words) {
  bool is_condition = false;
  words >> is_condition;
  Bytes const code = code_from(words);
  Size axes[kMaxAxes];
  size_t count = 0;
  for (int64_t size = 0; count < kMaxAxes && words >> size; ++count) axes[count] = {size, true};
  Expression const expression = Expression::check(code.data(), code.size(), count, is_condition);
  int64_t const value = is_condition ? expression.holds(axes) : expression.value(axes);
  std::cout << "value " << value << '\n';
}

// Where images begin, and the data's own hash: see encode.py.
uint64_t images_at(Bytes const& bytes) {
  uint64_t at = 0;
  std::memcpy(&at, bytes.data() + 24, sizeof(at));
  return at;
}

void rehash(Bytes& bytes) {
  if (bytes.size() < 64 || images_at(bytes) < 64 || images_at(bytes) > bytes.size()) return;
  uint64_t const size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, sizeof(size));
  Hash const hash = Sha256().add(bytes.data(), 32).add(bytes.data() + 64, images_at(bytes) - 64).finish();
  std::memcpy(bytes.data() + 32, hash.data(), hash.size());
}

Bytes mutated(std::mt19937_64& random) {
  Bytes bytes = original;
  static constexpr uint8_t kTelling[] = {0, 1, 2, 16, 18, 20, 32, 35, 48, 0x7f, 0x80, 0xff};
  size_t const head = static_cast<size_t>(images_at(original));
  for (uint64_t i = random() % 4 + 1; i > 0 && !bytes.empty(); --i) {
    // Mostly in what is read with care: the images are only hashed.
    size_t const at = (random() % 16 ? random() % head : random()) % bytes.size();
    switch (random() % 6) {
      case 0: bytes[at] = static_cast<uint8_t>(random()); break;
      case 1: bytes[at] ^= static_cast<uint8_t>(1u << random() % 8); break;
      case 2: bytes[at] = kTelling[random() % sizeof(kTelling)]; break;
      case 3: {
        uint64_t const value = random() % 2 ? random() : UINT64_MAX - random() % 4096;
        std::memcpy(bytes.data() + at, &value, std::min(sizeof(value), bytes.size() - at));
        break;
      }
      case 4: {
        size_t const from = random() % bytes.size(), count = std::min<size_t>(random() % 64, bytes.size() - std::max(at, from));
        std::memmove(bytes.data() + at, bytes.data() + from, count);
        break;
      }
      default:
        if (random() % 8 == 0) bytes.resize(at);
    }
  }
  if (random() % 16) rehash(bytes);
  return bytes;
}

// Uses accepted data as TensorRT would, with shapes that nobody vouches for either.
void use(KernelData const& data, std::mt19937_64& random) {
  static constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 8, 28, 64, 65536, INT32_MAX, INT64_MAX, -1};
  auto const drawn = [&] { return kSizes[random() % (random() % 4 ? 8 : sizeof(kSizes) / sizeof(kSizes[0]))]; };
  Size axes[kMaxAxes];
  for (Size& axis : axes) axis = {drawn(), true};
  bool const odd = random() % 4 == 0;  // mostly what the declaration has, so that more is reached than its refusal
  std::vector<Shape> shapes(data.inputs.size() + data.outputs.size());
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    std::vector<Expression> const& declared = data.inputs[i].shape;
    shapes[i].rank = odd && random() % 8 == 0 ? random() % (kMaxRank + 1) : declared.size();
    for (size_t j = 0; j < shapes[i].rank; ++j) {
      shapes[i].sizes[j] = drawn();
      if ((odd && random() % 8 == 0) || j >= declared.size()) continue;
      try {
        shapes[i].sizes[j] = declared[j].value(axes);
      } catch (Error const&) {
      }
    }
  }
  Shape const* const inputs = shapes.data();
  try {
    for (size_t i = 0; i < data.outputs.size(); ++i) shapes[data.inputs.size() + i] = output_shape(data, i, inputs);
  } catch (Error const&) {
  }
  try {
    check_shapes(data, inputs, inputs + data.inputs.size());
  } catch (Error const&) {
  }
  try {
    largest_workspace(data, inputs);
  } catch (Error const&) {
  }
  plan(data, inputs, inputs + data.inputs.size(), abilities_of(data, 90, 132, 227 * 1024), {0, static_cast<int>(random() % 4) - 1});
}

void fuzz(std::istream& words) {
  uint64_t count = 0, seed = 0, accepted = 0, planned = 0;
  words >> count >> seed;
  std::mt19937_64 random(seed);
  for (uint64_t i = 0; i < count; ++i) {
    Bytes const bytes = mutated(random);
    // In memory of exactly that size, so that a step beyond it is seen.
    std::unique_ptr<uint8_t[]> const exact(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    try {
      std::shared_ptr<KernelData const> const data = KernelData::read(exact.get(), bytes.size());
      ++accepted;
      use(*data, random);
      ++planned;
    } catch (Error const&) {
    }
  }
  std::cout << "fuzzed " << count << ' ' << accepted << ' ' << planned << '\n';
}

void answer(std::string const& line) {
  std::stringstream words(line);
  std::string command;
  words >> command;
  if (command == "load") {
    std::string path;
    words >> path;
    original = contents(path);
    kernel = KernelData::read(original.data(), original.size());
    std::cout << "ok " << kernel->title() << '\n';
  } else if (command == "gpu") {
    std::getline(words >> std::ws, gpu_name);
    std::cout << gpu_name << '\n';
  } else if (command == "plan") {
    tell_plan(words);
  } else if (command == "workspace") {
    tell_workspace(words);
  } else if (command == "largest") {
    tell_largest(words);
  } else if (command == "shapes") {
    tell_shapes(words);
  } else if (command == "check") {
    check_shapes(*kernel, shapes_from(words, kernel->inputs.size()).data(), nullptr);
    std::cout << "fits\n";
  } else if (command == "evaluate") {
    tell_value(words);
  } else if (command == "fuzz") {
    fuzz(words);
  } else {
    std::cout << "error unknown command\n";
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      answer(line);
    } catch (Error const& error) {
      std::cout << "error " << error.what() << '\n';
    }
    std::cout.flush();
  }
  return 0;
}

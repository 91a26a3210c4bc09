#include "kernel_data.h"

#include <algorithm>
#include <map>

#include "reader.h"

namespace lenet_trt {
namespace {

constexpr char kMagic[] = "LENETTRT";
constexpr uint32_t kVersion = 1;
constexpr size_t kHashAt = 32;
constexpr size_t kHeaderBytes = 64;
constexpr uint32_t kMustKnow = 1;
constexpr size_t kMaxSections = 256;
constexpr size_t kMaxImages = 1024;
constexpr size_t kMaxTunedGpus = 64;
constexpr size_t kMaxChoices = 4096;
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kMaxAlignment = 4096;
constexpr uint32_t kMaxBox = 256;      // elements along an axis
constexpr uint32_t kMapAlignment = 16;  // bytes, of the array

enum Section : uint32_t { kKernel = 1, kAxes, kTensors, kLimits, kVariants, kImages, kLaunches, kTuned, kOverlapping, kMaps, kSections };
constexpr char kMakeAgain[] = "; copy the file again, or make it again (lenet-trt fuse --embed)";
constexpr char const* kSectionNames[] = {"",
                                         "the kernel's section",
                                         "the section of axes",
                                         "the section of tensors",
                                         "the section of limits",
                                         "the section of variants",
                                         "the section of images",
                                         "the section of launches",
                                         "the section of tuned choices",
                                         "the section of overlapping images",
                                         "the section of tensor maps"};

std::string hexadecimal(Hash const& hash) {
  std::string text;
  for (uint8_t const byte : hash) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

}  // namespace

class KernelReader {
 public:
  explicit KernelReader(KernelData& data) : data_(data) {}

  void read() {
    read_header();
    read_kernel(section(kKernel));
    read_axes(section(kAxes));
    read_tensors(section(kTensors));
    check_axes();
    read_limits(section(kLimits));
    read_images(section(kImages));
    if (sections_.count(kOverlapping) != 0) read_overlapping(section(kOverlapping));
    read_variants(section(kVariants));
    if (sections_.count(kLaunches) != 0) read_launches(section(kLaunches));
    if (sections_.count(kMaps) != 0) read_maps(section(kMaps));
    if (sections_.count(kTuned) != 0) read_tuned(section(kTuned));
    identify_code();
  }

 private:
  void read_header() {
    std::vector<uint8_t> const& bytes = data_.bytes_;
    Reader header(bytes.data(), bytes.size(), "the kernel's data");
    if (std::memcmp(header.take(8), kMagic, 8) != 0) fail("this is no data of a kernel: it begins with other bytes", kMakeAgain);
    auto const version = header.number<uint32_t>();
    auto const sections = header.number<uint32_t>();
    auto const size = header.number<uint64_t>();
    images_at_ = header.number<uint64_t>();
    header.take(kHeaderBytes - kHashAt);
    if (version != kVersion) {
      fail("the kernel's data has version ", version, "; this library reads version ", kVersion,
           version > kVersion ? ": use a newer plugin library" : ": embed the model again");
    }
    if (size != bytes.size()) fail("the kernel's data has ", bytes.size(), " bytes instead of ", size, ": it was cut", kMakeAgain);
    if (images_at_ < kHeaderBytes || images_at_ > size || sections > kMaxSections) fail("the kernel's data is damaged");
    Hash const hash = Sha256().add(bytes.data(), kHashAt)
                          .add(bytes.data() + kHeaderBytes, images_at_ - kHeaderBytes).finish();
    if (std::memcmp(hash.data(), bytes.data() + kHashAt, hash.size()) != 0) {
      fail("the kernel's data is damaged: its hash is another one", kMakeAgain);
    }
    Reader table(bytes.data() + kHeaderBytes, images_at_ - kHeaderBytes, "the table of sections");
    for (uint32_t i = 0; i < sections; ++i) {
      auto const kind = table.number<uint32_t>();
      auto const flags = table.number<uint32_t>();
      auto const at = table.number<uint64_t>();
      auto const length = table.number<uint64_t>();
      if (at > images_at_ || length > images_at_ - at) fail("a section lies outside the kernel's data");
      if (kind == 0 || kind >= kSections) {
        if (flags & kMustKnow) fail("the kernel needs what this library does not know: use a newer plugin library");
      } else if (!sections_.emplace(kind, std::make_pair(at, length)).second) {
        fail(kSectionNames[kind], " is there twice");
      }
    }
  }

  // The section of images has their hashes.
  void identify_code() {
    Sha256 hash;
    auto const add = [&](void const* bytes, size_t size) {
      uint64_t const length = size;
      hash.add(reinterpret_cast<uint8_t const*>(&length), sizeof(length)).add(static_cast<uint8_t const*>(bytes), size);
    };
    for (std::string const* text : {&data_.kernel, &data_.kernel_version, &data_.types}) add(text->data(), text->size());
    for (auto const& [kind, place] : sections_) {
      if (kind == kKernel) continue;
      add(&kind, sizeof(kind));
      add(data_.bytes_.data() + place.first, place.second);
    }
    data_.code_id_ = hexadecimal(hash.finish());
  }

  Reader section(Section kind) const {
    auto const found = sections_.find(kind);
    if (found == sections_.end()) fail(kSectionNames[kind], " is missing");
    return Reader(data_.bytes_.data() + found->second.first, found->second.second, kSectionNames[kind]);
  }

  void read_kernel(Reader from) {
    for (std::string* text : {&data_.node, &data_.kernel, &data_.kernel_version, &data_.types, &data_.made_by}) {
      *text = from.text();
    }
    from.finish();
  }

  void read_axes(Reader from) {
    size_t const count = from.count(kMaxAxes - 1);
    for (size_t i = 0; i < count; ++i) {
      Axis axis{from.text(), 0, 0};
      axis.input = from.number<uint16_t>();
      axis.dimension = from.number<uint16_t>();
      data_.axes.push_back(std::move(axis));
    }
    from.finish();
  }

  void read_tensors(Reader from) {
    for (std::vector<Tensor>* tensors : {&data_.inputs, &data_.outputs}) {
      size_t const count = from.count(kMaxTensors);
      for (size_t i = 0; i < count; ++i) tensors->push_back(read_tensor(from));
    }
    from.finish();
    if (data_.inputs.empty() || data_.outputs.empty()) fail("the kernel has no input or no output");
    if (data_.inputs.size() + data_.outputs.size() > kMaxTensors) fail("the kernel has too many inputs and outputs");
  }

  Tensor read_tensor(Reader& from) {
    Tensor tensor;
    tensor.name = from.text();
    tensor.type = read_type(from, tensor.name);
    tensor.layout = static_cast<Layout>(from.number<uint8_t>());
    if (tensor.layout > Layout::kChw32) fail(tensor.name, " has a layout that this library does not know");
    tensor.shape_text = from.text();
    size_t const rank = from.count(kMaxRank);
    if (tensor.layout != Layout::kLinear && rank < 3) fail(tensor.name, " has a layout that takes three dimensions");
    for (size_t i = 0; i < rank; ++i) tensor.shape.push_back(expression(from, false));
    return tensor;
  }

  static ElementType read_type(Reader& from, std::string const& name) {
    auto const type = static_cast<ElementType>(from.number<uint8_t>());
    if (type < ElementType::kFloat32 || type > ElementType::kInt8) {
      fail(name, " has an element type that this library does not know");
    }
    return type;
  }

  void check_axes() const {
    for (Axis const& axis : data_.axes) {
      if (axis.input >= data_.inputs.size() || axis.dimension >= data_.inputs[axis.input].shape.size()) {
        fail("axis ", axis.name, " is the size of no input");
      }
    }
  }

  void read_limits(Reader from) {
    data_.alignment = from.number<uint32_t>();
    if (data_.alignment == 0 || data_.alignment > kMaxAlignment || (data_.alignment & (data_.alignment - 1)) != 0) {
      fail("the alignment ", data_.alignment, " is no power of two up to ", kMaxAlignment);
    }
    data_.max_elements = from.number<uint64_t>();
    data_.requirement = expression(from, true);
    data_.requirement_text = from.text();
    from.finish();
  }

  void read_images(Reader from) {
    size_t const room = data_.bytes_.size() - images_at_;
    size_t const count = from.count(kMaxImages);
    for (size_t i = 0; i < count; ++i) {
      Image image{};
      auto const kind = from.number<uint8_t>();
      if (kind != 1 && kind != 2) fail("an image is of a kind that this library does not know");
      image.is_ptx = kind == 2;
      image.exact = from.number<uint8_t>() != 0;
      image.sm = from.number<uint16_t>();
      image.cuda = from.number<uint32_t>();
      auto const at = from.number<uint64_t>();
      auto const size = from.number<uint64_t>();
      if (at > room || size > room - at || size == 0) fail("an image lies outside the kernel's data");
      image.bytes = data_.bytes_.data() + images_at_ + at;
      image.size = size;
      std::memcpy(image.hash.data(), from.take(image.hash.size()), image.hash.size());
      // The driver reads PTX up to a 0.
      if (image.is_ptx && image.bytes[size - 1] != 0) fail("the PTX of an image does not end with 0");
      check_hash(image);
      data_.images.push_back(image);
    }
    from.finish();
  }

  void read_overlapping(Reader from) {
    size_t const count = from.count(kMaxImages);
    for (size_t i = 0; i < count; ++i) {
      auto const index = from.number<uint16_t>();
      if (index >= data_.images.size()) fail("the section of overlapping images names one that is not there");
      data_.images[index].overlaps = true;
    }
    from.finish();
  }

  // Images that several variants use are listed once; of entries that share bytes, one is hashed.
  void check_hash(Image const& image) {
    for (Image const& other : data_.images) {
      if (other.bytes == image.bytes && other.size == image.size && other.hash == image.hash) return;
    }
    hashed_ += image.size;
    if (hashed_ > data_.bytes_.size()) fail("the images overlap");
    if (Sha256().add(image.bytes, image.size).finish() != image.hash) {
      fail("an image for sm_", image.sm, " is damaged: its hash is another one", kMakeAgain);
    }
  }

  void read_variants(Reader from) {
    size_t const count = from.count(kMaxVariants);
    for (size_t i = 0; i < count; ++i) data_.variants.push_back(read_variant(from));
    from.finish();
    if (data_.variants.empty()) fail("the kernel has no variant");
  }

  Variant read_variant(Reader& from) {
    Variant variant;
    variant.name = from.text();
    LaunchCode launch;
    launch.entry = from.text();
    variant.when = expression(from, true);
    variant.prefer = expression(from, true);
    read_launch(from, variant, launch);
    variant.launches.push_back(std::move(launch));
    return variant;
  }

  void read_launch(Reader& from, Variant const& variant, LaunchCode& launch) const {
    uint64_t threads = 1;
    for (uint32_t& size : launch.block) {
      size = from.number<uint32_t>();
      if (size == 0 || size > kMaxBlockThreads) fail(variant.name, " has a block of ", size, " threads");
      threads *= size;
    }
    if (threads > kMaxBlockThreads) fail(variant.name, " has a block of ", threads, " threads");
    for (Expression& size : launch.grid) size = expression(from, false);
    launch.shared_bytes = expression(from, false);
    size_t const extras = from.count(kMaxExtras);
    for (size_t i = 0; i < extras; ++i) launch.extras.push_back(expression(from, false));
    size_t const images = from.count(kMaxImages);
    for (size_t i = 0; i < images; ++i) {
      launch.images.push_back(from.number<uint16_t>());
      if (launch.images.back() >= data_.images.size()) fail(variant.name, " names an image that is not there");
    }
  }

  // What a variant has besides its first launch: the workspace, and the launches after that one.
  void read_launches(Reader from) {
    if (from.count(kMaxVariants) != data_.variants.size()) fail("the section of launches is for other variants");
    for (Variant& variant : data_.variants) {
      variant.workspace = expression(from, false);
      variant.launches.front().takes_workspace = from.number<uint8_t>() != 0;
      size_t const further = from.count(kMaxLaunches - 1);
      for (size_t i = 0; i < further; ++i) {
        LaunchCode launch;
        launch.entry = from.text();
        launch.takes_workspace = from.number<uint8_t>() != 0;
        read_launch(from, variant, launch);
        variant.launches.push_back(std::move(launch));
      }
    }
    from.finish();
  }

  void read_maps(Reader from) {
    if (data_.alignment % kMapAlignment != 0) fail("the kernel has tensor maps, and addresses of any alignment");
    size_t const count = from.count(kMaxVariants * kMaxLaunches);
    for (size_t i = 0; i < count; ++i) {
      auto const variant = from.number<uint16_t>();
      auto const launch = from.number<uint16_t>();
      if (variant >= data_.variants.size() || launch >= data_.variants[variant].launches.size()) {
        fail("the section of tensor maps names a launch that is not there");
      }
      std::vector<TensorMap>& maps = data_.variants[variant].launches[launch].maps;
      if (!maps.empty()) fail("the section of tensor maps has a launch twice");
      size_t const of_launch = from.count(kMaxMaps);
      for (size_t j = 0; j < of_launch; ++j) maps.push_back(read_map(from));
    }
    from.finish();
  }

  TensorMap read_map(Reader& from) const {
    TensorMap map;
    map.input = from.number<uint16_t>();
    if (map.input >= data_.inputs.size()) fail("a tensor map is of an input that is not there");
    std::string const& name = data_.inputs[map.input].name;
    map.type = read_type(from, "the tensor map of " + name);
    size_t const rank = from.count(kMaxMapRank);
    if (rank == 0) fail("the tensor map of ", name, " has no axes");
    for (size_t i = 0; i < rank; ++i) {
      map.shape.push_back(expression(from, false));
      map.box.push_back(from.number<uint16_t>());
      if (map.box.back() == 0 || map.box.back() > kMaxBox) {
        fail("the tensor map of ", name, " has a box of ", map.box.back(), " along an axis; 1 to ", kMaxBox, " are possible");
      }
    }
    uint32_t const bytes = map.row_bytes();
    if (bytes != 32 && bytes != 64 && bytes != 128) fail("the tensor map of ", name, " has boxes with rows of ", bytes, " bytes");
    return map;
  }

  void read_tuned(Reader from) {
    size_t const count = from.count(kMaxTunedGpus);
    for (size_t i = 0; i < count; ++i) {
      TunedGpu gpu;
      gpu.name = from.text();
      gpu.sm = from.number<uint16_t>();
      gpu.multiprocessors = from.number<uint32_t>();
      size_t const choices = from.count(kMaxChoices);
      for (size_t j = 0; j < choices; ++j) {
        Expression const when = expression(from, true);
        auto const variant = from.number<uint16_t>();
        if (variant >= data_.variants.size()) fail("a tuned choice names a variant that is not there");
        gpu.choices.push_back({when, variant});
      }
      data_.tuned.push_back(std::move(gpu));
    }
    from.finish();
  }

  Expression expression(Reader& from, bool is_condition) const {
    size_t const size = from.number<uint16_t>();
    return Expression::check(from.take(size), size, data_.axes.size() + 1, is_condition);
  }

  KernelData& data_;
  uint64_t images_at_ = 0;
  uint64_t hashed_ = 0;
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> sections_;
};

std::shared_ptr<KernelData const> KernelData::read(void const* bytes, size_t size) {
  auto data = std::make_shared<KernelData>();
  auto const* first = static_cast<uint8_t const*>(bytes);
  data->bytes_.assign(first, first + size);
  KernelReader(*data).read();
  return data;
}

}  // namespace lenet_trt

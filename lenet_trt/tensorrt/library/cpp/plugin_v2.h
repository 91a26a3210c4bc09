// The plugin as TensorRT 8.5 to 9 have it.
#pragma once

#include "tensorrt.h"

#if !LENET_TRT_V3

#include <string>

namespace lenet_trt {

class CreatorV2 final : public nvinfer1::IPluginCreator {
 public:
  nvinfer1::IPluginV2* createPlugin(char const* name, nvinfer1::PluginFieldCollection const* fields) noexcept override;
  nvinfer1::IPluginV2* deserializePlugin(char const* name, void const* bytes, size_t size) noexcept override;
  nvinfer1::PluginFieldCollection const* getFieldNames() noexcept override;
  char const* getPluginName() const noexcept override { return kName; }
  char const* getPluginVersion() const noexcept override { return kVersion; }
  char const* getPluginNamespace() const noexcept override { return kNamespace; }
  void setPluginNamespace(char const*) noexcept override {}
};

}  // namespace lenet_trt

#endif

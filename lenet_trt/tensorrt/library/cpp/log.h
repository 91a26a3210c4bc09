// Messages to TensorRT's logger, or to stderr where there is none.
#pragma once

namespace lenet_trt {

enum class Severity { kError, kWarning, kInfo };

void log(Severity severity, char const* message) noexcept;

}  // namespace lenet_trt

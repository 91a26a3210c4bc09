// The layer that a grouped convolution is compiled for.
#pragma once

#include "windows/activation.cuh"
#include "windows/windows.cuh"

using T = TYPE_T;
using Layer = Windows<T, AXIS_H, AXIS_W, ATTR_SIZE, ATTR_STRIDE, ATTR_PAD>;
constexpr int kGroups = ATTR_GROUP, kChannels = AXIS_CG, kFilters = AXIS_K / kGroups;  // of a group
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

// The dense layer that linear and linear_half are compiled for: y = act(x w^T + bias), x [n, I], bias [O], y [n, O]; w is packed (packed.cuh).
#pragma once

#include "windows/activation.cuh"

using T = TYPE_T;
constexpr int kInputs = AXIS_IN, kOutputs = AXIS_OUT;
constexpr Activation kActivation = static_cast<Activation>(ATTR_ACTIVATION);

#include "linear/packed.cuh"

// The layer that linear_half_add is compiled for (linear/sizes.cuh).
#pragma once

#define ADDS_OTHER
#include "linear_half/layer.cuh"

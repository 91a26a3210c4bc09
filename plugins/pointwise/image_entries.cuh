// The entries by images of few pixels.
#pragma once

#include "pointwise/entries.cuh"
#include "pointwise/image.cuh"

POINTWISE(ENTRY(image_64_by4), pointwise_image, Image, 4, 4)
POINTWISE(ENTRY(image_32_by8), pointwise_image, Image, 2, 8)

// Where the patches of images [n, C, H, W] lie. H and W are multiples of P, so that patches [n, H / P, W / P] are the rows of a matrix.
//
// Offsets are in numbers: a tensor has less than 2^31 of them.
#pragma once

#include "patch_embedding/sizes.cuh"

// From the first number of all images to the first one of a patch.
__device__ __forceinline__ int first_of_patch(int patch) {
  constexpr int kAcross = kWidth / kSide, kDown = kHeight / kSide;
  const int row = patch / kAcross;
  return (row / kDown * (AXIS_C * kHeight) + row % kDown * kSide) * kWidth + patch % kAcross * kSide;
}

// From the first number of a patch to one of its inputs.
__device__ __forceinline__ int within_patch(int input) {
  return (input / (kSide * kSide) * kHeight + input / kSide % kSide) * kWidth + input % kSide;
}

// A patch as a row of inputs.
struct Patch {
  const T* first;
  __device__ __forceinline__ T operator[](int input) const { return first[within_patch(input)]; }
};

// A patch of images.
__device__ __forceinline__ Patch patch_of(const T* images, int patch) { return {images + first_of_patch(patch)}; }

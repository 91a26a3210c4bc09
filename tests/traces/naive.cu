// A program that does what a beginner's does: memory allocated each time, one kernel a step, and a wait after each.
#include <cstdio>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t status = (call);                                                 \
        if (status != cudaSuccess) {                                                 \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));          \
            return 1;                                                                \
        }                                                                            \
    } while (0)

namespace naive {
template <typename T, int Steps>
__global__ void scale(T* data, T factor, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        for (int step = 0; step < Steps; ++step) data[at] = data[at] * factor + T(1);
}
}  // namespace naive

int main() {
    const int count = 1 << 16;
    float* host = new float[count];
    for (int at = 0; at < count; ++at) host[at] = 1.0f;
    CHECK(cudaFree(nullptr));
    CHECK(cudaProfilerStart());
    for (int image = 0; image < 4; ++image) {
        float* data = nullptr;
        CHECK(cudaMalloc(&data, count * sizeof(float)));
        CHECK(cudaMemset(data, 0, count * sizeof(float)));
        CHECK(cudaMemcpy(data, host, count * sizeof(float), cudaMemcpyHostToDevice));
        naive::scale<float, 1><<<count / 256, 256>>>(data, 0.5f, count);
        CHECK(cudaDeviceSynchronize());
        naive::scale<float, 8><<<count / 128, 128, 1024>>>(data, 0.25f, count);
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(host, data, count * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(data));
    }
    CHECK(cudaProfilerStop());
    printf("%f\n", host[0]);
    return 0;
}

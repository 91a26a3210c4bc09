// dlopen and its kin, in the version that every glibc has: a library that is compiled on a new system loads on an old one,
// such as Ubuntu 20.04 and JetPack 5. glibc moved them in 2.34 and gave them a new version; the old one stays in it.
#pragma once

#include <dlfcn.h>

#if defined(__GLIBC__) && defined(__x86_64__)
#define LENET_TRT_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__GLIBC__) && defined(__aarch64__)
#define LENET_TRT_FIRST_GLIBC "GLIBC_2.17"
#endif
#ifdef LENET_TRT_FIRST_GLIBC
__asm__(".symver dlopen, dlopen@" LENET_TRT_FIRST_GLIBC);
__asm__(".symver dlsym, dlsym@" LENET_TRT_FIRST_GLIBC);
__asm__(".symver dladdr, dladdr@" LENET_TRT_FIRST_GLIBC);
#endif

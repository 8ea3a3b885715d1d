// kernel              does                                                                     launch
// minfer_kernels_abi… nothing. Its name carries the manifest's hash: Load looks it up to see   never
//                     whether the image fits the program.
#include "params.cuh"

extern "C" __global__ void MINFER_KERNELS_ABI() {}

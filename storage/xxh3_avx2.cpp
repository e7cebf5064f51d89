// Compiled with -mavx2; runs only where the processor has it.
#define FTRT_XXH3_KERNEL xxh3_avx2
#include "xxh3_kernel.inc"

#define FTRT_XXH3_KERNEL xxh3_portable
#include "xxh3_kernel.inc"

# LibTorch from the PyTorch wheel, CPU half only: ftrt::libtorch_cpu.
#
# The wheel's own find_package(Torch) asks for nvcc and links the CUDA libraries into everything.
# A worker needs libtorch_cpu and libc10; the two NVIDIA libraries that libtorch_cpu itself asks for
# (cudart, cupti) come from the CUDA toolkit where it is installed, else from two small wheels.
#
# FTRT_TORCH_ROOT is the folder `torch` of the wheel; default: the one in .venv.

file(GLOB ftrt_torch_candidates "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
set(FTRT_TORCH_ROOT "${ftrt_torch_candidates}" CACHE PATH "Folder `torch` of the PyTorch wheel")

if(NOT EXISTS "${FTRT_TORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found: expected lib/libtorch_cpu.so under "
                      "FTRT_TORCH_ROOT='${FTRT_TORCH_ROOT}'. Run ./tools/setup, or pass "
                      "-DFTRT_TORCH_ROOT=<site-packages>/torch.")
endif()

add_library(ftrt_libtorch_cpu INTERFACE)
add_library(ftrt::libtorch_cpu ALIAS ftrt_libtorch_cpu)
target_include_directories(
  ftrt_libtorch_cpu SYSTEM INTERFACE "${FTRT_TORCH_ROOT}/include"
                                     "${FTRT_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_directories(ftrt_libtorch_cpu INTERFACE "${FTRT_TORCH_ROOT}/lib")
target_link_libraries(ftrt_libtorch_cpu INTERFACE -Wl,--as-needed torch_cpu c10
                                                  -Wl,--allow-shlib-undefined)

file(GLOB ftrt_nvidia_lib_dirs "${FTRT_TORCH_ROOT}/../nvidia/cu13/lib")
find_path(ftrt_cuda_lib_dir NAMES libcupti.so.13
          PATHS /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 ${ftrt_nvidia_lib_dirs}
          NO_DEFAULT_PATH)
set(FTRT_TORCH_RPATH "${FTRT_TORCH_ROOT}/lib;${ftrt_cuda_lib_dir};${ftrt_nvidia_lib_dirs}")

# At most two LibTorch sources at a time: each takes 0.6 to 1.5 GB.
set_property(GLOBAL APPEND PROPERTY JOB_POOLS libtorch=2)

# Gives `target` LibTorch, the run path to find it, and the compile pool.
function(ftrt_use_libtorch target)
  target_link_libraries(${target} PUBLIC ftrt::libtorch_cpu)
  set_target_properties(${target} PROPERTIES JOB_POOL_COMPILE libtorch)
  set_property(TARGET ${target} APPEND PROPERTY BUILD_RPATH ${FTRT_TORCH_RPATH})
  set_property(TARGET ${target} APPEND PROPERTY INSTALL_RPATH ${FTRT_TORCH_RPATH})
endfunction()

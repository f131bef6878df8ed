# CUDA where nvcc is found. The server links its runtime statically, so that one binary runs with and
# without a driver.
include(CheckLanguage)
# Ampere and Hopper, and PTX for what comes after them.
set(LUNA_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING
    "What the CUDA backend's kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES")
set(CMAKE_CUDA_ARCHITECTURES ${LUNA_CUDA_ARCHITECTURES})
if(NOT DEFINED LUNA_CUDA OR LUNA_CUDA)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  set(found ON)
else()
  set(found OFF)
endif()
option(LUNA_CUDA "Build the CUDA backend's kernels" ${found})
if(LUNA_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "LUNA_CUDA is ON, but nvcc was not found (CUDACXX names it)")
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}: the cuda backend is built")
else()
  message(STATUS "no nvcc, or LUNA_CUDA is off: the cuda backend is left out")
endif()

# CUDA where nvcc is found. The server links its runtime statically, so that one binary runs with and
# without a driver. Sets LUNA_HAS_CUDA, and LUNA_TRIED_NVCC where nvcc is the one that kernels were
# tried with.
include(CheckLanguage)
set(LUNA_CUDA AUTO CACHE STRING "The CUDA backend's kernels: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE LUNA_CUDA PROPERTY STRINGS AUTO ON OFF)
# Ampere and Hopper, and PTX for what comes after them.
set(LUNA_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING
    "What the CUDA backend's kernels are compiled for, as CMAKE_CUDA_ARCHITECTURES")
set(CMAKE_CUDA_ARCHITECTURES ${LUNA_CUDA_ARCHITECTURES})
# C++20, and graphs of kernels that overlap.
set(oldest_nvcc 12.3)
set(tried_nvcc 13.0)

set(LUNA_HAS_CUDA OFF)
set(LUNA_TRIED_NVCC OFF)
set(why_not "LUNA_CUDA is OFF")
if(LUNA_CUDA)
  if(NOT EXISTS "${CMAKE_CUDA_COMPILER}")
    unset(CMAKE_CUDA_COMPILER CACHE)  # an earlier run found none, or one that has gone
  endif()
  # NVIDIA's installers leave it outside of PATH.
  find_program(nvcc nvcc PATHS /usr/local/cuda/bin /opt/cuda/bin NO_CACHE)
  if(nvcc AND NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${nvcc})
  endif()
  check_language(CUDA)
  set(why_not "no nvcc that works was found (CUDACXX names it)")
  if(CMAKE_CUDA_COMPILER)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE about ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ignored "${about}")
    set(nvcc_version "${CMAKE_MATCH_1}")
    set(why_not "${CMAKE_CUDA_COMPILER} is of CUDA '${nvcc_version}'; at least ${oldest_nvcc} is needed")
    if(nvcc_version VERSION_GREATER_EQUAL oldest_nvcc)
      set(LUNA_HAS_CUDA ON)
    else()
      unset(CMAKE_CUDA_COMPILER CACHE)  # the next run may find another
    endif()
    if(nvcc_version VERSION_EQUAL tried_nvcc)
      set(LUNA_TRIED_NVCC ON)
    endif()
  endif()
endif()

if(LUNA_HAS_CUDA)
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}: the cuda backend is built for ${LUNA_CUDA_ARCHITECTURES}")
elseif(LUNA_CUDA STREQUAL "AUTO" OR NOT LUNA_CUDA)
  message(STATUS "the cuda backend is left out: ${why_not}")
else()
  message(FATAL_ERROR "LUNA_CUDA is ON, but ${why_not}")
endif()

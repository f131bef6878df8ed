# Language level, warnings, sanitizers and the compiler cache: one place, for every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(LUNA_CCACHE ccache)
if(LUNA_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LUNA_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${LUNA_CCACHE}")
endif()

# Linked by every target of ours through luna_library() and its kin; generated code is left alone.
add_library(luna_warnings INTERFACE)
target_compile_options(luna_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>")

# The same bits whatever a kernel is inlined into: a product and its sum are contracted to an FMA
# only where the source says so.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>")

if(LUNA_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=address,undefined)
elseif(LUNA_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(LUNA_SANITIZE)
  message(FATAL_ERROR "LUNA_SANITIZE is '${LUNA_SANITIZE}'; it may be empty, address or thread")
endif()

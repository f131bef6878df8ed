// Keys that nobody can guess: whoever has one may use what it stands for.
#ifndef LUNA_CORE_ENGINE_RANDOM_KEY_H_
#define LUNA_CORE_ENGINE_RANDOM_KEY_H_

#include <string>

namespace luna::engine {

// 128 bits from the operating system's generator, as 32 hexadecimal digits. Thread-safe.
std::string RandomKey();

}  // namespace luna::engine

#endif  // LUNA_CORE_ENGINE_RANDOM_KEY_H_

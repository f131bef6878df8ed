// Early return on error for functions that return absl::Status or absl::StatusOr.
#ifndef LUNA_CORE_BASE_STATUS_MACROS_H_
#define LUNA_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LUNA_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                     \
    if (absl::Status luna_status_ = (expression); !luna_status_.ok()) return luna_status_; \
  } while (false)

#define LUNA_STATUS_CONCAT_INNER_(a, b) a##b
#define LUNA_STATUS_CONCAT_(a, b) LUNA_STATUS_CONCAT_INNER_(a, b)

// LUNA_ASSIGN_OR_RETURN(auto value, MakeValue());
#define LUNA_ASSIGN_OR_RETURN(declaration, expression)                                    \
  LUNA_ASSIGN_OR_RETURN_IMPL_(LUNA_STATUS_CONCAT_(luna_statusor_, __LINE__), declaration, \
                              expression)
#define LUNA_ASSIGN_OR_RETURN_IMPL_(statusor, declaration, expression) \
  auto statusor = (expression);                                        \
  if (!statusor.ok()) return std::move(statusor).status();             \
  declaration = *std::move(statusor)

#endif  // LUNA_CORE_BASE_STATUS_MACROS_H_

#ifndef STRATA_COMMON_JOB_JOB_KEYS_H_
#define STRATA_COMMON_JOB_JOB_KEYS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/seal/seal.h"
#include "proto/record.pb.h"

namespace strata {

// Returns the keys of a job's frames, from its record; nullopt: the job does not seal them.
// `own_address`: see seal::JobKeys. Errors: InvalidArgument: protection and secret conflict.
absl::StatusOr<std::optional<seal::JobKeys>> KeysOf(const proto::JobRecord& record,
                                                    const std::string& own_address);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_JOB_KEYS_H_

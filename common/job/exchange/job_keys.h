#ifndef STRATA_COMMON_JOB_EXCHANGE_JOB_KEYS_H_
#define STRATA_COMMON_JOB_EXCHANGE_JOB_KEYS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/seal/job_keys.h"
#include "proto/record.pb.h"

namespace strata {

// What the frames of a job are sealed with, as its record says; nullopt: they are not.
// `own_address`: see seal::JobKeys. Errors: InvalidArgument: protection and secret do not go
// together.
absl::StatusOr<std::optional<seal::JobKeys>> KeysOf(const proto::JobRecord& record,
                                                    const std::string& own_address);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_EXCHANGE_JOB_KEYS_H_

#ifndef STRATA_COMMON_SEAL_JOB_KEYS_H_
#define STRATA_COMMON_SEAL_JOB_KEYS_H_

#include <cstdint>
#include <string>

#include "common/seal/seal.h"

namespace strata::seal {

// What the frames of one job are sealed with.
struct JobKeys {
  Protection protection = Protection::kEncrypt;
  Secret secret = {};
  // How often the job was started before: each start has keys of its own.
  uint32_t attempt = 0;
  // The address under which the job's record names this endpoint; empty: nobody connects to it.
  std::string own_address = {};

  bool operator==(const JobKeys&) const = default;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_JOB_KEYS_H_

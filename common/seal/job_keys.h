#ifndef STRATA_COMMON_SEAL_JOB_KEYS_H_
#define STRATA_COMMON_SEAL_JOB_KEYS_H_

#include <cstdint>

#include "common/seal/seal.h"

namespace strata::seal {

// What the frames of one job are sealed with.
struct JobKeys {
  Protection protection = Protection::kEncrypt;
  Secret secret = {};
  // How often the job was started before: each start has keys of its own.
  uint32_t attempt = 0;
};

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_JOB_KEYS_H_

#ifndef STRATA_CLI_RENDER_RENDER_KEYS_H_
#define STRATA_CLI_RENDER_RENDER_KEYS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/keys.pb.h"

namespace strata::cli {

// Who has keys, whose were taken back, and which tokens are open.
std::string KeysText(const proto::ListKeysReply& keys, absl::Time now);
std::string KeysJson(const proto::ListKeysReply& keys);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_KEYS_H_

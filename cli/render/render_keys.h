#ifndef STRATA_CLI_RENDER_RENDER_KEYS_H_
#define STRATA_CLI_RENDER_RENDER_KEYS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/keys.pb.h"

namespace strata::cli {

// Lists holders of keys, revoked keys, and open tokens.
std::string KeysText(const proto::ListKeysReply& keys, absl::Time now);
std::string KeysJson(const proto::ListKeysReply& keys);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_RENDER_KEYS_H_

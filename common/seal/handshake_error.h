#ifndef STRATA_COMMON_SEAL_HANDSHAKE_ERROR_H_
#define STRATA_COMMON_SEAL_HANDSHAKE_ERROR_H_

#include "absl/status/status.h"

namespace strata::seal {

// Why OpenSSL gave a handshake up, from this thread's queue of errors, in one line with OpenSSL's
// own words: PermissionDenied: the peer does not know the secret, or says that we do not.
// InvalidArgument: what it says is something else.
absl::Status HandshakeError();

}  // namespace strata::seal

#endif  // STRATA_COMMON_SEAL_HANDSHAKE_ERROR_H_

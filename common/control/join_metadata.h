#ifndef STRATA_COMMON_CONTROL_JOIN_METADATA_H_
#define STRATA_COMMON_CONTROL_JOIN_METADATA_H_

#include <cstddef>

namespace strata::control {

// Where a call of Join has its JoinRequest: in its metadata, as bytes. Its message is empty.
// Anybody may join who has a token, so the coordinator reads no message before it has seen the
// token: gRPC bounds metadata by 8 KiB, and a message by what the largest job needs.
inline constexpr char kJoinMetadata[] = "strata-join-bin";

// The largest request: a name, a token's secret and a request for a certificate.
inline constexpr size_t kJoinBytesMax = 4096;

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_JOIN_METADATA_H_

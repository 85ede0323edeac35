#ifndef STRATA_COMMON_CONTROL_CALLS_CHANNEL_TO_H_
#define STRATA_COMMON_CONTROL_CALLS_CHANNEL_TO_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/addresses.h"
#include "common/control/credentials.h"

namespace strata::control {

// Connects to the coordinator for one call or stream: to that of the round's address, or over the
// Unix socket that `coordinator` names. Waits until it is there, up to `until`; with several
// addresses up to a second. Errors: Unavailable: it is not there by then, perhaps without a text;
// FailedPrecondition: there are no keys for it, or who answers is not to be trusted;
// PermissionDenied: another user listens at the Unix socket.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& coordinator,
                                                         const AddressRound& round,
                                                         const Credentials& credentials,
                                                         absl::Time until);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CALLS_CHANNEL_TO_H_

#ifndef STRATA_PROTO_COMPATIBILITY_MESSAGE_LIST_H_
#define STRATA_PROTO_COMPATIBILITY_MESSAGE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::proto {

// What a program that was built from these .proto files says on the wire, a line for each field,
// value and call, sorted:
//   field strata.proto.Register 2 uint32 slots
//   field strata.proto.JobStatus 16 repeated strata.proto.Wait waits
//   reserved strata.proto.JobStatus 9
//   value strata.proto.JobState 2 RUNNING
//   call strata.proto.Coordinator.Follow strata.proto.JobRef stream strata.proto.FollowEvent
// `root` is the top of a source tree, `files` are named from there. Errors: InvalidArgument, one
// line: a file that cannot be read, with the place.
absl::StatusOr<std::vector<std::string>> ListMessages(const std::string& root,
                                                      const std::vector<std::string>& files);

// What of an earlier list a program of the newer one would not understand, a line each; empty: the
// two can talk. Names of fields and values do not matter, numbers that are reserved have been given
// up, and are not used for anything else.
std::vector<std::string> Breaks(const std::vector<std::string>& earlier,
                                const std::vector<std::string>& newer);

}  // namespace strata::proto

#endif  // STRATA_PROTO_COMPATIBILITY_MESSAGE_LIST_H_

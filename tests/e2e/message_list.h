#ifndef STRATA_TESTS_E2E_MESSAGE_LIST_H_
#define STRATA_TESTS_E2E_MESSAGE_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::proto {

// Returns the wire messages of programs built from these .proto files, given as the
// FileDescriptorSet that protoc writes: a line for each field, value and call, sorted:
//   field strata.proto.Register 2 uint32 slots
//   field strata.proto.JobStatus 16 repeated strata.proto.Wait waits
//   reserved strata.proto.JobStatus 9
//   value strata.proto.JobState 2 RUNNING
//   call strata.proto.Coordinator.Follow strata.proto.JobRef stream strata.proto.FollowEvent
// Errors: InvalidArgument: it is no such set, or a file is missing in it.
absl::StatusOr<std::vector<std::string>> ListMessages(const std::string& descriptor_set);

// Returns one line for each thing in an earlier list that a program of the newer one would not
// understand; empty: the two can talk. Names of fields and values do not matter. Reserved numbers
// have been given up and are never reused.
std::vector<std::string> Breaks(const std::vector<std::string>& earlier,
                                const std::vector<std::string>& newer);

}  // namespace strata::proto

#endif  // STRATA_TESTS_E2E_MESSAGE_LIST_H_

#ifndef STRATA_COMPARE_VIRTUAL_TIME_TASK_REPLY_H_
#define STRATA_COMPARE_VIRTUAL_TIME_TASK_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "compare/virtual_time/task_reply.pb.h"

namespace strata::compare {

// Version of the protocol between engine and task: a line of JSON each way, tensors in shared
// memory. Both sides, including python/strata/_serve.py, have the same version.
inline constexpr uint32_t kTaskVersion = 1;
inline constexpr size_t kTaskLineBytesMax = size_t{1} << 20;
inline constexpr uint64_t kTaskElementsMax = uint64_t{1} << 31;
inline constexpr uint32_t kTaskSamplesMax = 65536;  // the same limit as of program.samples_per_rank
inline constexpr uint64_t kTaskStepsMax = uint64_t{1} << 40;

// Parses a line that must hold `what`. Errors: InvalidArgument, one line: an error reported by the
// task, text that is not a reply, another reply, or impossible numbers.
absl::StatusOr<proto::TaskReply> ParseTaskReply(const std::string& line,
                                                proto::TaskReply::WhatCase what);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_TASK_REPLY_H_

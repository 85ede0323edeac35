#include "compare/virtual_time/problem/task_reply.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"

namespace strata::compare {
namespace {

absl::Status Refuse(const std::string& text) { return absl::InvalidArgumentError(text); }

absl::Status InRange(const char* name, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Refuse(absl::StrFormat("%s: %d, must be from %d to %d", name, value, least, most));
}

absl::Status CheckTensors(const proto::TaskDescription& task) {
  if (task.tensors().empty()) return Refuse("params: there are none");
  std::set<std::string> names;
  uint64_t elements = 0;
  for (const proto::TaskTensor& tensor : task.tensors()) {
    if (!names.insert(tensor.name()).second) {
      return Refuse(absl::StrCat("params: \"", tensor.name(), "\" is there twice"));
    }
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape()) {
      if (extent == 0 || extent > kTaskElementsMax || count > kTaskElementsMax / extent) {
        return Refuse(absl::StrCat("params: \"", tensor.name(), "\": has no or too many elements"));
      }
      count *= extent;
    }
    elements += count;
    if (elements <= kTaskElementsMax) continue;
    return Refuse(absl::StrCat("params: more than ", kTaskElementsMax, " elements in all"));
  }
  return absl::OkStatus();
}

absl::Status CheckDescription(const proto::TaskDescription& task) {
  if (task.version() != kTaskVersion) {
    return Refuse(
        absl::StrFormat("this strata serves tasks of version %d, the package strata of "
                        "the script has version %d",
                        kTaskVersion, task.version()));
  }
  for (const absl::Status& status :
       {CheckTensors(task), InRange("batch", task.batch(), 1, kTaskSamplesMax),
        InRange("steps_per_epoch", task.steps_per_epoch(), 1, kTaskStepsMax),
        InRange("steps in all", task.total_steps(), 1, kTaskStepsMax),
        InRange("evaluate_every", task.evaluate_every(), 0, kTaskStepsMax)}) {
    if (!status.ok()) return status;
  }
  if (task.rate() >= 0 && task.rate() <= 1e30) return absl::OkStatus();
  return Refuse(absl::StrFormat("optimizer: lr: %g, must be at least 0", task.rate()));
}

}  // namespace

absl::StatusOr<proto::TaskReply> ParseTaskReply(const std::string& line,
                                                proto::TaskReply::WhatCase what) {
  proto::TaskReply reply;
  if (const auto read = google::protobuf::util::JsonStringToMessage(line, &reply); !read.ok()) {
    return Refuse(absl::StrCat("the task's answer is none: ", std::string(read.message())));
  }
  if (reply.what_case() == proto::TaskReply::kFailed) {
    return Refuse(reply.failed().empty() ? "the task says no reason" : reply.failed());
  }
  if (reply.what_case() != what) {
    return Refuse(absl::StrFormat("the task answers %d to what is %d of TaskReply",
                                  static_cast<int>(reply.what_case()), static_cast<int>(what)));
  }
  absl::Status status;
  if (reply.has_described()) status = CheckDescription(reply.described());
  if (reply.has_computed()) {
    status = InRange("samples", reply.computed().samples(), 1, kTaskSamplesMax);
  }
  if (!status.ok()) return status;
  return reply;
}

}  // namespace strata::compare

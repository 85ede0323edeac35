#include "compare/virtual_time/task_reply.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
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

// Names that a report of a live rank may have.
absl::Status CheckNames(const proto::TaskMeasured& measured) {
  for (const auto& [name, value] : measured.values()) {
    const bool fits = !name.empty() && name.size() <= 64 &&
                      std::all_of(name.begin(), name.end(), [](unsigned char c) {
                        return absl::ascii_isalnum(c) || absl::StrContains("._-/", c);
                      });
    if (fits) continue;
    return Refuse(absl::StrCat("evaluate: \"", absl::CEscape(name).substr(0, 128),
                               "\": a name has 1 to 64 letters, digits and characters of ._-/"));
  }
  return absl::OkStatus();
}

std::string ReplyNameOf(proto::TaskReply::WhatCase what) {
  const auto* const field = proto::TaskReply::descriptor()->FindFieldByNumber(what);
  return field == nullptr ? "nothing" : field->name();
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
    return Refuse(absl::StrFormat("the task answers %s, not %s", ReplyNameOf(reply.what_case()),
                                  ReplyNameOf(what)));
  }
  absl::Status status;
  if (reply.has_described()) status = CheckDescription(reply.described());
  if (reply.has_computed()) {
    status = InRange("samples", reply.computed().samples(), 1, kTaskSamplesMax);
  }
  if (reply.has_measured()) status = CheckNames(reply.measured());
  if (!status.ok()) return status;
  return reply;
}

}  // namespace strata::compare

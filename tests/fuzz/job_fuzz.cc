// A job file and settings on top of it: refused with one line, or a job that can be printed and
// read back, checked, and asked for its learning rate.
//
// Input: the job's text; after a 0 byte, settings ("path=value"), one a line.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "tests/fuzz/check.h"

namespace strata {
namespace {

void CheckRefusal(const absl::Status& status) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(!status.message().empty());
}

void Use(const proto::Job& job) {
  FUZZ_CHECK(!ModeName(job.consistency()).empty());
  MakeOptimizerParams(job.optimizer());
  for (const uint64_t samples : {uint64_t{1}, uint64_t{1000}, UINT64_MAX}) {
    const double rate = LearningRateAt(job.schedule(), samples, 1000, job.epochs());
    FUZZ_CHECK(rate >= 0);
  }
}

void Fuzz(const std::string& text, const std::vector<std::string>& settings) {
  absl::StatusOr<proto::Job> job = ParseJob(text, "fuzz");
  if (!job.ok()) return CheckRefusal(job.status());
  if (absl::Status set = ApplySettings(settings, &*job); !set.ok()) return CheckRefusal(set);
  FillDefaults(&*job);
  const std::string printed = JobToText(*job);
  const absl::StatusOr<proto::Job> again = ParseJob(printed, "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(JobToText(*again) == printed);
  if (absl::Status valid = ValidateJob(*job); !valid.ok()) return CheckRefusal(valid);
  FUZZ_CHECK(ValidateJob(*again).ok());
  Use(*job);
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  std::vector<std::string> settings;
  if (end < size) {
    for (absl::string_view line : absl::StrSplit(input.substr(end + 1), '\n', absl::SkipEmpty())) {
      settings.emplace_back(line);
    }
  }
  strata::Fuzz(input.substr(0, end), settings);
  return 0;
}

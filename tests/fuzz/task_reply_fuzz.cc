// What a served task answers: refused with one line, or an answer of the kind that was asked for, a
// description of which fits into memory.
//
// Input: the number of the kind; then the line.
#include <cstdint>
#include <string>

#include "compare/virtual_time/task_reply.h"
#include "tests/fuzz/check.h"

namespace strata::compare {
namespace {

void Fuzz(proto::TaskReply::WhatCase what, const std::string& line) {
  const absl::StatusOr<proto::TaskReply> reply = ParseTaskReply(line, what);
  if (!reply.ok()) {
    FUZZ_CHECK(reply.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(!reply.status().message().empty());
    return;
  }
  FUZZ_CHECK(reply->what_case() == what);
  uint64_t elements = 0;
  for (const proto::TaskTensor& tensor : reply->described().tensors()) {
    uint64_t count = 1;
    for (const uint64_t extent : tensor.shape()) count *= extent;
    FUZZ_CHECK(count > 0 && count <= kTaskElementsMax);
    elements += count;
  }
  FUZZ_CHECK(elements <= kTaskElementsMax);
  FUZZ_CHECK(!reply->has_described() || (elements > 0 && reply->described().total_steps() > 0));
  FUZZ_CHECK(!reply->has_computed() || reply->computed().samples() > 0);
}

}  // namespace
}  // namespace strata::compare

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto what = static_cast<strata::proto::TaskReply::WhatCase>(2 + data[0] % 4);
  strata::compare::Fuzz(what, std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}

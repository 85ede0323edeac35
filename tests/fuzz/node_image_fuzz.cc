// The reader of checkpoints' nodes: refuses a file, or returns an image that is written and read
// again as the same one.
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto image = strata::ParseNodeImageFile(
      strata::OwnBytes(std::string(reinterpret_cast<const char*>(data), size)), "fuzz");
  if (!image.ok()) {
    FUZZ_CHECK(image.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(image.status().message().find("fuzz: ") == 0);
    return 0;
  }
  const std::string once = strata::Joined(strata::MakeNodeImageFile(*image));
  const auto again = strata::ParseNodeImageFile(strata::OwnBytes(once), "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(strata::Joined(strata::MakeNodeImageFile(*again)) == once);
  return 0;
}

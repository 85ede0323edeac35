// The reader of checkpoints' chunks: refuses a file, or returns images that are written and read
// again as the same ones.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto images = strata::ParseImageFile(
      strata::OwnBytes(std::string(reinterpret_cast<const char*>(data), size)), "fuzz");
  if (!images.ok()) {
    FUZZ_CHECK(images.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(images.status().message().find("fuzz: ") == 0);
    return 0;
  }
  const std::string once = strata::Joined(strata::MakeImageFile(*images));
  const auto again = strata::ParseImageFile(strata::OwnBytes(once), "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->size() == images->size());
  FUZZ_CHECK(strata::Joined(strata::MakeImageFile(*again)) == once);
  return 0;
}

// The reader of checkpoints' chunks: refuses a file, or returns images that are written and read
// again as the same ones.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/image/image_file.h"
#include "tests/fuzz/check.h"

namespace {

strata::Bytes Own(std::string content) {
  const auto owner = std::make_shared<std::string>(std::move(content));
  return strata::Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size());
}

std::string Joined(const strata::ImageFile& file) {
  std::string joined;
  for (const auto piece : file.Pieces()) joined.append(piece.data(), piece.size());
  return joined;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto images =
      strata::ParseImageFile(Own(std::string(reinterpret_cast<const char*>(data), size)), "fuzz");
  if (!images.ok()) {
    FUZZ_CHECK(images.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(images.status().message().find("fuzz: ") == 0);
    return 0;
  }
  const std::string once = Joined(strata::MakeImageFile(*images));
  const auto again = strata::ParseImageFile(Own(once), "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->size() == images->size());
  FUZZ_CHECK(Joined(strata::MakeImageFile(*again)) == once);
  return 0;
}

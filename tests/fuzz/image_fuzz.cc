// The readers of checkpoints' chunks and of their rows: refuse a file, or return images that are
// written and read again as the same ones. The one that reads chunks in pieces takes what the other
// takes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/image/image_bytes.h"
#include "common/image/image_file.h"
#include "common/image/rows_image.h"
#include "tests/fuzz/check.h"

namespace {

// Reads the file in pieces, of a size that it says itself.
absl::StatusOr<std::vector<strata::ChunkImage>> ReadInPieces(const std::string& file) {
  const size_t piece = file.empty() ? 1 : 1 + static_cast<uint8_t>(file.back());
  strata::ImageStream stream(file.size(), "fuzz");
  std::vector<strata::ChunkImage> images;
  for (size_t at = 0; at < file.size(); at += piece) {
    absl::Status taken = stream.Take(file.substr(at, piece), &images);
    if (!taken.ok()) return taken;
  }
  if (absl::Status ended = stream.Finish(); !ended.ok()) return ended;
  std::sort(images.begin(), images.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return images;
}

void CheckRows(const std::string& file) {
  const auto rows = strata::ParseRowsImageFile(strata::OwnBytes(file), "fuzz");
  if (!rows.ok()) {
    FUZZ_CHECK(rows.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(rows.status().message().find("fuzz: ") == 0);
    return;
  }
  const std::string once = strata::Joined(strata::MakeRowsImageFile(*rows));
  const auto again = strata::ParseRowsImageFile(strata::OwnBytes(once), "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(strata::Joined(strata::MakeRowsImageFile(*again)) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  CheckRows(file);
  const auto images = strata::ParseImageFile(strata::OwnBytes(file), "fuzz");
  const auto in_pieces = ReadInPieces(file);
  FUZZ_CHECK(in_pieces.ok() == images.ok());
  if (!images.ok()) {
    FUZZ_CHECK(in_pieces.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(in_pieces.status().message().find("fuzz: ") == 0);
    FUZZ_CHECK(images.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(images.status().message().find("fuzz: ") == 0);
    return 0;
  }
  const std::string once = strata::Joined(strata::MakeImageFile(*images));
  const auto again = strata::ParseImageFile(strata::OwnBytes(once), "again");
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(strata::Joined(strata::MakeImageFile(*in_pieces)) == once);
  FUZZ_CHECK(again->size() == images->size());
  FUZZ_CHECK(strata::Joined(strata::MakeImageFile(*again)) == once);
  return 0;
}

// The IDX reader, plain and gzip: refuses a file, or returns exactly as many bytes as its
// dimensions say.
//
// Input: a byte, whose parity chooses between labels (1 dimension) and images (3), and the file.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tests/fuzz/check.h"
#include "training/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const strata::tests::MemoryFile file(data + 1, size - 1);
  const uint32_t dimensions = (data[0] & 1) != 0 ? 3 : 1;
  const auto array = strata::training::ReadIdx(file.path(), dimensions);
  if (!array.ok()) {
    FUZZ_CHECK(array.status().code() == absl::StatusCode::kInvalidArgument ||
               array.status().code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(array.status().message().find(file.path()) != std::string::npos);
    return 0;
  }
  FUZZ_CHECK(array->dimensions.size() == dimensions);
  uint64_t product = 1;
  for (const uint32_t dimension : array->dimensions) product *= dimension;
  FUZZ_CHECK(product == array->values.size());
  return 0;
}

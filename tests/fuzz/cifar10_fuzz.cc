// The CIFAR-10 reader: refuses a file, or returns exactly the samples that it holds.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tests/fuzz/check.h"
#include "training/data/cifar10.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::training::kCifar10Pixels;
  const strata::tests::MemoryFile file(data, size);
  const auto read = strata::training::ReadCifar10File(file.path());
  if (!read.ok()) {
    FUZZ_CHECK(read.status().code() == absl::StatusCode::kInvalidArgument ||
               read.status().code() == absl::StatusCode::kDataLoss);
    FUZZ_CHECK(read.status().message().find(file.path()) != std::string::npos);
    return 0;
  }
  FUZZ_CHECK(read->size() * (1 + kCifar10Pixels) == size);
  FUZZ_CHECK(read->pixels.size() == read->size() * kCifar10Pixels);
  for (const uint16_t label : read->labels) FUZZ_CHECK(label < read->classes);
  return 0;
}

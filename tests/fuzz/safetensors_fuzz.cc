// The safetensors reader: refuses a file, or returns tensors that hold exactly the values that the
// file has after its header; likewise of any type, of which the file has all bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/image/safetensors.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own exact size: a read beyond it is a crash.
  const std::vector<char> content(data, data + size);
  const auto model = strata::ParseSafetensors(content, "fuzz");
  const auto any = strata::ViewSafetensorsOfAnyType(content, "fuzz");
  FUZZ_CHECK(any.ok() || any.status().code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(any.ok() || !model.ok());  // fp32 is one of the types
  size_t bytes = 0;
  if (any.ok()) {
    for (const strata::TensorView& tensor : any->tensors) bytes += tensor.values.size();
  }
  FUZZ_CHECK(bytes <= size);
  if (!model.ok()) {
    FUZZ_CHECK(model.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(model.status().message().find("fuzz: ") == 0);
    return 0;
  }
  uint64_t values = 0;
  for (const strata::SavedTensor& tensor : model->tensors) {
    uint64_t product = 1;
    for (const uint64_t dimension : tensor.shape) product *= dimension;
    FUZZ_CHECK(product == tensor.values.size());
    values += product;
  }
  FUZZ_CHECK(8 + 4 * values <= size);
  return 0;
}

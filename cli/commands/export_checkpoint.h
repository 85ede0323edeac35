#ifndef STRATA_CLI_COMMANDS_EXPORT_CHECKPOINT_H_
#define STRATA_CLI_COMMANDS_EXPORT_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"

namespace strata::cli {

struct ExportOptions {
  std::string out;               // the file
  std::optional<uint64_t> step;  // absent: the newest whole one
  bool optimizer = false;        // its state, too
  // Before an object is read, and how many bytes of the checkpoint have been; may be null.
  std::function<void(const Manifest& manifest, const ObjectFacts& object, uint64_t bytes_before)>
      on_object;
  // A newer checkpoint that is not taken, and why, one line; may be null.
  std::function<void(const std::string& text)> on_passed_over;
};

struct Exported {
  Manifest manifest;
  size_t tensors = 0;  // weights and state
  uint64_t bytes = 0;  // of all tensors
  std::vector<std::string> notes;
};

// Writes the tensors of a checkpoint (named_tensors.h) as a safetensors file, over one that is
// there. Errors: NotFound (no checkpoint, none of that step), InvalidArgument (`out`; one that is
// not complete or of another format; none is whole; its job's weights are in none), DataLoss (the
// one of that step is damaged), the store's; nothing is written then.
absl::StatusOr<Exported> ExportCheckpoint(Store& store, const ExportOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_EXPORT_CHECKPOINT_H_

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
  bool optimizer = false;        // also its state
  std::string table;             // the rows of this one, and nothing else; empty: the tensors
  // Called before an object is read, with the number of bytes read so far; may be null.
  std::function<void(const Manifest& manifest, const ObjectFacts& object, uint64_t bytes_before)>
      on_object;
  // Called for a newer checkpoint that is skipped, with the reason in one line; may be null.
  std::function<void(const std::string& text)> on_passed_over;
};

struct Exported {
  Manifest manifest;
  size_t tensors = 0;  // weights and state
  uint64_t bytes = 0;  // of all tensors
  std::vector<std::string> notes;
};

// Writes the tensors of a checkpoint (named_tensors.h) as a safetensors file, replacing an existing
// one. Errors, after which nothing is written: NotFound (no checkpoint, none of that step),
// InvalidArgument (`out`; one that is incomplete or of another format; none is whole; none has the
// job's weights), DataLoss (the one of that step is damaged), the store's.
absl::StatusOr<Exported> ExportCheckpoint(Store& store, const ExportOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_EXPORT_CHECKPOINT_H_

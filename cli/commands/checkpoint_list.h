#ifndef STRATA_CLI_COMMANDS_CHECKPOINT_LIST_H_
#define STRATA_CLI_COMMANDS_CHECKPOINT_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"

namespace strata::cli {

enum class CheckpointState {
  kComplete,    // a manifest, and all objects that it names
  kIncomplete,  // no manifest: it is being written, or its writers have died
  kBroken,      // a manifest that is unusable, or a missing object
};

// A checkpoint of a store, as far as names and manifests tell.
struct CheckpointEntry {
  uint64_t clock = 0;
  CheckpointState state = CheckpointState::kIncomplete;
  std::string why;                   // if it is not complete; one line
  std::optional<Manifest> manifest;  // if it can be read
  uint64_t objects = 0;              // existing ones, without the manifest
};

// Returns the sum of the sizes of its objects.
uint64_t BytesOf(const Manifest& manifest);
// "complete", "incomplete", "broken".
std::string NameOf(CheckpointState state);

// Returns all checkpoints of a store, newest last. Reads only manifests. Errors: NotFound (no
// checkpoint); the store's.
absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(Store& store);

// Returns the checkpoint at a clock. Errors: NotFound, naming the existing ones.
absl::StatusOr<CheckpointEntry> FindCheckpoint(const std::vector<CheckpointEntry>& entries,
                                               uint64_t clock, const std::string& where);

// A table of checkpoints; and JSON, in which the content of an unusable manifest is null.
std::string CheckpointsText(const std::vector<CheckpointEntry>& entries);
std::string CheckpointsJson(const std::vector<CheckpointEntry>& entries);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_CHECKPOINT_LIST_H_

#ifndef STRATA_CLI_COMMANDS_VERIFY_CHECKPOINT_H_
#define STRATA_CLI_COMMANDS_VERIFY_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/commands/checkpoint_list.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"

namespace strata::cli {

enum class VerdictKind {
  kWhole,
  kIncomplete,  // it had no manifest when listed
  kBroken,
  kRemoved,  // its manifest has since been deleted: a job removes its older checkpoints
};

// The result of reading one checkpoint.
struct Verdict {
  VerdictKind kind;
  std::string text;  // one line
};

// Reads all objects of a listed checkpoint, with the checks of a job that resumes from it.
// `on_object` is called before an object is read, with the number of bytes read so far. Errors:
// Unavailable: the store.
absl::StatusOr<Verdict> VerifyCheckpoint(
    Store& store, const CheckpointEntry& entry,
    const std::function<void(const ObjectFacts& object, uint64_t bytes_before)>& on_object);

// Counts of checkpoints by result.
struct VerdictCounts {
  size_t whole = 0, incomplete = 0, broken = 0, removed = 0;

  void Add(VerdictKind kind);
  size_t all() const { return whole + incomplete + broken + removed; }
  // Returns whether a job can resume from these checkpoints, and none is broken. One without a
  // manifest may still be written, and one that was removed is gone: neither matters beside a whole
  // one.
  bool AreGood() const { return whole > 0 && broken == 0; }
  // Returns whether new checkpoints have appeared while these were read.
  bool AreOutdated() const { return whole == 0 && broken == 0 && removed > 0; }
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_VERIFY_CHECKPOINT_H_

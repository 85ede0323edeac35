#ifndef STRATA_CLI_CHECKPOINT_VERIFY_CHECKPOINT_H_
#define STRATA_CLI_CHECKPOINT_VERIFY_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/checkpoint/checkpoint_list.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"

namespace strata::cli {

// What came of reading one checkpoint.
struct Verdict {
  enum Kind {
    kWhole,
    kIncomplete,  // it had no manifest when it was listed
    kBroken,
    kRemoved,  // what was missing has been taken away meanwhile, as a job does that has newer ones
  };
  Kind kind;
  std::string text;  // one line
};

// Reads all objects of a checkpoint of the list, and checks what a job that goes on from it would.
// `on_object` is told before an object is read, and how many bytes of others have been. Errors:
// Unavailable: the store.
absl::StatusOr<Verdict> VerifyCheckpoint(
    Store& store, const CheckpointEntry& entry,
    const std::function<void(const ObjectFacts& object, uint64_t bytes_before)>& on_object);

}  // namespace strata::cli

#endif  // STRATA_CLI_CHECKPOINT_VERIFY_CHECKPOINT_H_

#ifndef STRATA_WORKER_CLIENT_CONNECT_COLLECTIVE_H_
#define STRATA_WORKER_CLIENT_CONNECT_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::mpi {

// The part of MPI that a rank needs. Every rank makes the same calls in the same order, except Post
// and Take.
//
// Threads: one. Errors are Unavailable and name the call; nothing works after one.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Starts to sum `values` over all ranks, in place; the caller must not touch them until that is
  // done. Returns the sum's number.
  virtual absl::StatusOr<uint64_t> StartSum(absl::Span<float> values) = 0;
  // Returns whether a sum is done, without waiting; makes progress on all of them.
  virtual absl::StatusOr<bool> IsDone(uint64_t sum) = 0;
  // Blocks until it is done; forgets it.
  virtual absl::Status Wait(uint64_t sum) = 0;

  // Both block: sum `values` over all ranks; take the maximum of each.
  virtual absl::Status Sum(absl::Span<uint64_t> values) = 0;
  virtual absl::Status Max(absl::Span<uint64_t> values) = 0;

  // Post sends a message to rank 0; Take returns the next one received. Messages of one rank stay
  // in order. Neither blocks. Only rank 0 takes, and it does not post.
  virtual absl::Status Post(const std::string& message) = 0;
  virtual absl::StatusOr<std::optional<std::string>> Take() = 0;

  // Ends all ranks' processes at once; the launcher reports it.
  virtual void Abort(int exit_status) = 0;
};

class Collective;

// Changed whenever Collective changes: program and plugin must come from one build.
inline constexpr char kPluginVersion[] = "1";
inline constexpr char kPluginEntry[] = "StrataMpiStart";

// Starts MPI; the caller owns the result. On failure returns null and sets `error`.
using PluginEntry = Collective* (*)(const char* version, char* error, size_t error_size);

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_CONNECT_COLLECTIVE_H_

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
// Threads: one. Errors are Unavailable and name the call; nothing works after
// one.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t ranks() const = 0;

  // Begins to add `values` over all ranks, in place; they are not to be touched
  // until that is done. Returns the sum's number.
  virtual absl::StatusOr<uint64_t> StartSum(absl::Span<float> values) = 0;
  // True if a sum is done, without waiting; moves all of them on.
  virtual absl::StatusOr<bool> IsDone(uint64_t sum) = 0;
  // Blocks until it is done; forgets it.
  virtual absl::Status Wait(uint64_t sum) = 0;

  // Blocks: adds `values` over all ranks; takes the largest of each.
  virtual absl::Status Sum(absl::Span<uint64_t> values) = 0;
  virtual absl::Status Max(absl::Span<uint64_t> values) = 0;

  // A message to rank 0, which takes the next one that has come. Messages of
  // one rank stay in order. Neither blocks. Rank 0 alone takes, and
  // does not post.
  virtual absl::Status Post(const std::string& message) = 0;
  virtual absl::StatusOr<std::optional<std::string>> Take() = 0;

  // Ends all ranks' processes, at once; the launcher says so.
  virtual void Abort(int exit_status) = 0;
};

class Collective;

// Changes whenever Collective does: program and plugin come from one build.
inline constexpr char kPluginVersion[] = "1";
inline constexpr char kPluginEntry[] = "StrataMpiStart";

// Starts MPI; the caller owns what it returns. Null: `error` says why not.
using PluginEntry = Collective* (*)(const char* version, char* error, size_t error_size);

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_CONNECT_COLLECTIVE_H_

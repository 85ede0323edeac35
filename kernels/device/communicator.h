#ifndef STRATA_KERNELS_DEVICE_COMMUNICATOR_H_
#define STRATA_KERNELS_DEVICE_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace strata::device {

class Stream;

// Called now and then while a call waits for other ranks: an error ends the wait, and is its
// result.
using StillWanted = std::function<absl::Status()>;

// Ranks, each with a device of its own, that sum data in their devices' memory. Every rank makes
// the same calls in the same order; the sums have the same bits on all of them.
//
// Threads: one, except for Abort and Error. Errors: those of Stream; Internal with the library's
// own words; nothing works after one.
class Communicator {
 public:
  // Aborts, unless Finish was called. Finish the used streams first.
  virtual ~Communicator() = default;

  // Queues: `sum` becomes that of all ranks' `values`, which may be at the same address; otherwise
  // they stay unchanged, even if the sum does not complete.
  virtual absl::Status AllReduce(Stream& stream, const float* values, float* sum, size_t count,
                                 const StillWanted& still_wanted) = 0;
  // Queues: `values` become their sum over all ranks, in place.
  virtual absl::Status AllReduce(Stream& stream, uint64_t* values, size_t count,
                                 const StillWanted& still_wanted) = 0;
  // Queues: `sum` becomes that of all ranks' `values` on rank `root`; on other ranks it may be
  // null.
  virtual absl::Status Reduce(Stream& stream, const float* values, float* sum, size_t count,
                              uint32_t root, const StillWanted& still_wanted) = 0;
  // Queues: `values` become those of rank `root`, bit for bit.
  virtual absl::Status Broadcast(Stream& stream, float* values, size_t count, uint32_t root,
                                 const StillWanted& still_wanted) = 0;

  // Returns an error of this rank or another since the last call, as far as it is visible. A lost
  // rank may not show: queued work then waits for it until Abort.
  virtual absl::Status Error() = 0;

  // Leaves, after the last call of all ranks, when the streams are done with them. Blocks until the
  // others get here.
  virtual absl::Status Finish(const StillWanted& still_wanted) = 0;
  // Ends queued work at once; its results in memory are unspecified. Threads: any.
  virtual void Abort() = 0;
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_COMMUNICATOR_H_

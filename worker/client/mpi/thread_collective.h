#ifndef STRATA_WORKER_CLIENT_MPI_THREAD_COLLECTIVE_H_
#define STRATA_WORKER_CLIENT_MPI_THREAD_COLLECTIVE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/client/mpi/collective.h"

namespace strata::mpi {

// A collective for tests: the ranks are threads of one process. Adds in the order of ranks.
// Wait and the blocking calls fail with Unavailable after Abort.
class ThreadWorld {
 public:
  explicit ThreadWorld(uint32_t ranks) : ranks_(ranks), next_(ranks, 0) {}

  // The collective of one rank, to be used on its thread. The world outlives it.
  std::unique_ptr<Collective> Join(uint32_t rank);

 private:
  friend class ThreadCollective;
  // What all ranks bring to one call.
  template <typename T>
  struct Round {
    std::vector<absl::Span<T>> values;  // by rank
    uint32_t come = 0, gone = 0;
    bool done = false;
  };

  const uint32_t ranks_;
  absl::Mutex mutex_;
  std::map<uint64_t, Round<float>> sums_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Round<uint64_t>> small_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> next_ ABSL_GUARDED_BY(mutex_);  // by rank: calls so far
  std::deque<std::string> posted_ ABSL_GUARDED_BY(mutex_);
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::mpi

#endif  // STRATA_WORKER_CLIENT_MPI_THREAD_COLLECTIVE_H_

#ifndef STRATA_COMMON_FORK_JOIN_H_
#define STRATA_COMMON_FORK_JOIN_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace strata {

// Threads that help with work in independent parts, and sleep otherwise. The caller works through
// the parts itself; helpers take parts that it has not begun, so a helper that wakes late, or never
// on a busy machine, only helps less.
//
// Threads: Run from one at a time. The destructor joins the helpers.
class ForkJoin {
 public:
  // Starts fewer if the system allows no more threads (RLIMIT_NPROC, a control group's pids.max).
  explicit ForkJoin(uint32_t helpers);
  ~ForkJoin();
  ForkJoin(const ForkJoin&) = delete;
  ForkJoin& operator=(const ForkJoin&) = delete;

  uint32_t helpers() const { return static_cast<uint32_t>(threads_.size()); }

  // Calls body(0) to body(parts - 1), each once, on this thread and on helpers, of which at most
  // `helpers` are woken; returns when all calls have.
  void Run(uint32_t parts, uint32_t helpers, absl::FunctionRef<void(uint32_t)> body);

 private:
  using Body = absl::FunctionRef<void(uint32_t)>;

  void Help();
  // Does one part; returns false if none is left.
  bool DoOne();

  // Number of parts not taken. A thread that decrements it from n has part n - 1, and may read
  // body_ until it has counted that part in undone_, for which Run waits.
  std::atomic<uint32_t> untaken_ = 0;
  std::atomic<uint32_t> undone_ = 0;
  const Body* body_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace strata

#endif  // STRATA_COMMON_FORK_JOIN_H_

#ifndef STRATA_COMMON_TESTING_FAULTY_STORE_H_
#define STRATA_COMMON_TESTING_FAULTY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/store.h"

namespace strata {

// Objects in memory that outlive the processes that open stores on them, with the faults of disks,
// drawn from a seed. It keeps the promises of Store with two exceptions: a crash within a Put may
// leave some of its bytes, and so may a crash after a Put that failed. An object whose Put returned
// OK stays until it is damaged on purpose.
//
// Threads: any.
class FaultyDisk {
 public:
  // `where`: see Store.
  FaultyDisk(uint64_t seed, std::string where) : where_(std::move(where)), random_(seed) {}

  // Opens a store, which this outlives.
  std::unique_ptr<Store> Open();

  // After `after` more calls have succeeded, `calls` calls fail with Unavailable. A write may have
  // been made all the same, unsynced.
  void FailCalls(uint32_t calls, uint32_t after = 0);
  // The next `puts` Puts find no space, and do nothing.
  void FillUp(uint32_t puts);
  // The host crashes within a write, after this many others from now on. Removing an object is a
  // write, too.
  void CrashAfter(uint32_t writes);
  // The host crashes now, outside of any write.
  void Crash();
  // Every call is Aborted from a crash until Restart.
  bool crashed() const;
  void Restart();
  uint64_t failed_calls() const;  // so far
  // Cancels requested faults.
  void Calm();
  // Flips a bit of a random object with `part` in its name, or truncates it. Returns its name;
  // empty: there is none.
  std::string Damage(const std::string& part = "");
  // Draws the duration of a call, for callers with a clock.
  absl::Duration DrawLatency(absl::Duration most);

  // Present objects by name.
  std::map<std::string, std::string> Contents() const;
  // Names of objects that Damage has changed and that have not been rewritten since.
  std::set<std::string> Damaged() const;
  const std::string& where() const { return where_; }

 private:
  friend class FaultyStore;

  struct Object {
    std::string content;
    bool is_damaged = false;
  };
  using Objects = std::map<std::string, Object>;
  // A write that a crash may undo.
  struct Unsynced {
    std::string name;
    bool had_old = false;
    Object old;
  };
  enum class Fate { kDone, kFails, kFailsButDone, kCrashes };

  absl::Status Put(const std::string& name, const std::string& content, bool only_new);
  absl::StatusOr<std::string> Get(const std::string& name);
  absl::StatusOr<std::vector<std::string>> List();
  absl::Status Delete(const std::string& name);
  absl::Status DeleteFolder(const std::string& folder);

  uint64_t Below(uint64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return random_() % count; }
  std::string Path(const std::string& name) const { return where_ + "/" + name; }
  absl::Status Crashed() const;
  // Decides whether a reading call fails.
  absl::Status ReadFault(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FailsNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Fate DrawFate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Unsynced Remember(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reduces a write to what a crash may leave of it.
  void Tear(const Unsynced& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Undo(const Unsynced& write) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseUnsynced() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Remove(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string where_;
  mutable absl::Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  Objects objects_ ABSL_GUARDED_BY(mutex_);
  std::vector<Unsynced> puts_ ABSL_GUARDED_BY(mutex_);     // Puts that have failed
  std::vector<Unsynced> deletes_ ABSL_GUARDED_BY(mutex_);  // in order; a Put syncs them
  uint32_t calls_to_do_ ABSL_GUARDED_BY(mutex_) = 0;       // before the failing ones
  uint32_t calls_to_fail_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t puts_without_space_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t writes_to_crash_ ABSL_GUARDED_BY(mutex_) = UINT32_MAX;  // UINT32_MAX: it does not
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata

#endif  // STRATA_COMMON_TESTING_FAULTY_STORE_H_

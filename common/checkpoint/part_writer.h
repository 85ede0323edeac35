#ifndef STRATA_COMMON_CHECKPOINT_PART_WRITER_H_
#define STRATA_COMMON_CHECKPOINT_PART_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/part_name.h"
#include "common/checkpoint/store.h"
#include "common/image/image_tensors.h"
#include "proto/control.pb.h"

namespace strata {

// Writes this process's objects of one job's checkpoints, one after the other on a thread of its
// own, so that training never waits for the store.
//
// Threads: Write from any, and it does not block; the rest from the owner's.
class PartWriter {
 public:
  // What it calls, on its thread.
  struct Calls {
    // Opens the store, before the first part and after each error.
    std::function<absl::StatusOr<std::unique_ptr<Store>>()> open;
    // A part is in the store, or is not.
    std::function<void(const proto::CheckpointPart&)> tell;
  };
  struct Part {
    PartName name;
    uint64_t clock = 0;
    std::function<ImageFile()> make;  // its content, on the writer's thread
    std::string problem;              // why there is none; empty: there is one
    // Called on the writer's thread once the content is no longer in memory. Null: nobody asks.
    std::function<void()> let_go;
  };

  // The attempt of the job that the record is of.
  PartWriter(const proto::JobRecord& record, Calls calls);
  ~PartWriter();  // leaves what is queued unwritten

  // Parts after Finish are dropped, untold.
  void Write(Part part);
  // Writes what is queued, and then no more. Does not wait.
  void Finish();
  // Whether all of that is done.
  bool done() const;
  // Waits for that; false: it is not after `timeout`.
  bool AwaitDone(absl::Duration timeout) const;

 private:
  void Run();
  void WriteNow(Part part);
  absl::StatusOr<ObjectFacts> Put(const Part& part);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || finishing_ || abandoned_;
  }

  const uint32_t job_, attempt_;
  const uint64_t token_;
  const Calls calls_;
  mutable absl::Mutex mutex_;
  std::deque<Part> queue_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Store> store_;  // the thread's
  std::thread thread_;
};

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_PART_WRITER_H_

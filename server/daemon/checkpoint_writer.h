#ifndef STRATA_SERVER_DAEMON_CHECKPOINT_WRITER_H_
#define STRATA_SERVER_DAEMON_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/shard/cut_collector.h"

namespace strata::server {

// Writes one job's cuts of this server's shards to the job's store, one after the other on a thread
// of its own, so that training never waits for the store.
//
// Threads: Write from any, and it does not block; the rest from the owner's.
class CheckpointWriter {
 public:
  // What it calls, on its thread.
  struct Calls {
    // Opens the store, before the first cut and after each error.
    std::function<absl::StatusOr<std::unique_ptr<Store>>()> open;
    // A cut is in the store, or is not.
    std::function<void(const proto::CheckpointPart&)> tell;
    // The images of a cut are no longer in memory.
    std::function<void(ShardId shard, uint64_t clock)> let_go;
  };

  CheckpointWriter(const proto::JobRecord& record, Calls calls);
  ~CheckpointWriter();  // leaves what is queued unwritten

  void Write(ShardCut cut);
  // Writes what is queued, and then no more. Does not wait.
  void Finish();
  // Whether all of that is done.
  bool done() const;

 private:
  void Run();
  void WriteNow(ShardCut cut);
  absl::StatusOr<ObjectFacts> Put(const ShardCut& cut);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !queue_.empty() || finishing_ || abandoned_;
  }

  const JobId job_;
  const uint32_t attempt_;
  const uint64_t token_;
  const Calls calls_;
  mutable absl::Mutex mutex_;
  std::deque<ShardCut> queue_ ABSL_GUARDED_BY(mutex_);
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Store> store_;  // the thread's
  std::thread thread_;
};

// Returns the name of a shard's object of a checkpoint, within the checkpoint. No two attempts of
// jobs write to the same object.
std::string ShardObjectPart(ShardId shard, JobId job, uint32_t attempt);

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_CHECKPOINT_WRITER_H_

#ifndef STRATA_COMMON_CHECKPOINT_PART_WRITER_H_
#define STRATA_COMMON_CHECKPOINT_PART_WRITER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/image/image_tensors.h"
#include "proto/processes.pb.h"

namespace strata {

// The problem reported for a part that was not written before its process ended.
inline constexpr char kNotInTime[] =
    "the store is so slow that it was not written when the job ended";

// Writes this process's objects of one job's checkpoints, one after the other on a thread of its
// own, so that training never waits for the store.
//
// Threads: Write from any, and it does not block; the rest from the owner's.
class PartWriter {
 public:
  // Called on the writer's thread, and never after the destructor has returned. `open` may still
  // run then, and keeps what it needs.
  struct Calls {
    // Opens the store, before the first part and after each error.
    std::function<absl::StatusOr<std::unique_ptr<Store>>()> open;
    // A part is in the store, or could not be written.
    std::function<void(const proto::CheckpointPart&)> tell;
  };
  struct Part {
    PartName name;
    uint64_t clock = 0;
    std::function<ImageFile()> make;  // returns its content; called on the writer's thread
    std::string problem;              // why there is no content; empty: there is
    // Called on the writer's thread once the content is no longer in memory. May be null.
    std::function<void()> let_go;
    // Only a part of rows has several objects. The part is told once: when its last object is in
    // the store, or when one could not be written. `goes_on` says that another object follows;
    // `buckets` are those that this object has rows of.
    bool goes_on = false;
    std::vector<uint32_t> buckets;
    // Returns the object that follows; null: it comes with another call of Write.
    std::function<Part()> next;
  };

  // `record`: the job's attempt.
  PartWriter(const proto::JobRecord& record, Calls calls);
  // Reports all unwritten parts as failed, and reports nothing from then on.
  void GiveUp(const std::string& why);
  // Asks for no more objects by Part::next: such parts are not told.
  void LeaveRest();
  // Abandons queued parts without a report. Waits briefly for an unresponsive store: the thread
  // then ends by itself, once the store answers.
  ~PartWriter();

  // Parts after Finish are dropped without a report.
  void Write(Part part);
  // Writes the queued parts and accepts no more. Does not wait.
  void Finish();
  // Returns whether all parts have been written.
  bool done() const;
  // Waits for that; returns false if it does not happen within `timeout`.
  bool AwaitDone(absl::Duration timeout) const;

 private:
  // The thread's state, which may outlive the writer.
  struct Work {
    uint32_t job = 0, attempt = 0;
    uint64_t token = 0;
    Calls calls;
    std::unique_ptr<Store> store;  // the thread's

    absl::Mutex mutex;
    std::deque<Part> queue ABSL_GUARDED_BY(mutex);
    bool finishing ABSL_GUARDED_BY(mutex) = false;
    bool leaves_rest ABSL_GUARDED_BY(mutex) = false;
    bool done ABSL_GUARDED_BY(mutex) = false;
    absl::Mutex telling;  // held during calls, except `open`
    bool abandoned ABSL_GUARDED_BY(telling) = false;
    std::optional<proto::CheckpointPart> in_hand ABSL_GUARDED_BY(telling);
    // By the first object's name, and clock: parts with several objects, of which some are written.
    std::map<std::pair<PartName, uint64_t>, proto::CheckpointPart> begun ABSL_GUARDED_BY(telling);

    // Returns whether nobody waits for further objects of a part.
    bool IsLeft() {
      {
        absl::MutexLock lock(&telling);
        if (abandoned) return true;
      }
      absl::MutexLock lock(&mutex);
      return leaves_rest;
    }
    bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return !queue.empty() || finishing;
    }
  };

  static void Run(Work& work);
  static proto::CheckpointPart Describe(const Part& part, const Work& work);
  static void WriteNow(Part part, Work& work);
  // Returns whether another object of the part could not be written.
  static bool IsGivenUp(const Part& part, const Work& work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(work.telling);
  // Joins what is told of an object to what the part has; returns whether the part is told now.
  static bool Join(const Part& part, Work& work, proto::CheckpointPart* told)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(work.telling);
  static absl::StatusOr<ObjectFacts> Put(const Part& part, Work& work);

  const std::shared_ptr<Work> work_;
  std::thread thread_;
};

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_PART_WRITER_H_

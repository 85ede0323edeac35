#ifndef STRATA_SERVER_DAEMON_JOB_CHECKPOINTS_H_
#define STRATA_SERVER_DAEMON_JOB_CHECKPOINTS_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/checkpoint/part_writer.h"
#include "common/checkpoint/store.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/image/rows_image.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"
#include "server/shard/shard_report.h"

namespace strata::server {

// Consumes images of chunks, or of rows, which are valid only during the call. The reader's threads
// make one call at a time, and none after LoadCheckpoint has returned.
using TakeImages = std::function<absl::Status(absl::Span<const ChunkImage>)>;
using TakeRows = std::function<absl::Status(const RowsImage&)>;

// Reads from the checkpoint in the record's `resume` the objects with chunks of the given shards,
// and passes on all their images as they come; then those with rows of the shards' buckets. An
// object may turn out to be damaged after images of it have been passed on. Errors: NotFound,
// DataLoss, InvalidArgument: the checkpoint is damaged, naming the object and the damage; those of
// `take` and `take_rows`; others: the store's.
absl::Status LoadCheckpoint(const proto::JobRecord& record, const std::vector<ShardId>& shards,
                            Store& store, const TakeImages& take, const TakeRows& take_rows);

// The checkpoints of the jobs on one server: writes those that jobs request, and reads those that
// jobs resume from, on threads of its own.
//
// Threads: OnCut and OnRows from any, and they do not block; the rest from the owner's.
class JobCheckpoints {
 public:
  // All are called from other threads: `tell` and `let_go` see PartWriter::Calls and Part.
  struct Calls {
    StoreOpener open;
    std::function<void(const proto::CheckpointPart&)> tell;
    std::function<void(JobId, ShardId, uint64_t clock)> let_go;
    std::function<void(JobId, ShardId)> let_go_rows;  // a piece
  };
  explicit JobCheckpoints(Calls calls);
  ~JobCheckpoints();  // stops
  // Abandons queued writes and unfinished reads; later cuts are dropped.
  void Stop();

  // The job is here, and may cut. Does nothing for a job without `checkpoint`, or on a second call.
  void Begin(const proto::JobRecord& record);
  void OnCut(ShardCut cut);
  void OnRows(ShardRowsPiece piece);
  struct LoadCalls {
    TakeImages take;
    TakeRows take_rows;
    std::function<absl::Status()> finish;           // called after the last image
    std::function<void(const absl::Status&)> tell;  // reports the outcome of reading and `finish`
  };
  // Reads the chunks from which the job's shards here resume, and makes these calls on another
  // thread; none once the job has ended: End waits for a call in progress. A second load of a job
  // that has not ended reads nothing, but reports the first one's outcome once that is done.
  // REQUIRES: record.has_resume().
  void Load(const proto::JobRecord& record, const std::vector<ShardId>& shards, LoadCalls calls);
  // The job has left this server. Its cuts are still written.
  void End(JobId job);

 private:
  struct Reading;
  struct Writer {
    std::unique_ptr<PartWriter> writer;
    std::shared_ptr<std::atomic<bool>> has_ended;  // the job has ended here
  };

  void DropDone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Calls calls_;
  absl::Mutex mutex_;
  std::map<JobId, Writer> writers_ ABSL_GUARDED_BY(mutex_);
  // Writers of jobs that have ended here, kept until their last object is written.
  std::vector<std::pair<JobId, std::unique_ptr<PartWriter>>> finishing_ ABSL_GUARDED_BY(mutex_);
  std::map<JobId, std::unique_ptr<Reading>> readings_;  // the owner thread's
  std::vector<std::unique_ptr<Reading>> left_;          // of jobs that have ended
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_JOB_CHECKPOINTS_H_

#ifndef STRATA_SERVER_SHARD_SHARD_CORE_H_
#define STRATA_SERVER_SHARD_SHARD_CORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/job/arena.h"
#include "common/trace/trace_log.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "compression/encoder.h"
#include "kernels/kernels.h"
#include "proto/control.pb.h"
#include "server/shard/frames/refusals.h"
#include "server/shard/shard_cut.h"

namespace strata::server {

class ShardJob;

// What the shard wants done; the loop around it does it in order.
struct ShardAction {
  enum class Kind { kSend, kClose } kind = Kind::kSend;
  transport::ConnectionId connection;
  wire::Frame frame;  // kSend
};

struct ShardCounters {
  uint64_t pushes = 0;
  uint64_t answers = 0;
  uint64_t duplicates = 0;
  uint64_t refused = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_sent = 0;
};

// What a shard has to say of one job.
struct ShardReport {
  ShardCounters counters;
  std::vector<proto::NodeClock> nodes;  // not in every report of a large job
  uint64_t memory_bytes = 0;            // weights, optimizer state and held sums
};

// One shard: its chunks of every job installed on it, their weights and optimizer state, and the
// modes of consistency, which say when a push is applied and answered. A pure state
// machine: frames in, actions out; no sockets, clocks, threads or randomness, so the simulator runs
// it as it is. Time comes with the events, and goes forward.
//
// Threads: one. Errors that a peer causes become kError or kRetry answers and a count in `refused`;
// only Install returns a Status.
class ShardCore {
 public:
  // Makes the memory of one job's buffers; null, and where it returns null: they come from the
  // allocator.
  using NewMemory = std::function<std::shared_ptr<BlockSource>()>;
  // `trace_clock`: the time of events in traces, and of nothing else; null: jobs are not traced.
  explicit ShardCore(const kernels::Kernels& kernels, NewMemory new_memory = nullptr,
                     std::function<absl::Time()> trace_clock = nullptr);
  ~ShardCore();

  // Takes a job in: `own_shard` is this shard's index in record.placement. Installing the same job
  // again with the same record is fine. With record.resume the job goes on from `images`, which
  // hold at least the shard's chunks. Errors: InvalidArgument (layout, placement, view, naming the
  // field; images that do not fit), AlreadyExists (another record under this id).
  absl::Status Install(const proto::JobRecord& record, ShardId own_shard,
                       absl::Span<const ChunkImage> images = {});

  // The same in turns, between which the shard serves other jobs: BeginInstall, which returns true
  // where that was all; else InstallMore with each of the images, and EndInstall. Until then nobody
  // finds the job here. Errors: those of Install, after which the job is not here; Cancelled: it
  // was removed meanwhile. EndInstall of a job that is here already is fine.
  absl::StatusOr<bool> BeginInstall(const proto::JobRecord& record, ShardId own_shard);
  absl::Status InstallMore(JobId job, absl::Span<const ChunkImage> images);
  absl::Status EndInstall(JobId job);

  // Forgets a job; its connections are closed. Unknown jobs are fine.
  void Remove(JobId job, std::vector<ShardAction>* actions);

  void OnFrame(transport::ConnectionId connection, wire::Frame frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // Does what only time brings about: the end of a quorum's grace. It is due at deadline(), which
  // is InfiniteFuture where nothing is.
  void OnTime(absl::Time now, std::vector<ShardAction>* actions);
  absl::Time deadline() const;
  void OnMalformed(transport::ConnectionId connection, std::vector<ShardAction>* actions);
  void OnDisconnected(transport::ConnectionId connection);

  // Returns the counters of each job that is installed here.
  absl::flat_hash_map<JobId, ShardCounters> Counters() const;
  // Returns the same and how far nodes are. It is made for once a second.
  absl::flat_hash_map<JobId, ShardReport> NextReports();
  // Null: the job has no trace, or is not here.
  TraceLog* TraceOf(JobId job);
  // What its buffers lie in. Null: in what the allocator has, or it is not here.
  std::shared_ptr<BlockSource> MemoryOf(JobId job) const;
  // Returns what was recorded since the last call; each batch names its job.
  std::vector<proto::TraceBatch> TakeTraces();
  // Returns the cuts that have come about since the last call, of jobs with `checkpoint`. The shard
  // counts each that has images until it is told that those are let go of, and holds few at once.
  std::vector<ShardCut> TakeCuts() { return std::exchange(cuts_, {}); }
  bool has_cuts() const { return !cuts_.empty(); }
  // Unknown jobs and clocks, and other shards of the job, are fine.
  void LetGoOf(JobId job, ShardId shard, uint64_t clock);
  // Gradient buffers that the shard holds for incomplete clocks of a chunk; 0 where it is not here.
  size_t HeldSums(JobId job, ChunkId chunk) const;
  // Frames that belong to no job: malformed, before HELLO, of an unknown job.
  uint64_t refused() const { return refused_; }
  // All refused frames since the beginning, also those of jobs that are gone.
  const Refusals& refusals() const { return refusals_; }

 private:
  struct Installed {
    std::shared_ptr<BlockSource> memory;
    std::unique_ptr<BufferPool> pool;  // weights, state and partial sums of the job
    std::unique_ptr<ShardJob> job;
    std::string record;  // as installed, to know it again
  };

  void Add(JobId id, Installed installed);
  // Takes a job that is being installed one step further. After an error it is not here.
  absl::Status Advance(JobId id, absl::FunctionRef<absl::Status(ShardJob&)> call);
  void OnHello(transport::ConnectionId connection, const wire::Frame& frame,
               std::vector<ShardAction>* actions);
  // Answers with an error and counts it, for the job where the connection is bound to one.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions);

  const kernels::Kernels& kernels_;
  const NewMemory new_memory_;
  kernels::EncoderScratch scratch_;
  const std::function<absl::Time()> trace_clock_;
  size_t traced_ = 0;  // jobs
  absl::flat_hash_map<JobId, Installed> jobs_;
  absl::flat_hash_map<JobId, Installed> installing_;  // not yet among them
  absl::flat_hash_map<transport::ConnectionId, JobId> bound_;
  uint64_t refused_ = 0;
  Refusals refusals_;
  std::vector<ShardCut> cuts_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_CORE_H_

#ifndef STRATA_SERVER_SHARD_SHARD_CORE_H_
#define STRATA_SERVER_SHARD_SHARD_CORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
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
#include "common/job/trace_log.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "kernels/kernels.h"
#include "numerics/encoder.h"
#include "proto/processes.pb.h"
#include "server/shard/shard_action.h"
#include "server/shard/shard_report.h"

namespace strata::server {

class ShardJob;

// A job's shard lies on one server, its primary, or on two: then the primary says each change to
// its backup, and a node learns of nothing that the backup does not have. The backup hears no node
// until it is made the primary. A backup that is added later is empty until its primary has filled
// it.
enum class ShardCopy { kPrimary, kBackup, kEmptyBackup };

// The shards of jobs on one thread of a server: their chunks' weights and optimizer state, and the
// modes of consistency, which say when a push is applied and answered. A pure state machine: frames
// in, actions out; no sockets, clocks, threads or randomness, so the simulator runs it unchanged.
// Time comes with the events, and moves forward.
//
// Threads: one. Errors that a peer causes become kError or kRetry answers and a count in `refused`;
// only Install returns a Status.
class ShardCore {
 public:
  // Makes the memory of one job's buffers. If null, or if it returns null, the allocator is used.
  using NewMemory = std::function<std::shared_ptr<BlockSource>()>;
  // `trace_clock`: the time of events in traces, and of nothing else. If null, jobs are not traced.
  explicit ShardCore(const kernels::Kernels& kernels, NewMemory new_memory = nullptr,
                     std::function<absl::Time()> trace_clock = nullptr);
  ~ShardCore();

  // Installs a job's shard: `own_shard` is its index in record.placement. Installing the same one
  // again with the same record is fine; that may have more changes of its nodes. With record.resume
  // the job continues from `images`, which hold at least the shard's chunks. Errors:
  // InvalidArgument (layout, placement, view, naming the field; images that do not fit),
  // AlreadyExists (another record under this id).
  absl::Status Install(const proto::JobRecord& record, ShardId own_shard,
                       absl::Span<const ChunkImage> images = {},
                       ShardCopy copy = ShardCopy::kPrimary);

  // The same in turns, between which the shard serves other jobs: BeginInstall, which returns true
  // if that was all; else InstallMore with each of the images, and EndInstall. Until then nobody
  // finds the job here. An empty backup waits for no images. Errors: those of Install, after which
  // the job is not here; Cancelled: it was removed meanwhile. EndInstall of a job that is already
  // here is fine.
  absl::StatusOr<bool> BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                    ShardCopy copy = ShardCopy::kPrimary);
  absl::Status InstallMore(JobId job, absl::Span<const ChunkImage> images);
  absl::Status EndInstall(JobId job);

  // Makes the backup of a shard its primary, without a backup, as of this generation: it hears
  // nodes that name it, and no longer its former primary. Errors: NotFound; FailedPrecondition: the
  // generation is not newer than the current one, unless this is done already.
  absl::Status Promote(JobId job, ShardId shard, uint32_t generation,
                       std::vector<ShardAction>* actions);
  // The primary of a shard has no backup any more, as of this generation: answers that were kept
  // back for it go out. Errors: as above.
  absl::Status ContinueWithoutBackup(JobId job, ShardId shard, uint32_t generation,
                                     std::vector<ShardAction>* actions);
  // The copy here is the shard's primary as of this generation, and has a backup at `address` from
  // now on, which it fills while it serves nodes. `is_whole`: it has been filled, as is known where
  // primaries are made; before, a job that waits while it is unprotected stands still. Errors: as
  // above; FailedPrecondition, too, where this copy itself has not been filled.
  absl::Status FillBackup(JobId job, ShardId shard, uint32_t generation, const std::string& address,
                          bool is_whole, std::vector<ShardAction>* actions);
  // Limits the bytes on their way to a backup that is being filled, but for one chunk, of copies
  // that are installed from now on. 0: one chunk after the other.
  void set_fill_ahead(uint64_t bytes) { fill_ahead_bytes_ = bytes; }
  // The copy here, a primary or a whole backup, fills another one at `address` besides, and nodes
  // learn of nothing that this does not have. FillBackup with this generation and address makes it
  // the backup. An empty address drops it; older news changes nothing. Errors: as above.
  absl::Status FillNext(JobId job, ShardId shard, uint32_t generation, const std::string& address,
                        std::vector<ShardAction>* actions);
  // Other nodes take part in the job from a clock on, in all copies here of its shards. Nodes may
  // begin that clock once each copy has the change. One that is known is fine. Errors: NotFound;
  // InvalidArgument (it does not fit others); FailedPrecondition (a node has pushed that clock).
  absl::Status ChangeView(const proto::ViewChange& change);
  // Forgets a copy of a shard that is older than this generation; its connections are closed.
  // Returns whether one is left that is not older.
  bool RemoveShard(JobId job, ShardId shard, uint32_t generation,
                   std::vector<ShardAction>* actions);
  // Forgets a job; its connections are closed. Unknown jobs are fine.
  void Remove(JobId job, std::vector<ShardAction>* actions);

  void OnFrame(transport::ConnectionId connection, wire::Frame frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // Does what only time brings about: the end of a quorum's grace. It is due at deadline(), which
  // is InfiniteFuture if nothing is due.
  void OnTime(absl::Time now, std::vector<ShardAction>* actions);
  absl::Time deadline() const;
  // The outcome of a kConnect.
  void OnConnected(const ShardAction& asked, transport::ConnectionId connection, absl::Time now,
                   std::vector<ShardAction>* actions);
  void OnConnectFailed(const ShardAction& asked, const absl::Status& why, absl::Time now,
                       std::vector<ShardAction>* actions);
  void OnMalformed(transport::ConnectionId connection, std::vector<ShardAction>* actions);
  void OnDisconnected(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
                      std::vector<ShardAction>* actions);

  // Returns the counters of each job that is installed here.
  absl::flat_hash_map<JobId, ShardCounters> Counters() const;
  // Returns the same and how far nodes are. It is made for once a second.
  absl::flat_hash_map<JobId, ShardReport> NextReports();
  // Returns null if the job has no trace, or is not here.
  TraceLog* TraceOf(JobId job);
  // Returns the memory of the buffers of the shard that the connection is bound to. Null: they are
  // the allocator's, or it is bound to none.
  std::shared_ptr<BlockSource> MemoryOf(transport::ConnectionId connection) const;
  // Returns what was recorded since the last call; each batch names its job.
  std::vector<proto::TraceBatch> TakeTraces();
  // Returns the cuts since the last call, of jobs with `checkpoint`. The shard counts each that has
  // images until it is told that those are let go of, and holds few at once.
  std::vector<ShardCut> TakeCuts() { return std::exchange(cuts_, {}); }
  bool has_cuts() const { return !cuts_.empty(); }
  // Unknown jobs and clocks, and other shards of the job, are fine.
  void ReleaseCut(JobId job, ShardId shard, uint64_t clock);
  // Gradient buffers that the shard holds for incomplete clocks of a chunk; 0 where it is not here.
  size_t HeldSums(JobId job, ChunkId chunk) const;
  // For each shard that has a backup: how that follows.
  std::vector<BackupState> BackupStates() const;
  // Frames that belong to no job: malformed, before HELLO, of an unknown job.
  uint64_t refused() const { return refused_; }
  // All refused frames since the beginning, also those of jobs that are gone.
  const Refusals& refusals() const { return refusals_; }

 private:
  struct Installed {
    std::shared_ptr<BlockSource> memory;
    std::unique_ptr<BufferPool> pool;  // weights, state and partial sums of the job
    std::unique_ptr<ShardJob> job;
    std::string record;               // as installed, to know it again
    uint64_t cluster = 0, token = 0;  // that HELLO has
  };

  using JobShard = std::pair<JobId, ShardId>;

  void Add(const JobShard& id, Installed installed);
  // Calls, if the shard is here; connections that it closes are no longer bound.
  absl::Status OnShard(JobId job, ShardId shard, std::vector<ShardAction>* actions,
                       absl::FunctionRef<absl::Status(ShardJob&)> call);
  void Close(const std::pair<const JobShard, Installed>& leaving,
             std::vector<ShardAction>* actions);
  // Takes the shards of a job that are being installed one step further. After an error they are
  // not here.
  absl::Status Advance(JobId id, absl::FunctionRef<absl::Status(ShardJob&)> call);
  // A connection that the shard itself has closed, on which more may be under way.
  void Leave(transport::ConnectionId connection);
  // Returns whether HELLO names a job's shard that was here, and shows that job's token.
  bool HasLeft(const JobShard& shard, uint64_t cluster, uint64_t token) const;
  // Unbinds connections that actions from the first on close.
  void UnbindClosed(size_t first, const std::vector<ShardAction>& actions);
  // Returns null if it is bound to none.
  const Installed* BoundTo(transport::ConnectionId connection) const;
  void OnHello(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // Answers with an error and counts it, for the job where the connection is bound to one.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions,
              Sender sender = Sender::kStranger);

  const kernels::Kernels& kernels_;
  const NewMemory new_memory_;
  numerics::EncoderScratch scratch_;
  const std::function<absl::Time()> trace_clock_;
  size_t traced_ = 0;                         // jobs
  std::optional<uint64_t> fill_ahead_bytes_;  // none: as plans say
  // In order, so that what is done for one after the other is done alike in every run.
  std::map<JobShard, Installed> jobs_;
  std::map<JobShard, Installed> installing_;  // not yet among them
  absl::flat_hash_map<transport::ConnectionId, JobShard> bound_;
  // Connections of shards that are no longer here, until they end: what still comes on them was
  // under way. Of those and of the shards the newest few are known.
  std::set<transport::ConnectionId> left_connections_;
  std::map<JobShard, std::pair<uint64_t, uint64_t>> left_shards_;  // their cluster and token
  uint64_t refused_ = 0;
  Refusals refusals_;
  std::vector<ShardCut> cuts_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_CORE_H_

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

// A job's shard is on one server, its primary, or on two: then the primary sends each change to its
// backup, and no node learns anything that the backup does not have. The backup answers no node
// until it is made the primary. A backup that is added later is empty until its primary has filled
// it.
enum class ShardCopy { kPrimary, kBackup, kEmptyBackup };

// The shards of jobs on one thread of a server: their chunks' weights and optimizer state, and the
// consistency modes, which decide when a push is applied and answered. A pure state machine: frames
// in, actions out; no sockets, clocks, threads or randomness, so the simulator runs it unchanged.
// Time comes with the events, and never goes back.
//
// Threads: one. Errors caused by a peer become kError or kRetry answers and a count in `refused`;
// only Install returns a Status.
class ShardCore {
 public:
  // Makes the memory for one job's buffers. If null, or if it returns null, the allocator is used.
  using NewMemory = std::function<std::shared_ptr<BlockSource>()>;
  // `trace_clock`: the time of trace events only. If null, jobs are not traced.
  explicit ShardCore(const kernels::Kernels& kernels, NewMemory new_memory = nullptr,
                     std::function<absl::Time()> trace_clock = nullptr);
  ~ShardCore();

  // Installs a job's shard: `own_shard` is its index in record.placement. Installing it again with
  // the same record is fine; the record may have more changes of its nodes. With record.resume the
  // job continues from `images`, which include at least the shard's chunks; it has no rows. Errors:
  // InvalidArgument
  // (layout, placement, view, naming the field; images that do not fit), AlreadyExists (another
  // record under this id).
  absl::Status Install(const proto::JobRecord& record, ShardId own_shard,
                       absl::Span<const ChunkImage> images = {},
                       ShardCopy copy = ShardCopy::kPrimary);

  // Installs in steps, between which the shard serves other jobs: BeginInstall, which returns true
  // if that was all; otherwise InstallMore with each of the images, and EndInstall. Until then the
  // job is not visible. An empty backup waits for no images. Errors: those of Install, after which
  // the job is not here; Cancelled: it was removed meanwhile. EndInstall of an installed job is
  // fine.
  absl::StatusOr<bool> BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                    ShardCopy copy = ShardCopy::kPrimary);
  absl::Status InstallMore(JobId job, absl::Span<const ChunkImage> images);
  absl::Status InstallMore(JobId job, const RowsImage& rows);
  absl::Status EndInstall(JobId job);

  // Makes the backup of a shard its primary, without a backup, as of this generation: it accepts
  // nodes that name the generation, and no longer its former primary. Errors: NotFound;
  // FailedPrecondition: the generation is not newer than the current one, unless this is already
  // done.
  absl::Status Promote(JobId job, ShardId shard, uint32_t generation,
                       std::vector<ShardAction>* actions);
  // The primary of a shard has no backup any more, as of this generation: withheld answers go out.
  // Errors: as above.
  absl::Status ContinueWithoutBackup(JobId job, ShardId shard, uint32_t generation,
                                     std::vector<ShardAction>* actions);
  // The copy here is the shard's primary as of this generation, and has from now on a backup at
  // `address`, which it fills while it serves nodes. `is_whole`: the coordinator knows that it has
  // been filled; before that, a job that waits while it is unprotected is paused. Errors: as above;
  // FailedPrecondition also if this copy itself has not been filled.
  absl::Status FillBackup(JobId job, ShardId shard, uint32_t generation, const std::string& address,
                          bool is_whole, std::vector<ShardAction>* actions);
  // Does what the coordinator asks of a shard's primary: FillBackup if `move` names a second copy,
  // else Promote.
  absl::Status Move(const proto::MoveShard& move, std::vector<ShardAction>* actions);
  // Limits the bytes in flight to a backup that is being filled, apart from one chunk, for copies
  // installed from now on. 0: one chunk at a time.
  void set_fill_ahead(uint64_t bytes) { fill_ahead_bytes_ = bytes; }
  // Sets the size of pieces of rows, kRowPieceBytes, for copies installed from now on.
  void set_row_piece(uint64_t bytes) { row_piece_bytes_ = bytes; }
  // The copy here, a primary or a complete backup, also fills another one at `address`, and nodes
  // learn nothing that this one does not have. FillBackup with this generation and address makes it
  // the backup. An empty address drops it; outdated commands change nothing. Errors: as above.
  absl::Status FillNext(JobId job, ShardId shard, uint32_t generation, const std::string& address,
                        std::vector<ShardAction>* actions);
  // Changes the participating nodes from a clock on, in all copies of the job's shards here. Nodes
  // may begin that clock once each copy has the change. Repeating a change is fine. Errors:
  // NotFound; InvalidArgument (conflict with other changes); FailedPrecondition (a node has pushed
  // that clock).
  absl::Status ChangeView(const proto::ViewChange& change);
  // Drops a copy of a shard that is older than this generation; its connections are closed. Returns
  // whether a copy that is not older remains.
  bool RemoveShard(JobId job, ShardId shard, uint32_t generation,
                   std::vector<ShardAction>* actions);
  // Drops a job; its connections are closed. Unknown jobs are fine.
  void Remove(JobId job, std::vector<ShardAction>* actions);

  void OnFrame(transport::ConnectionId connection, wire::Frame frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // Performs timed actions: the end of a quorum's grace. It is due at deadline(), which is
  // InfiniteFuture if nothing is due.
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
  // Returns the counters and the nodes' progress. To be called once a second.
  absl::flat_hash_map<JobId, ShardReport> NextReports();
  // Returns null if the job has no trace, or is not here.
  TraceLog* TraceOf(JobId job);
  // Returns the memory for buffers of the shard that the connection is bound to. Null: the
  // allocator's, or it is not bound.
  std::shared_ptr<BlockSource> MemoryOf(transport::ConnectionId connection) const;
  // Returns the traces recorded since the last call; each batch names its job.
  std::vector<proto::TraceBatch> TakeTraces();
  // Returns the cuts since the last call, of jobs with `checkpoint`. The shard counts each cut with
  // images until ReleaseCut, and holds few at once.
  std::vector<ShardCut> TakeCuts() { return std::exchange(cuts_, {}); }
  bool has_cuts() const { return !cuts_.empty() || !row_pieces_.empty(); }
  // Unknown jobs, clocks and shards of the job are fine.
  void ReleaseCut(JobId job, ShardId shard, uint64_t clock);
  // Returns the pieces of rows for checkpoints since the last call. A shard holds few at once, each
  // until ReleaseRows; then it makes the next one.
  std::vector<ShardRowsPiece> TakeRowPieces() { return std::exchange(row_pieces_, {}); }
  void ReleaseRows(JobId job, ShardId shard);
  // Gradient buffers that the shard holds for incomplete clocks of a chunk; 0 if it is not here.
  size_t HeldSums(JobId job, ChunkId chunk) const;
  // Returns the state of the backup of each shard that has one.
  std::vector<BackupState> BackupStates() const;
  // Frames that belong to no job: malformed, before HELLO, of an unknown job.
  uint64_t refused() const { return refused_; }
  // All refused frames since the beginning, also of former jobs.
  const Refusals& refusals() const { return refusals_; }

 private:
  struct Installed {
    std::shared_ptr<BlockSource> memory;
    std::unique_ptr<BufferPool> pool;  // weights, state and partial sums of the job
    std::unique_ptr<ShardJob> job;
    std::string record;               // as installed, to recognize repetitions
    uint64_t cluster = 0, token = 0;  // that HELLO must have
  };

  using JobShard = std::pair<JobId, ShardId>;

  void Add(const JobShard& id, Installed installed);
  // Makes the call if the shard is here; unbinds connections that it closes.
  absl::Status OnShard(JobId job, ShardId shard, std::vector<ShardAction>* actions,
                       absl::FunctionRef<absl::Status(ShardJob&)> call);
  void Close(const std::pair<const JobShard, Installed>& leaving,
             std::vector<ShardAction>* actions);
  // Makes the next step of installing a job's shards. After an error they are not here.
  absl::Status Advance(JobId id, absl::FunctionRef<absl::Status(ShardJob&)> call);
  // The shard itself closed the connection, on which frames may still be in flight.
  void Leave(transport::ConnectionId connection);
  // Returns whether HELLO names a former shard of a job, with that job's token.
  bool HasLeft(const JobShard& shard, uint64_t cluster, uint64_t token) const;
  // Unbinds connections that are closed by the actions from `first` on.
  void UnbindClosed(size_t first, const std::vector<ShardAction>& actions);
  // Returns null if it is not bound.
  const Installed* BoundTo(transport::ConnectionId connection) const;
  void OnHello(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // Answers with an error and counts it, for the job if the connection is bound to one.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions,
              Sender sender = Sender::kStranger);

  const kernels::Kernels& kernels_;
  const NewMemory new_memory_;
  numerics::EncoderScratch scratch_;
  const std::function<absl::Time()> trace_clock_;
  size_t traced_ = 0;                                           // jobs
  std::optional<uint64_t> fill_ahead_bytes_, row_piece_bytes_;  // absent: the plans' values
  // Ordered, so that iteration is the same in every run.
  std::map<JobShard, Installed> jobs_;
  std::map<JobShard, Installed> installing_;  // not yet among them
  absl::flat_hash_map<transport::ConnectionId, JobShard> bound_;
  // Connections of former shards, until they end: frames on them were still in flight. Only the
  // newest few connections and shards are remembered.
  std::set<transport::ConnectionId> left_connections_;
  std::map<JobShard, std::pair<uint64_t, uint64_t>> left_shards_;  // their cluster and token
  uint64_t refused_ = 0;
  Refusals refusals_;
  std::vector<ShardCut> cuts_;
  std::vector<ShardRowsPiece> row_pieces_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_CORE_H_

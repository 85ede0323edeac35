#ifndef STRATA_SERVER_SHARD_SHARD_JOB_H_
#define STRATA_SERVER_SHARD_SHARD_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/shard/answer_sender.h"
#include "server/shard/backup_role.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/following_copy.h"
#include "server/shard/frame_gate.h"
#include "server/shard/node_connections.h"
#include "server/shard/primary_role.h"
#include "server/shard/shard_chunks.h"
#include "server/shard/shard_core.h"
#include "server/shard/shard_plan.h"
#include "server/shard/shard_report.h"
#include "server/shard/shard_rows.h"
#include "server/shard/shard_trace.h"
#include "server/shard/waiting_pulls.h"

namespace strata::server {

// One job on one shard. A node's frame goes through the parts in one direction: the gate checks it,
// its chunk takes it, and the sender sends the answers that are due then. What depends on the
// copy's role, primary or backup, is in PrimaryRole and BackupRole.
//
// Threads: one.
class ShardJob {
 public:
  // The arguments outlive this object; `scratch` is the thread's, `refusals` and `cuts` are added
  // to, and so are `pieces`. If `rows` is null, the job has no tables; if `trace` is, it is not
  // traced.
  ShardJob(ShardPlan plan, ShardCopy copy, const kernels::Kernels& kernels, BufferPool& pool,
           numerics::EncoderScratch* scratch, Refusals* refusals, std::vector<ShardCut>* cuts,
           std::vector<ShardRowsPiece>* pieces, std::unique_ptr<ShardRows> rows,
           std::unique_ptr<TraceLog> trace);

  // Binds a connection to a logical node, or to the primary, by its HELLO, and answers it. Returns
  // whether it is bound now.
  bool OnHello(transport::ConnectionId connection, const wire::Frame& frame,
               const wire::Hello& hello, absl::Time now, std::vector<ShardAction>* actions);
  // Takes any other frame. REQUIRES: a HELLO has bound the connection.
  void OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
               std::vector<ShardAction>* actions);
  // See ShardCore.
  void OnTime(absl::Time now, std::vector<ShardAction>* actions);
  absl::Time deadline() const;
  void OnDisconnected(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
                      std::vector<ShardAction>* actions);
  // Returns false if this address is not wanted any more.
  bool OnConnected(const std::string& address, transport::ConnectionId connection, absl::Time now,
                   std::vector<ShardAction>* actions);
  void OnConnectFailed(const std::string& address, const absl::Status& why, absl::Time now,
                       std::vector<ShardAction>* actions);
  absl::Status Promote(uint32_t generation, std::vector<ShardAction>* actions);
  absl::Status ContinueWithoutBackup(uint32_t generation, std::vector<ShardAction>* actions);
  absl::Status FillBackup(uint32_t generation, const std::string& address, bool is_whole,
                          std::vector<ShardAction>* actions);
  absl::Status FillNext(uint32_t generation, const std::string& address,
                        std::vector<ShardAction>* actions);
  absl::Status ChangeView(const proto::ViewChange& change);
  uint32_t generation() const { return plan_.generation; }
  // Returns the states of the backup and of the next one, if they exist.
  std::vector<BackupState> backup_states() const;

  // Answers a frame with an error and counts it.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions);
  const ShardCounters& counters() const { return counters_; }
  TraceLog* trace() { return trace_.log(); }
  // Returns the progress of each node, spread over successive reports. Empty if the shard holds no
  // chunk of the job, and in reports between two surveys: in a large job a survey of every node's
  // every chunk takes longer than a shard should pause once a second.
  std::vector<proto::NodeClock> NextNodeClocks();
  // Returns the bytes held now. Looks at every chunk.
  uint64_t MemoryBytes() const;
  // See ShardChunks and ShardRows. REQUIRES: no frame has come.
  absl::Status Restore(absl::Span<const ChunkImage> images) { return chunks_.Restore(images); }
  absl::Status Restore(const RowsImage& rows);
  absl::Status CheckRestored() const;
  // See ShardCore.
  void ReleaseCut(uint64_t clock) { cuts_.LetGo(clock); }
  void ReleaseRows();
  // The job leaves the shard: what is left of a copy of its rows becomes one more piece.
  void GiveRestOfRows();
  // Gradient buffers held for incomplete clocks of a chunk; 0 if it is not here.
  size_t HeldSums(ChunkId chunk) const;
  // Returns the chunk, to restore it before any frame comes, or to take its images. Null: it is not
  // here.
  ChunkState* FindChunk(ChunkId chunk);
  // Returns all connections that are bound to the job, in order.
  std::vector<transport::ConnectionId> Connections() const;

 private:
  // The state that depends on a copy's role.
  using Role = std::variant<PrimaryRole, BackupRole>;

  // REQUIRES: this copy is the primary.
  PrimaryRole& primary() { return std::get<PrimaryRole>(role_); }
  bool is_primary() const { return std::holds_alternative<PrimaryRole>(role_); }
  // Makes the next backup the backup. REQUIRES: there is one.
  absl::Status TakeNext(bool is_whole, std::vector<ShardAction>* actions);
  // Errors: FailedPrecondition: the generation is not above the current one.
  absl::Status CheckNewer(uint32_t generation) const;
  // Errors: FailedPrecondition: the shard has rows, of which there is one copy.
  absl::Status CheckMayBeCopied() const;

  FollowingCopy NewCopy(const std::string& address, uint32_t generation,
                        std::optional<BackupFill> fill) const;
  // The backup that gets this copy's changes; null: none.
  FollowingCopy* backup() { return is_primary() ? primary().backup() : nullptr; }
  const FollowingCopy* backup() const;
  // The backup or next backup at this address, or on this connection; null: none.
  FollowingCopy* CopyAt(const std::string& address);
  FollowingCopy* CopyOn(transport::ConnectionId connection);
  void PassOn(std::vector<ShardAction>* actions);

  std::vector<proto::NodeClock> NodeClocks() const;
  // Refuses the frame, or answers that it may be valid later.
  void Reject(transport::ConnectionId connection, const wire::Frame& frame, const FrameFault& fault,
              std::vector<ShardAction>* actions);
  bool OnPrimaryHello(transport::ConnectionId connection, const wire::Frame& frame,
                      const wire::Hello& hello, std::vector<ShardAction>* actions);

  // The rest is for a primary. Takes a node's frame, or does what is due; `made` goes to nodes,
  // possibly later.
  void OnNodeFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                   std::vector<ShardAction>* made);
  void OnRowsFrame(transport::ConnectionId connection, const Binding& binding,
                   const wire::Frame& frame, std::vector<ShardAction>* actions);
  void OnRowsPush(transport::ConnectionId connection, const Binding& binding,
                  const wire::Frame& frame, size_t bucket, std::vector<ShardAction>* actions);
  // Passes on the pieces of copies of rows that are made.
  void GiveRowPieces();
  void OnDeadlines(absl::Time now, std::vector<ShardAction>* made);
  void OnInit(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
              size_t chunk, absl::Time now, std::vector<ShardAction>* actions);
  // Answers an INIT that requests the first weights.
  void GiveFirst(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                 size_t chunk, std::vector<ShardAction>* actions);
  // Answers with a node's progress on the chunk, or with the weights of a clock, once they are
  // available.
  void OnPull(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
              size_t chunk, std::vector<ShardAction>* actions);
  void AnswerPulls(size_t chunk, std::vector<ShardAction>* actions);
  void OnPushPull(transport::ConnectionId connection, const Binding& binding,
                  const wire::Frame& frame, size_t chunk, absl::Time now,
                  std::vector<ShardAction>* actions);
  void OnCut(size_t node, const wire::Frame& frame, size_t chunk,
             std::vector<ShardAction>* actions);
  void OnRetire(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                absl::Time now, std::vector<ShardAction>* actions);
  // Sends the answers, also to waiting PULLs, and, once they are encoded, takes the images that the
  // chunk has cut.
  void SendDue(size_t chunk, const std::vector<DueAnswer>& due, std::vector<ShardAction>* actions);

  ShardPlan plan_;
  const kernels::Kernels& kernels_;
  const std::shared_ptr<void> cut_memory_;  // kept from one cut to the next
  NodeConnections connections_;
  const FrameGate gate_;
  ShardChunks chunks_;
  std::shared_ptr<ShardRows> rows_;  // null: the job has no tables
  std::vector<ShardRowsPiece>* const pieces_out_;
  const std::shared_ptr<const std::vector<rows::TableSpec>> tables_;
  ShardCounters counters_;
  ShardTrace trace_;
  AnswerSender sender_;
  WaitingPulls pulls_;
  CutCollector<ChunkImage> cuts_;
  std::vector<ShardCut>* const cuts_out_;
  size_t reports_to_skip_ = 0;  // until the next survey of all chunks
  uint64_t cut_floor_ = 0;      // no images are wanted up to this clock
  NextBackup next_;
  Role role_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_JOB_H_

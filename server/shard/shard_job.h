#ifndef STRATA_SERVER_SHARD_SHARD_JOB_H_
#define STRATA_SERVER_SHARD_SHARD_JOB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/shard/answer_sender.h"
#include "server/shard/chunk/chunk_state.h"
#include "server/shard/frame_gate.h"
#include "server/shard/frames/node_connections.h"
#include "server/shard/frames/shard_trace.h"
#include "server/shard/frames/waiting_pulls.h"
#include "server/shard/replica/backup_line.h"
#include "server/shard/replica/copy_frames.h"
#include "server/shard/replica/next_backup.h"
#include "server/shard/shard_core.h"
#include "server/shard/shard_cut.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// One job on one shard. A frame goes through its parts in one direction: the gate says whether it
// is right, its chunk takes it in, and the sender sends the answers that are due then.
//
// Threads: one.
class ShardJob {
 public:
  // All outlive it; `scratch` is the thread's, `refusals` and `cuts` are added to. `trace` null:
  // none.
  ShardJob(ShardPlan plan, ShardCopy copy, const kernels::Kernels& kernels, BufferPool& pool,
           kernels::EncoderScratch* scratch, Refusals* refusals, std::vector<ShardCut>* cuts,
           std::unique_ptr<TraceLog> trace);

  // HELLO binds a connection to a logical node, or to the primary, and is answered. True: it is
  // bound now.
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
  // False: this address is not wanted any more.
  bool OnConnected(const std::string& address, transport::ConnectionId connection, absl::Time now,
                   std::vector<ShardAction>* actions);
  void OnConnectFailed(const std::string& address, const absl::Status& why, absl::Time now,
                       std::vector<ShardAction>* actions);
  absl::Status Promote(uint32_t generation, std::vector<ShardAction>* actions);
  absl::Status GoOnAlone(uint32_t generation, std::vector<ShardAction>* actions);
  absl::Status FillBackup(uint32_t generation, const std::string& address, bool is_whole,
                          std::vector<ShardAction>* actions);
  absl::Status FillNext(uint32_t generation, const std::string& address,
                        std::vector<ShardAction>* actions);
  absl::Status ChangeView(const proto::ViewChange& change);
  uint32_t generation() const { return plan_.generation; }
  // Of its backup and of the next one, where there are such.
  std::vector<BackupState> backup_states() const;

  // Answers a frame with an error and counts it.
  void Refuse(transport::ConnectionId connection, const wire::Frame& frame, wire::ErrorCode code,
              const std::string& reason, std::vector<ShardAction>* actions);
  const ShardCounters& counters() const { return counters_; }
  TraceLog* trace() { return trace_.log(); }
  // Returns how far each node is, for one report after the other. It is empty where the shard holds
  // no chunk of the job, and in reports between two looks: in a large job looking at every node's
  // every chunk takes longer than a shard should stand still once a second.
  std::vector<proto::NodeClock> NextNodeClocks();
  // The bytes that are held now. Looks at every chunk.
  uint64_t MemoryBytes() const;
  // Puts the shard's chunks where images of a checkpoint have them; others may be among those.
  // Errors: InvalidArgument naming the chunk that does not fit, or is there twice. REQUIRES: no
  // frame has come.
  absl::Status Restore(absl::Span<const ChunkImage> images);
  // Whether all chunks have been restored. Errors: InvalidArgument naming the first that has not.
  absl::Status CheckRestored() const;
  // See ShardCore.
  void LetGoOf(uint64_t clock) { cuts_.LetGo(clock); }
  // Gradient buffers held for incomplete clocks of a chunk; 0 where it is not here.
  size_t HeldSums(ChunkId chunk) const;
  // Returns the chunk, to restore it before any frame comes, or to take its images. Null: it is not
  // here.
  ChunkState* FindChunk(ChunkId chunk);
  // All connections that are bound to the job, in order.
  std::vector<transport::ConnectionId> Connections() const;

 private:
  std::vector<proto::NodeClock> NodeClocks() const;
  // Refuses the frame, or says that it may be right later.
  void Reject(transport::ConnectionId connection, const wire::Frame& frame, const FrameFault& fault,
              std::vector<ShardAction>* actions);

  // Takes what a node says, or does what is due; `made` goes to nodes, perhaps later.
  void OnNodeFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                   std::vector<ShardAction>* made);
  void OnDeadlines(absl::Time now, std::vector<ShardAction>* made);
  // What was made leaves once the backup has what went before it.
  void Emit(std::vector<ShardAction> made, std::vector<ShardAction>* actions);
  std::unique_ptr<BackupLine> NewBackupLine(const std::string& address, uint32_t generation) const;
  BackupLine* LineTo(const std::string& address);
  // Says chunks to a backup that lacks them, a few at a time.
  void Fill(BackupLine* line, std::optional<BackupFill>* fill, absl::Time now);
  wire::Header HeaderOf(wire::Op op, size_t chunk) const;
  // Says a change to the backup and to the next one, if there are such.
  void Log(const wire::Frame& frame, absl::Time now);
  void Say(BackupLine* line, wire::Frame change, absl::Time now);
  void PassOn(std::vector<ShardAction>* actions);
  // The next backup is the backup from now on. REQUIRES: there is one.
  absl::Status TakeNext(bool is_whole, std::vector<ShardAction>* actions);
  void DropNext(std::vector<ShardAction>* actions);
  void LogGraceIsOver(size_t chunk, absl::Time now);
  // The same for clocks that the chunk has applied.
  void LogSums(size_t chunk, absl::Time now);

  // The backup's part: what its primary says.
  bool OnPrimaryHello(transport::ConnectionId connection, const wire::Frame& frame,
                      const wire::Hello& hello, std::vector<ShardAction>* actions);
  void OnPrimaryFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                      std::vector<ShardAction>* actions);
  void Confirm(transport::ConnectionId connection, wire::Frame reply,
               std::vector<ShardAction>* actions);
  // Does what the primary has done. Errors: it cannot be done here.
  absl::Status Follow(const wire::Frame& frame, absl::Time now);
  absl::Status FollowPush(const wire::Frame& frame, size_t node, size_t chunk, absl::Time now);
  absl::Status FollowCopy(const wire::Frame& frame, size_t chunk);
  // The primary has yet to say the chunk.
  bool Lacks(size_t chunk) const { return !lacks_.empty() && lacks_[chunk]; }
  // Lets nodes that have joined since the job began join the chunk, too, if they have not.
  void JoinAll(size_t chunk);

  void OnInit(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
              size_t chunk, absl::Time now, std::vector<ShardAction>* actions);
  // Answers an INIT that asks for the first weights.
  void GiveFirst(transport::ConnectionId connection, size_t node, const wire::Frame& frame,
                 size_t chunk, std::vector<ShardAction>* actions);
  // Says how far a node is with the chunk, or gives it the weights of a clock, once they are there.
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
  void Retire(size_t node, absl::Time now, std::vector<ShardAction>* actions);

  // The chunk's deadline may be another one than before.
  void UpdateDeadline(size_t chunk, absl::Time before);
  // Sends the answers, also to PULLs that wait, and, once they are encoded, takes the images that
  // the chunk has cut.
  void SendDue(size_t chunk, const std::vector<DueAnswer>& due, std::vector<ShardAction>* actions);

  ShardPlan plan_;
  const kernels::Kernels& kernels_;
  const std::shared_ptr<void> cut_memory_;  // kept from one cut to the next
  NodeConnections connections_;
  const FrameGate gate_;
  // Those of plan_.chunks, by the same index. Pointers, because a chunk does not move.
  std::vector<std::unique_ptr<ChunkState>> chunks_;
  std::set<std::pair<absl::Time, size_t>> deadlines_;  // of chunks that have one
  ShardCounters counters_;
  ShardTrace trace_;
  AnswerSender sender_;
  WaitingPulls pulls_;
  CutCollector<ChunkImage> cuts_;
  std::vector<ShardCut>* const cuts_out_;
  size_t reports_to_skip_ = 0;  // until the next look at all chunks

  // A primary's; null: it has no backup.
  std::unique_ptr<BackupLine> backup_;
  std::optional<BackupFill> fill_;  // what the backup lacks; none: nothing
  bool stands_still_ = false;       // until it has a backup
  std::optional<NextBackup> next_;
  uint32_t next_generation_ = 0;  // the newest that was said of such a copy
  // A backup's: who says what is done, and the last of it that is done here.
  bool is_backup_ = false;
  std::vector<bool> lacks_;  // by chunk; empty: none
  CopyCollector collector_;
  std::optional<transport::ConnectionId> primary_;
  uint64_t followed_ = 0;
  // What chunks take for the time, less the time here: a backup goes by the time of its primary.
  absl::Duration ahead_;
  uint64_t cut_floor_ = 0;  // no images are wanted up to this clock
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_JOB_H_

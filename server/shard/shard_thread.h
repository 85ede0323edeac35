#ifndef STRATA_SERVER_SHARD_SHARD_THREAD_H_
#define STRATA_SERVER_SHARD_SHARD_THREAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/closure_queue.h"
#include "common/ids.h"
#include "common/require.h"
#include "common/transport/endpoint.h"
#include "kernels/kernels.h"
#include "proto/processes.pb.h"
#include "server/shard/frames/frame_backlog.h"
#include "server/shard/shard_core.h"

namespace strata::server {

// One shard at work: a thread that moves frames between its endpoint and its ShardCore.
//
// Threads: Start and Stop from the owner's; Install, Remove, Counters, NextReports, TakeTraces and
// Use from any thread but the shard's own. Those block until the shard has got to them, which takes
// as long as the frames in hand.
class ShardThread {
 public:
  struct Options {
    std::string listen = "tcp://127.0.0.1:0";
    // Answers that may wait for one peer whose queue is full. Further ones are dropped, and sent
    // again when the peer resends its push.
    size_t waiting_frames_max = 4096;
    // Is called on the shard's thread for each of ShardCore's cuts, and must not block.
    std::function<void(ShardCut)> on_cut;
  };

  // `kernels` outlives it.
  ShardThread(Options options, const kernels::Kernels& kernels,
              std::unique_ptr<transport::Endpoint> endpoint);
  ~ShardThread();  // stops

  // Listens and starts the thread. May be called once. Errors: those of Endpoint::Listen.
  absl::Status Start();
  // Ends the thread; connections end with it. Idempotent.
  void Stop();

  // The port on which it listens. REQUIRES: started.
  int port() const {
    STRATA_REQUIRE(port_ != 0);
    return port_;
  }

  // These do what ShardCore's do. Errors besides: FailedPrecondition (not running).
  absl::Status Install(const proto::JobRecord& record, ShardId own_shard,
                       ShardCopy copy = ShardCopy::kPrimary);
  absl::StatusOr<bool> BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                    ShardCopy copy = ShardCopy::kPrimary);
  absl::Status InstallMore(JobId job, absl::Span<const ChunkImage> images);
  absl::Status EndInstall(JobId job);
  absl::Status Promote(JobId job, ShardId shard, uint32_t generation);
  absl::Status GoOnAlone(JobId job, ShardId shard, uint32_t generation);
  absl::Status FillBackup(JobId job, ShardId shard, uint32_t generation, const std::string& address,
                          bool is_whole);
  absl::Status FillNext(JobId job, ShardId shard, uint32_t generation, const std::string& address);
  absl::Status ChangeView(const proto::ViewChange& change);
  absl::StatusOr<bool> RemoveShard(JobId job, ShardId shard, uint32_t generation);
  absl::Status Remove(JobId job);
  // Empty where it is not running.
  absl::flat_hash_map<JobId, ShardCounters> Counters();
  absl::flat_hash_map<JobId, ShardReport> NextReports();
  std::vector<proto::TraceBatch> TakeTraces();
  transport::EndpointUse Use();
  std::vector<BackupState> BackupStates();
  // Does not wait.
  void LetGoOf(JobId job, ShardId shard, uint64_t clock);
  // Returns ShardCore's refusals, and those of connections.
  Refusals AllRefusals();

 private:
  void Run();
  // Returns how long the thread may wait for events: until something is due.
  absl::Duration PollTimeout() const;
  void OnEvent(transport::Event event);
  void Execute();
  void Execute(const ShardAction& action);
  void HandOverCuts();
  void Send(transport::ConnectionId connection, const wire::Frame& frame);
  // Runs `closure` on the shard's thread and waits for it.
  absl::Status RunOnThread(absl::AnyInvocable<void()> closure);

  const Options options_;
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ClosureQueue queue_;
  int port_ = 0;
  std::thread thread_;

  // Owned by the shard's thread:
  ShardCore core_;
  bool stopping_ = false;
  uint64_t refused_ = 0;  // frames whose refusal could have been logged
  std::vector<ShardAction> actions_;
  FrameBacklog backlog_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_THREAD_H_

#ifndef STRATA_SERVER_SHARD_SHARD_THREAD_H_
#define STRATA_SERVER_SHARD_SHARD_THREAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/closure_queue.h"
#include "common/ids.h"
#include "common/require.h"
#include "common/transport/endpoint.h"
#include "kernels/kernels.h"
#include "proto/processes.pb.h"
#include "server/shard/frame_backlog.h"
#include "server/shard/shard_core.h"

namespace strata::server {

// A running shard: a thread that moves frames between its endpoint and its ShardCore.
//
// Threads: Start and Stop from the owner's; all else from any thread but the shard's own. Calls
// block until the shard has handled them, after the frames received so far.
class ShardThread {
 public:
  struct Options {
    std::string listen = "tcp://127.0.0.1:0";
    // Answers that may wait for one peer whose queue is full. Further ones are dropped, and sent
    // again when the peer resends its push.
    size_t waiting_frames_max = 4096;
    // Called on the shard's thread for each of ShardCore's cuts, and pieces of rows; they must not
    // block.
    std::function<void(ShardCut)> on_cut;
    std::function<void(ShardRowsPiece)> on_rows;
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

  // Runs a command of ShardCore on the shard's thread, performs the resulting actions, and waits
  // for both: Call([&](ShardCore& core, auto* actions) { return core.Promote(..., actions); }).
  // Errors: those of `command`; FailedPrecondition (not running).
  using Command = absl::FunctionRef<absl::Status(ShardCore& core, std::vector<ShardAction>*)>;
  absl::Status Call(Command command);

  // As in ShardCore. Further errors: FailedPrecondition (not running).
  absl::Status Install(const proto::JobRecord& record, ShardId own_shard,
                       ShardCopy copy = ShardCopy::kPrimary);
  absl::StatusOr<bool> BeginInstall(const proto::JobRecord& record, ShardId own_shard,
                                    ShardCopy copy = ShardCopy::kPrimary);
  absl::Status InstallMore(JobId job, absl::Span<const ChunkImage> images);
  absl::Status InstallMore(JobId job, const RowsImage& rows);
  absl::Status EndInstall(JobId job);
  absl::Status Remove(JobId job);
  // Empty if it is not running.
  absl::flat_hash_map<JobId, ShardCounters> Counters();
  absl::flat_hash_map<JobId, ShardReport> NextReports();
  std::vector<proto::TraceBatch> TakeTraces();
  transport::EndpointUse Use();
  std::vector<BackupState> BackupStates();
  // Returns ShardCore's refusals, and those of connections.
  Refusals AllRefusals();
  // Do not wait: the shard does it before commands that are given later.
  void ReleaseCut(JobId job, ShardId shard, uint64_t clock) { Release({job, shard, clock}); }
  void ReleaseRows(JobId job, ShardId shard) { Release({job, shard, std::nullopt}); }

 private:
  struct HeldCut {
    JobId job;
    ShardId shard;
    std::optional<uint64_t> clock;  // nullopt: a piece of rows
  };

  void Run();
  // Returns how long the thread may wait for events: until something is due.
  absl::Duration PollTimeout() const;
  void OnEvent(transport::Event event);
  void Execute();
  void Execute(const ShardAction& action);
  void HandOverCuts();
  void Send(transport::ConnectionId connection, const wire::Frame& frame);
  void ReleaseCuts();
  void Release(const HeldCut& cut);
  // Runs `closure` on the shard's thread and waits for it.
  absl::Status RunOnThread(absl::AnyInvocable<void()> closure);
  // Returns the result of `ask` on the shard's thread; empty if that is not running.
  template <typename Ask>
  std::invoke_result_t<Ask> AskOnThread(Ask ask);

  const Options options_;
  const std::unique_ptr<transport::Endpoint> endpoint_;
  ClosureQueue queue_;
  int port_ = 0;
  std::thread thread_;
  std::atomic<bool> stopping_ = false;
  absl::Mutex mutex_;
  std::vector<HeldCut> released_ ABSL_GUARDED_BY(mutex_);  // at most what the shard has cut

  // Owned by the shard's thread:
  ShardCore core_;
  uint64_t refused_ = 0;  // refusals that were eligible for the log
  std::vector<ShardAction> actions_;
  FrameBacklog backlog_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_THREAD_H_

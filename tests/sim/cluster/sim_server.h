#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/os/event_loop.h"
#include "common/transport/sim/sim_network.h"
#include "proto/control.pb.h"
#include "server/daemon/server_daemon_core.h"
#include "server/shard/frame_backlog.h"
#include "server/shard/shard_core.h"
#include "tests/sim/check/shard_copies.h"
#include "tests/sim/cluster/eavesdropper.h"
#include "tests/sim/cluster/sim_daemon.h"

namespace strata::sim {

class World;

// One thread of a server: ShardThread's loop around a ShardCore, which holds shards of jobs and
// second copies of some, and additional frames that no node would send.
class SimShard {
 public:
  // `port` 0: any free one.
  SimShard(World* world, const std::string& name, const std::string& host_name, uint32_t host,
           int port);

  // Ends like a process that dies: sends nothing.
  ~SimShard();
  SimShard(const SimShard&) = delete;
  SimShard& operator=(const SimShard&) = delete;

  int port() const { return port_; }
  uint64_t process() const { return process_; }
  bool Holds(JobId job, ShardId shard) const {
    return held_.contains({job.value(), shard.value()});
  }
  // Returns the job and shard of each copy here.
  std::vector<std::pair<uint32_t, uint32_t>> Copies() const {
    std::vector<std::pair<uint32_t, uint32_t>> copies;
    for (const auto& [id, held] : held_) copies.push_back(id);
    return copies;
  }
  // These do what ShardCore's do, and tell the checkers. Errors: ShardCore's.
  absl::Status BeginInstall(const proto::JobRecord& record, ShardId shard, server::ShardCopy copy);
  absl::Status EndInstall(JobId job) { return core_.EndInstall(job); }
  absl::Status Move(const proto::MoveShard& move);
  absl::Status FillNext(const proto::FillNext& fill);
  absl::Status ChangeView(const proto::ViewChange& change);
  bool RemoveShard(JobId job, ShardId shard, uint32_t generation);
  void Remove(JobId job);
  std::vector<server::BackupState> BackupStates() const { return core_.BackupStates(); }
  // Pauses or resumes with its process.
  void StandStill(bool stands);

 private:
  void OnReady();
  void OnTime();
  // Calls OnReady when the core's deadline comes.
  void WakeAtDeadline();
  void OnEvent(transport::Event event);
  void OnFrame(const transport::Event& event);
  using JobShard = std::pair<uint32_t, uint32_t>;
  struct Held {
    bool is_backup = false;
    bool took_over = false;
    uint32_t generation = 0;        // of the newest copy that it has been told of
    bool is_late = false;           // it arrived while the job trained
    bool has_whole_backup = false;  // as far as it has been told
    uint32_t next_generation = 0;   // of the copy that it must fill as well, or had to
    std::string next;               // its address; empty: none is
  };

  // HELLO names the shard of all later frames.
  void Bind(const transport::Event& event);
  Copy CopyOf(uint32_t shard) const { return {shard, process_}; }
  // Informs the job's checker.
  void CheckTaken(const transport::Event& event, absl::Time now);
  // A connection is gone.
  void Forget(transport::ConnectionId connection);
  void RepeatHello(const transport::Event& event);
  // A node may join again from `clock` on: the RETIRE of its process that has left comes once more.
  void RepeatRetire(uint32_t job, uint32_t node, uint64_t clock);
  void SendStrays(const transport::Event& event);
  // Sends a frame that the core must refuse without any other action.
  void Stray(const transport::Event& event, wire::Frame frame, wire::Op refusal, const char* what);
  void Execute();
  void Execute(const server::ShardAction& action);
  void Send(transport::ConnectionId connection, const wire::Frame& frame);

  World* const world_;
  const std::string name_, host_name_;
  server::ShardCore core_;
  const uint64_t process_;
  std::map<JobShard, Held> held_;
  uint32_t stops_ = 0;  // number of pauses in progress
  absl::Time wakes_at_ = absl::InfiniteFuture();
  std::map<transport::ConnectionId, JobShard> bound_;
  std::map<std::pair<uint32_t, uint32_t>, transport::Event> retired_;  // the last RETIRE, by job
                                                                       // and node
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  std::unique_ptr<WatchedEndpoint> endpoint_;
  std::optional<server::FrameBacklog> backlog_;
  int port_ = 0;
  OwnedTimers<transport::SimNetwork> timers_;
};

class World;

// A server's host: its daemon, which the product's core runs, takes jobs in and out, and may die
// and start again.
class SimServer final : public SimDaemon, public server::ServerDaemonActions {
 public:
  SimServer(World* world, const std::string& name, uint32_t shards);

  bool Listens(const std::string& address) const;

 private:
  void Begin(proto::Register* registration) override;
  void Clear() override;
  void OnMessage(const proto::CoordinatorMessage& message) override;
  void OnDial() override { unplaced_beats_.clear(); }
  std::vector<uint32_t> RunningJobs() const override { return core_->RunningJobs(); }
  proto::Heartbeat MakeHeartbeat() override;
  void StandStill(bool stands) override;

  void Send(proto::DaemonMessage message) override;
  absl::Status BeginInstall(size_t thread, const proto::JobRecord& record, ShardId shard,
                            server::ShardCopy copy) override;
  absl::Status EndInstall(size_t thread, JobId job) override;
  void Load(const proto::InstallJob& install) override;
  absl::Status MoveShard(size_t thread, const proto::MoveShard& move) override;
  absl::Status FillNext(size_t thread, const proto::FillNext& fill) override;
  absl::Status ChangeView(size_t thread, const proto::ViewChange& change) override;
  absl::StatusOr<bool> RemoveShard(size_t thread, JobId job, ShardId shard,
                                   uint32_t generation) override;
  void RemoveJob(JobId job) override;

  // All copies here have the changes of the record.
  void NoteViews(const proto::JobRecord& record);
  void Check(const SimShard& here, const server::BackupState& state,
             const proto::BackupReport& report);
  // Checks that copies are not kept which the coordinator has placed elsewhere.
  void CheckPlaced();

  std::vector<int> ports_;  // of the last process
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::unique_ptr<server::ServerDaemonCore> core_;  // null: no process
  bool is_to_fill_next_ = false;                    // so says the message in hand
  // By job and shard, of copies that the job should not have here: heartbeats on this connection.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> unplaced_beats_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/os/event_loop.h"
#include "common/transport/sim/sim_network.h"
#include "proto/control.pb.h"
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
  void Install(const proto::JobRecord& record, uint32_t shard, server::ShardCopy copy);
  // The copy here is the only one from now on, or has another second copy. Errors: the core's;
  // NotFound: no copy is here.
  absl::Status Move(const proto::MoveShard& move);
  // The copy here must fill another one as well, or none any more. Errors: as above.
  absl::Status FillNext(const proto::FillNext& fill);
  // Removes an older copy. Returns whether there is a copy here that is not older.
  bool RemoveShard(uint32_t job, uint32_t shard, uint32_t generation);
  bool Holds(uint32_t job) const;
  // See ShardCore::ChangeView.
  absl::Status ChangeView(const proto::ViewChange& change) { return core_.ChangeView(change); }
  void Remove(uint32_t job);
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
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  std::unique_ptr<WatchedEndpoint> endpoint_;
  std::optional<server::FrameBacklog> backlog_;
  int port_ = 0;
  OwnedTimers<transport::SimNetwork> timers_;
};

class World;

// A server's host. Its daemon installs and removes jobs, and may die and restart.
class SimServer final : public SimDaemon {
 public:
  SimServer(World* world, const std::string& name, uint32_t shards);

  bool Listens(const std::string& address) const;

 private:
  void Begin(proto::Register* registration) override;
  void Clear() override;
  void OnMessage(const proto::CoordinatorMessage& message) override;
  std::vector<uint32_t> RunningJobs() const override { return {jobs_.begin(), jobs_.end()}; }
  proto::Heartbeat MakeHeartbeat() override;
  void StandStill(bool stands) override;

  void Move(const proto::MoveShard& move);
  void FillNext(const proto::FillNext& fill);
  // Answers a MoveShard or FillNext that it cannot do.
  template <typename Message>
  void SayNotMoved(const Message& asked, const absl::Status& why);
  void Install(const proto::InstallJob& install);
  void InstallBackup(const proto::InstallBackup& install);
  // Errors: the server has no room for it.
  absl::Status TakeBackup(const proto::InstallBackup& install);
  void ChangeView(const proto::ViewChange& change);
  // All copies here have the changes of the record.
  void NoteViews(const proto::JobRecord& record);
  void RemoveShard(const proto::RemoveShard& remove);
  // An older copy of a shard is no longer here, nor is the job if that was all of it.
  void Forget(uint32_t job, uint32_t shard, uint32_t generation);
  void RemoveJob(uint32_t job);
  void Check(const SimShard& here, const server::BackupState& state,
             const proto::BackupReport& report);

  std::vector<int> ports_;  // of the last process
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::set<uint32_t> jobs_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

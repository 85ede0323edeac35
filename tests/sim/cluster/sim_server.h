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

// One thread of a server: the loop of ShardThread around a ShardCore, which holds shards of jobs
// and second copies of some; and the frames that no node would send.
class SimShard {
 public:
  // `port` 0: a free one.
  SimShard(World* world, const std::string& name, const std::string& host_name, uint32_t host,
           int port);

  // Ends as a process that dies does: nothing is said.
  ~SimShard();
  SimShard(const SimShard&) = delete;
  SimShard& operator=(const SimShard&) = delete;

  int port() const { return port_; }
  uint64_t process() const { return process_; }
  void Install(const proto::JobRecord& record, uint32_t shard, server::ShardCopy copy);
  // The copy that lies here is the only one, or has another second copy. Errors: the core's;
  // NotFound: none lies here.
  absl::Status Move(const proto::MoveShard& move);
  // The copy that lies here is to fill another one besides, or none any more. Errors: likewise.
  absl::Status FillNext(const proto::FillNext& fill);
  // Forgets a copy that is older. Returns whether one is here that is not.
  bool RemoveShard(uint32_t job, uint32_t shard, uint32_t generation);
  bool Holds(uint32_t job) const;
  // As ShardCore::ChangeView.
  absl::Status ChangeView(const proto::ViewChange& change) { return core_.ChangeView(change); }
  void Remove(uint32_t job);
  std::vector<server::BackupState> BackupStates() const { return core_.BackupStates(); }
  // With its process, by a signal; or no more.
  void StandStill(bool stands);

 private:
  void OnReady();
  void OnTime();
  // Calls OnReady when the core wants to be told the time.
  void WakeAtDeadline();
  void OnEvent(transport::Event event);
  void OnFrame(const transport::Event& event);
  using JobShard = std::pair<uint32_t, uint32_t>;
  struct Held {
    bool is_backup = false;
    bool took_over = false;
    uint32_t generation = 0;        // of the last that it has heard of
    bool is_late = false;           // it came when the job trained
    bool has_whole_backup = false;  // as it has heard
    uint32_t next_generation = 0;   // of the copy that it is to fill besides, or was
    std::string next;               // its address; empty: none is
  };

  // HELLO names the shard that all else is about.
  void Bind(const transport::Event& event);
  Copy CopyOf(uint32_t shard) const { return {shard, process_}; }
  // Tells the job's checker.
  void CheckTaken(const transport::Event& event, absl::Time now);
  // A connection is gone.
  void Forget(transport::ConnectionId connection);
  void RepeatHello(const transport::Event& event);
  void SendStrays(const transport::Event& event);
  // The core must refuse it and want nothing else.
  void Stray(const transport::Event& event, wire::Frame frame, wire::Op refusal, const char* what);
  void Execute();
  void Execute(const server::ShardAction& action);
  void Send(transport::ConnectionId connection, const wire::Frame& frame);

  World* const world_;
  const std::string name_, host_name_;
  server::ShardCore core_;
  const uint64_t process_;
  std::map<JobShard, Held> held_;
  uint32_t stops_ = 0;  // that are not over
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

// A server's host: its daemon takes jobs in and out, and may die and start again.
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
  // The answer to a MoveShard or FillNext that it cannot do.
  template <typename Message>
  void SayNotMoved(const Message& asked, const absl::Status& why);
  void Install(const proto::InstallJob& install);
  void InstallBackup(const proto::InstallBackup& install);
  // Errors: there is no room for it.
  absl::Status TakeBackup(const proto::InstallBackup& install);
  void ChangeView(const proto::ViewChange& change);
  // All copies here have the changes of the record.
  void NoteViews(const proto::JobRecord& record);
  void RemoveShard(const proto::RemoveShard& remove);
  // A copy of a shard that is older is not here any more, nor is the job, if that was all of it.
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

#ifndef STRATA_SERVER_TESTING_CORE_HARNESS_H_
#define STRATA_SERVER_TESTING_CORE_HARNESS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/core/coordinator_core.h"

namespace strata::server {

// A coordinator core for tests, with a time that the test advances and a record of its actions.
class CoreHarness : private CoordinatorActions {
 public:
  explicit CoreHarness(CoordinatorCore::Options options = {});

  // Starts a new coordinator process with the saved state of the old one. Connections are gone.
  void Restart();

  // Connects and registers; `daemon_id` 0: a default for the name. Returns the session.
  SessionId JoinWorker(const std::string& name, uint32_t slots,
                       const std::vector<uint32_t>& running = {}, uint64_t daemon_id = 0);
  // Joins a stand-in.
  SessionId JoinStandIn(const std::string& name, uint32_t slots,
                        const std::vector<uint32_t>& running = {});
  SessionId JoinServer(const std::string& name, uint32_t shards,
                       const std::vector<uint32_t>& running = {}, uint64_t daemon_id = 0,
                       const std::string& address = "host");
  // Sets the host that daemons of this name report when they join; by default none.
  void SetHost(const std::string& name, const std::string& host, double link_bytes_per_s = 0);
  // Sets the GPUs that they report; by default none.
  void SetGpus(const std::string& name, uint32_t gpus, uint32_t ranks_per_gpu = 1);
  // Sets their protocol version; by default the newest.
  void SetProtocol(const std::string& name, uint32_t version) { protocols_[name] = version; }
  void Disconnect(const std::string& name);
  // Repeats the daemon's newest Register on another connection.
  void Repeat(const std::string& name, SessionId session);
  // Sets the worker's result for this address from now on: an empty error stands for reached, the
  // default; nullopt for no answer.
  void SetReach(const std::string& worker, const std::string& address,
                std::optional<std::string> error);
  // Advances the time in small steps; connected daemons send heartbeats unless silenced.
  void Advance(absl::Duration by, const std::string& silent = "");
  // Advances the time at once: the coordinator is paused, and its first tick comes before the
  // daemons' messages.
  void Stall(absl::Duration by);

  // Daemons' messages carry the attempt that they were last told to begin; SetAttempt overrides
  // that until the next command. The same holds for the incarnation of a worker's node.
  void SetAttempt(uint32_t job, uint32_t attempt) { attempts_[job] = attempt; }
  void SetIncarnation(const std::string& worker, uint32_t job, uint32_t incarnation) {
    incarnations_[{worker, job}] = incarnation;
  }
  void Ready(const std::string& worker, uint32_t job);
  void Ready(const std::string& worker, const proto::NodeReady& message);
  void Installed(const std::string& server, uint32_t job, const std::string& error = "",
                 bool is_damaged = false);
  // The server reports that it has written, or not, the checkpoint part of a shard of the newest
  // attempt.
  void WritePart(const std::string& server, uint32_t job, uint64_t clock, uint32_t shard,
                 const std::string& error = "");
  // After `steps` steps of each rank, if given.
  void Finished(const std::string& worker, uint32_t job,
                std::optional<uint64_t> steps = std::nullopt);
  void Failed(const std::string& worker, uint32_t job, const std::string& reason,
              bool has_diverged = false);
  void Report(const std::string& worker, uint32_t job, uint32_t rank, uint64_t end_step);
  // The worker's heartbeat reports how many steps the node's ranks have made.
  void SayActivity(const std::string& worker, uint32_t job, uint32_t node, uint64_t steps,
                   std::optional<uint64_t> rejoined_step = std::nullopt);
  void Send(const std::string& daemon, const proto::DaemonMessage& message);
  // Submits a job and brings it to training on the given workers and servers.
  uint32_t Train(const proto::Job& job, const std::vector<std::string>& workers,
                 const std::vector<std::string>& servers);

  // Returns a valid job.
  static proto::Job SomeJob(uint32_t ranks);
  static proto::NodeReady SomeLayout(uint32_t job);
  absl::StatusOr<proto::DrainReply> Drain(
      const std::string& daemon, proto::DrainRequest::Action action = proto::DrainRequest::DRAIN);
  uint32_t Submit(const proto::Job& job, const std::string& resume_dir = "");
  proto::JobStatus Status(uint32_t job);

  // Returns the messages to the daemon since the last call: "StartNode 1", "RunNode 1", "StopNode
  // 1", ...
  std::vector<std::string> Sent(const std::string& daemon);
  // Returns the newest message of this kind to a daemon.
  proto::CoordinatorMessage Newest(const std::string& daemon,
                                   proto::CoordinatorMessage::MessageCase kind);

  CoordinatorCore& core() { return *core_; }
  absl::Time now() const { return now_; }
  const std::vector<proto::FollowEvent>& events() const { return events_; }
  const std::map<uint32_t, proto::StoredJob>& stored() const { return stored_; }
  // The state that an older coordinator saved, to be changed before Restart.
  proto::StoredJob* stored_to_change(uint32_t job) { return &stored_.at(job); }
  bool IsClosed(SessionId session) const;
  // The log lines about who blocks a job.
  const std::vector<std::string>& warnings() const { return warnings_; }
  void FailNextPersist() { fail_persist_ = true; }
  // The coordinator's requests to stores since the last call; tests answer.
  std::vector<CheckpointQuery> TakeQueries() { return std::exchange(queries_, {}); }
  void Found(uint32_t job, const absl::StatusOr<CheckpointFound>& found) {
    core_->OnCheckpointFound(JobId(job), found, now_);
  }
  void Kept(uint32_t job, uint64_t clock, const absl::Status& status = absl::OkStatus()) {
    core_->OnCheckpointKept(JobId(job), clock, status, now_);
  }
  std::vector<CheckpointToKeep> TakeToKeep() { return std::exchange(to_keep_, {}); }

 private:
  void Send(SessionId session, const proto::CoordinatorMessage& message) override;
  void Close(SessionId session) override;
  absl::Status Persist(const proto::StoredJob& job) override;
  void Forget(JobId job) override;
  absl::Status PersistSeen(const std::vector<SeenRegistrations::Entry>& seen) override;
  absl::Status PersistDraining(const std::vector<std::string>& daemons) override;
  void Notify(JobId job, const proto::FollowEvent& event) override;
  void Warn(const std::string& line) override { warnings_.push_back(line); }
  void FindCheckpoint(const CheckpointQuery& query) override { queries_.push_back(query); }
  void KeepCheckpoint(const CheckpointToKeep& checkpoint) override {
    to_keep_.push_back(checkpoint);
  }
  void AnswerTries();
  SessionId Join(proto::Register registration, const std::vector<uint32_t>& running,
                 uint64_t daemon_id);

  const CoordinatorCore::Options options_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  uint64_t next_session_ = 1;
  std::map<std::string, SessionId> sessions_;
  uint32_t next_attempt_ = 1;
  std::map<std::string, proto::DaemonMessage> registered_;
  std::map<std::string, std::pair<std::string, double>> hosts_;
  std::map<std::string, std::pair<uint32_t, uint32_t>> gpus_;  // and ranks on each
  std::map<std::string, uint32_t> protocols_;
  std::map<SessionId, std::string> names_;
  std::map<std::string, std::vector<proto::CoordinatorMessage>> sent_;
  std::map<std::string, size_t> returned_;  // how many of sent_ were returned by Sent
  std::vector<std::pair<std::string, proto::TryPeers>> tries_;  // not answered yet
  std::map<std::string, std::map<std::string, std::optional<std::string>>> reach_;
  std::vector<SessionId> closed_;
  std::vector<proto::FollowEvent> events_;
  std::vector<std::string> warnings_;
  std::map<uint32_t, proto::StoredJob> stored_;
  std::vector<SeenRegistrations::Entry> seen_;
  std::vector<std::string> draining_;
  uint32_t next_job_id_ = 1;
  bool fail_persist_ = false;
  std::map<uint32_t, uint32_t> attempts_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> incarnations_;  // by worker and job
  std::vector<CheckpointQuery> queries_;
  std::vector<CheckpointToKeep> to_keep_;
  std::unique_ptr<CoordinatorCore> core_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_TESTING_CORE_HARNESS_H_

#ifndef STRATA_TESTS_E2E_TESTING_HOSTILE_JOB_H_
#define STRATA_TESTS_E2E_TESTING_HOSTILE_JOB_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"
#include "gtest/gtest.h"
#include "proto/processes.pb.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/recording_relay.h"

namespace strata::tests {

// Slows a process down by alternately stopping it and letting it run for a moment. A test whose job
// must outlast its attack brakes a rank and releases it afterwards.
class Brake {
 public:
  Brake(int pid, absl::Duration still);
  ~Brake();

 private:
  void Run(absl::Duration still);
  void Send(int signal);

  const UniqueFd process_;
  absl::Notification released_;
  std::thread thread_;
};

// A cluster with a sync job that trains while a test attacks it, and the weights that the same job
// had at every step without an attack.
class HostileJob : public testing::Test {
 protected:
  HostileJob() : HostileJob({.servers = 1, .shards = 2, .nodes = 2, .slots = 2}) {}
  explicit HostileJob(const Cluster::Options& options) : cluster_(options) {}

  // Places an eavesdropper between the daemons and the coordinator; `options` say what it changes.
  // Call it before Begin.
  void Eavesdrop(const RecordingRelay::Options& options = RecordingRelay::Options());
  // Trains undisturbed, then starts the job to attack. Until ExpectUndisturbed each of its steps
  // takes about step_ms.
  void Begin(int steps, int step_ms);
  // Expects that the job still runs, and releases it. Expects that it then ends well with the
  // weights of the undisturbed job at every step, and that all daemons are alive.
  void ExpectUndisturbed();
  // The same; the daemons continue.
  void ExpectTheSameWeights();

  // Ports of the server's shards.
  std::vector<int> ShardPorts();
  int CoordinatorPort();

  // Launches of the nodes: the eavesdropper has learnt the content of their HELLO, and their
  // sockets.
  const std::vector<proto::Launch>& launches() const { return launches_; }
  // Return a header and a HELLO as node 0 sends them.
  wire::Header MakeHeader(wire::Op op) const;
  std::string Hello(const wire::Header& header, uint64_t token, uint32_t shard = 0) const;

  // Returns how often the daemon (or "coordinator") has refused something for this cause; "": for
  // any cause.
  uint64_t Refused(const std::string& daemon, const std::string& cause);
  // Waits until the count is reached, and expects `strata nodes` and `strata status` to show it.
  // `said_as`: how the daemon's status line begins.
  void ExpectRefused(const std::string& daemon, const std::string& cause, uint64_t count,
                     const std::string& said_as = "refused by");
  // Returns the resident memory of the server's process.
  uint64_t ResidentBytes();

  uint32_t traced_steps_ = 0;                                     // of the attacked job
  proto::Job::Exchange exchange_ = proto::Job::PARAMETER_SERVER;  // of both jobs
  std::unique_ptr<RecordingRelay> relay_;                         // set by Eavesdrop
  Cluster cluster_;
  uint32_t finished_job_ = 0;  // the undisturbed job
  JobId job_;

 private:
  std::vector<std::string> expected_;  // hashes by step
  std::optional<Brake> brake_;         // brake of one of the job's ranks
  std::vector<proto::Launch> launches_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_HOSTILE_JOB_H_

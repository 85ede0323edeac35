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

// Slows a process down: it stands still for a while, runs for a moment, and so on. A test whose job
// must outlast what it does brakes a rank, and takes the brake off when it has seen enough.
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
// had at every step when nobody did.
class HostileJob : public testing::Test {
 protected:
  HostileJob() : HostileJob({.servers = 1, .shards = 2, .nodes = 2, .slots = 2}) {}
  explicit HostileJob(const Cluster::Options& options) : cluster_(options) {}

  // Whoever listens between the daemons and the coordinator, and what he changes; call before
  // Begin.
  void Eavesdrop(const RecordingRelay::Options& options = RecordingRelay::Options());
  // Trains undisturbed, then starts the job that is attacked. Until ExpectUndisturbed a step of it
  // takes about step_ms.
  void Begin(int steps, int step_ms);
  // The job must still run. From here on nothing holds it back: it ends well; has the weights of
  // the undisturbed one at every step; and all daemons are alive.
  void ExpectUndisturbed();
  // The same, but the daemons continue.
  void ExpectTheSameWeights();

  // Ports of the server's shards.
  std::vector<int> ShardPorts();
  int CoordinatorPort();

  // What an eavesdropper has learnt of the nodes: their HELLO's content, and sockets.
  const std::vector<proto::Launch>& launches() const { return launches_; }
  // A header as node 0 sends it, and its HELLO.
  wire::Header MakeHeader(wire::Op op) const;
  std::string Hello(const wire::Header& header, uint64_t token, uint32_t shard = 0) const;

  // How often the daemon (or "coordinator") has refused something for this cause; every cause: "".
  uint64_t Refused(const std::string& daemon, const std::string& cause);
  // Waits until it is so often, and checks that `strata nodes` and `strata status` say so.
  // `said_as`: what the status line of the daemon begins with.
  void ExpectRefused(const std::string& daemon, const std::string& cause, uint64_t count,
                     const std::string& said_as = "refused by");
  // Returns the memory of the server's process.
  uint64_t ResidentBytes();

  uint32_t traced_steps_ = 0;                                     // of the job that is attacked
  proto::Job::Exchange exchange_ = proto::Job::PARAMETER_SERVER;  // of both jobs
  std::unique_ptr<RecordingRelay> relay_;                         // once Eavesdrop was called
  Cluster cluster_;
  uint32_t finished_job_ = 0;  // the undisturbed one
  JobId job_;

 private:
  std::vector<std::string> expected_;  // hashes by step
  std::optional<Brake> brake_;         // on a rank of the job
  std::vector<proto::Launch> launches_;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_HOSTILE_JOB_H_

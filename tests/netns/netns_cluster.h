#ifndef STRATA_TESTS_NETNS_NETNS_CLUSTER_H_
#define STRATA_TESTS_NETNS_NETNS_CLUSTER_H_

#include <signal.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/control/coordinator_client.h"
#include "common/testing/test_keys.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/netns/network.h"

namespace strata::tests {

// Real daemons on hosts of a Network: coordinator and servers on host "head", worker w0 on host
// "w0" and so on. They are given no address except the coordinator's.
class NetnsCluster {
 public:
  struct Options {
    int servers = 2;
    int nodes = 2;
    int slots = 2;  // per node
  };
  static constexpr int kHead = 1;
  static constexpr int kFirstWorker = 11;

  explicit NetnsCluster(Options options) : options_(options) {}
  ~NetnsCluster();

  // Lets users take daemons out of service. REQUIRES: before StartHead.
  static void LetUsersOperate();
  // Creates the hosts and starts the coordinator.
  absl::Status StartHead();
  // Kills the coordinator by SIGKILL and restarts it in the same place. REQUIRES: StartHead.
  void KillCoordinator();
  absl::Status StartCoordinator();
  absl::Status StartServer(const std::string& host, const std::string& name,
                           const std::vector<std::string>& more = {});
  absl::Status StartWorker(int i, const std::vector<std::string>& more = {});
  // Starts everything.
  absl::Status Start();
  // Kills a daemon ("server s1") by SIGKILL. REQUIRES: it was started.
  void Kill(const std::string& title) { Signal(title, SIGKILL); }
  void Signal(const std::string& title, int signal);
  // Returns true if the daemon exits with success within WaitUntil's deadline.
  bool WaitForExit(const std::string& title);

  Network& network() { return *network_; }
  control::CoordinatorClient& client() { return *client_; }
  const std::string& address() const { return address_; }
  // Does the same as strata drain; a refusal fails the test.
  proto::DrainReply Drain(const std::string& daemon, proto::DrainRequest::Action action);
  std::string CoordinatorLog() const;
  const std::string& ready_line(const std::string& title) const;

  proto::JobStatus Status(JobId job);
  proto::JobStatus WaitFor(JobId job, const std::function<bool(const proto::JobStatus&)>& done);
  proto::JobStatus WaitForEnd(JobId job);

 private:
  Daemon* Find(const std::string& title);  // the newest one of that title
  absl::Status StartOn(const std::string& host, const std::string& title,
                       std::vector<std::string> args);

  const Options options_;
  std::unique_ptr<Network> network_;
  std::string address_;
  std::optional<keys::KeyFolder> keys_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::vector<Daemon> daemons_;  // the coordinator first
};

// Base of the test cases. Skips them, with the reason, if this user may not create networks, so
// that they neither pass nor hide.
class NetnsTest : public ::testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace strata::tests

#endif  // STRATA_TESTS_NETNS_NETNS_CLUSTER_H_

#ifndef STRATA_SERVER_COORDINATOR_TESTING_ETCD_CLUSTER_H_
#define STRATA_SERVER_COORDINATOR_TESTING_ETCD_CLUSTER_H_

#include <array>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/process.h"

namespace strata::server {

// A real etcd of three members for tests, on free ports of loopback. It ends with this object.
class EtcdCluster {
 public:
  static constexpr int kMembers = 3;

  // Waits until it answers. Errors: names what is wrong.
  static absl::StatusOr<std::unique_ptr<EtcdCluster>> Start(const std::string& folder);

  std::string endpoints() const;  // of all
  // After SIGSTOP all of its threads stand still.
  void Signal(int member, int signal);
  // As by a crash; Restart begins it again with its data.
  void Kill(int member) { processes_[member].reset(); }
  absl::Status Restart(int member);

 private:
  explicit EtcdCluster(std::string folder) : folder_(std::move(folder)) {}
  absl::Status Begin();
  // Until a change goes through, or it does not for a minute.
  absl::Status AwaitAnswer();

  const std::string folder_;
  std::array<int, kMembers> ports_ = {};
  std::array<int, kMembers> peer_ports_ = {};
  std::array<std::unique_ptr<Process>, kMembers> processes_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TESTING_ETCD_CLUSTER_H_

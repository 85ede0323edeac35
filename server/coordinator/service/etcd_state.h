#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_STATE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_STATE_H_

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/keys.pb.h"
#include "server/coordinator/access/known_cluster.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/fenced_writer.h"
#include "server/coordinator/service/job_store.h"
#include "server/coordinator/service/leader_lease.h"

namespace strata::server {

// All dealings with etcd of one of several coordinators of a cluster: it campaigns to lead, and
// then reads and changes the shared state. Its lease is refreshed over separate connections, so
// that large changes do not delay that.
//
// A change waits until etcd answers or the lease has ended, and this coordinator's leadership with
// it: jobs do not notice an etcd outage. If etcd refreshes leases but makes no changes, as with a
// stalled disk, a change fails after twice `failover`.
//
// Threads: any for leads, leader, Doubt and SaveBook; one for the others.
class EtcdState {
 public:
  struct Options {
    std::string endpoints;  // "HOST:PORT,HOST:PORT"
    EtcdTls tls;
    std::string cluster;
    std::vector<std::string> roots;  // see RootsValue
    absl::Duration failover = absl::Seconds(3);
  };
  // Errors, each naming the culprit: InvalidArgument (endpoints, cluster's name, files of keys),
  // Unavailable (etcd does not answer), FailedPrecondition (the cluster has other keys, or the
  // prefix holds something else), DataLoss (its id is damaged).
  static absl::StatusOr<std::unique_ptr<EtcdState>> Open(Options options);
  // Ends pending calls and gives up leadership or candidacy.
  ~EtcdState();

  const std::string& cluster() const { return options_.cluster; }
  // The cluster found by Open and later by OpenStore.
  const ClusterInEtcd& found() const { return found_; }

  // Starts to campaign for leadership. `on_deposed`: see LeaderLease; all calls have ended by then,
  // or end at once. Errors: those of LeaderLease::Start.
  absl::Status Campaign(const std::string& address,
                        std::function<void(const absl::Status& why)> on_deposed);
  // See LeaderLease. REQUIRES: Campaign was ok.
  absl::StatusOr<Leadership> AwaitElection(absl::Duration at_most);
  bool leads() const { return lease_->leads(); }
  std::string leader() const { return lease_->leader(); }
  void Doubt() { lease_->Doubt(); }

  // Opens the shared state, for the leader. Errors: those of OpenEtcdJobStore; FailedPrecondition:
  // the cluster has other keys.
  absl::StatusOr<std::unique_ptr<JobStore>> OpenStore(const Leadership& leadership);
  // REQUIRES for both: OpenStore was ok. nullopt: there is none yet. Errors: those of a JobStore.
  absl::StatusOr<std::optional<proto::KeyBookRecord>> LoadBook();
  absl::Status SaveBook(const proto::KeyBookRecord& book);

  // Ends calls about the shared state, also later ones.
  void StopCalls() { stop_.request_stop(); }

 private:
  EtcdState(Options options, std::shared_ptr<EtcdClient> lease_client,
            std::shared_ptr<EtcdClient> client, std::stop_source stop);
  absl::Status FindCluster();
  absl::Status CheckRootsNow(const mvccpb::KeyValue* recorded) const;

  const Options options_;
  const EtcdKeys keys_;
  const std::shared_ptr<EtcdClient> lease_client_;
  const std::shared_ptr<EtcdClient> client_;
  std::stop_source stop_;  // of `client_`
  ClusterInEtcd found_;
  std::shared_ptr<FencedWriter> writer_;
  std::unique_ptr<LeaderLease> lease_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_STATE_H_

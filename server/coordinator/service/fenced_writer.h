#ifndef STRATA_SERVER_COORDINATOR_SERVICE_FENCED_WRITER_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_FENCED_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/leader_lease.h"

namespace strata::server {

// Changes of a cluster's keys that only its leader can make. Each one is a transaction that
// compares the leader's key, so a deposed leader changes nothing, whatever it believes and however
// late its request arrives.
//
// Each change also compares and writes the key last_write. So a change whose call has failed, and
// which may still be in flight, takes effect before the next change or never.
//
// Threads: any; one change at a time. Errors: FailedPrecondition (another coordinator leads), those
// of EtcdClient: then the change has been made, or not, or may still be until Settle or another
// Write has succeeded.
class FencedWriter {
 public:
  // Upper bound of a change's size besides its values: keys, comparisons, gRPC overhead.
  static constexpr int kOpsMax = 120;

  FencedWriter(std::shared_ptr<EtcdClient> client, Leadership leadership);

  const Leadership& leadership() const { return leadership_; }
  // Makes all of the change or nothing. REQUIRES: at most kOpsMax operations, of different keys.
  absl::Status Write(const std::vector<etcdserverpb::RequestOp>& ops);
  // Makes no change; afterwards no earlier change can take effect any more.
  absl::Status Settle() { return Write({}); }
  // Reads at one revision at which this coordinator led.
  absl::StatusOr<etcdserverpb::TxnResponse> Read(const std::vector<etcdserverpb::RequestOp>& gets);

  // Returns a name that no other change has, of this or another leader.
  std::string NextName();

 private:
  // Returns why a transaction did not succeed, from what its last two operations read. Ok: it may
  // be retried, or has succeeded already if `*was_made`.
  absl::Status Explain(const etcdserverpb::TxnResponse& txn, const std::string& name,
                       bool* was_made) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TakeName() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<EtcdClient> client_;
  const Leadership leadership_;
  const EtcdKeys keys_;
  absl::Mutex mutex_;  // held during calls
  uint64_t names_ ABSL_GUARDED_BY(mutex_) = 0;
  // Revision of the last change, as far as known.
  int64_t last_write_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_FENCED_WRITER_H_

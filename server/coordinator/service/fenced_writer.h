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

// Changes of a cluster's keys that only its leader can make: each one is a transaction that
// compares the leader's key, so that one who was deposed changes nothing, whatever it believes and
// however late its request arrives.
//
// Each change also compares and writes the key last_write. So a change whose call has failed, and
// which may still be on its way, takes effect before the next change or never.
//
// Threads: any; one change after the other. Errors: FailedPrecondition (another coordinator leads),
// those of EtcdClient: then the change has been made, or not, or may still be until Settle or
// another Write has succeeded.
class FencedWriter {
 public:
  // More than any change has besides its values: keys, comparisons, what gRPC adds.
  static constexpr int kOpsMax = 120;

  FencedWriter(std::shared_ptr<EtcdClient> client, Leadership leadership);

  const Leadership& leadership() const { return leadership_; }
  // Makes all of the change or nothing. REQUIRES: at most kOpsMax operations, of different keys.
  absl::Status Write(const std::vector<etcdserverpb::RequestOp>& ops);
  // Changes nothing, and nothing of an earlier change any more.
  absl::Status Settle() { return Write({}); }
  // Reads as of one moment at which this one led.
  absl::StatusOr<etcdserverpb::TxnResponse> Read(const std::vector<etcdserverpb::RequestOp>& gets);

  // A name that no other change has, of this or another leader.
  std::string NextName();

 private:
  // Why a transaction did not succeed: what its last two operations have read. Ok: it may be
  // tried again, or has succeeded already if `*was_made`.
  absl::Status Explain(const etcdserverpb::TxnResponse& txn, const std::string& name,
                       bool* was_made) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string TakeName() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<EtcdClient> client_;
  const Leadership leadership_;
  const EtcdKeys keys_;
  absl::Mutex mutex_;  // held during calls
  uint64_t names_ ABSL_GUARDED_BY(mutex_) = 0;
  // Revision of the last change, as far as it is known.
  int64_t last_write_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_FENCED_WRITER_H_

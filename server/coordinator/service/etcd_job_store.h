#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_STORE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_STORE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/coordinator/service/etcd_client.h"
#include "server/coordinator/service/etcd_keys.h"
#include "server/coordinator/service/fenced_writer.h"
#include "server/coordinator/service/job_store.h"

namespace strata::server {

// Checks that the prefix holds a cluster, or nothing but the key of a leader that is about to
// create one. Errors: FailedPrecondition naming a foreign key; those of EtcdClient.
absl::Status CheckKeysAreOwn(EtcdClient* client, const EtcdKeys& keys);

// Opens the coordinator's state on etcd, for the coordinator that leads the cluster: the others see
// what it has saved once they lead. Creates the state if there is none.
//
// Errors, also of the store, name etcd's members and the key: Unavailable (etcd does not answer),
// FailedPrecondition (another coordinator leads; written by a newer version; foreign keys),
// DataLoss (damaged). A change whose call has failed may have been made; it never comes after a
// later one. `writer`: the only one of this leader.
absl::StatusOr<std::unique_ptr<JobStore>> OpenEtcdJobStore(std::shared_ptr<EtcdClient> client,
                                                           std::shared_ptr<FencedWriter> writer);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_JOB_STORE_H_

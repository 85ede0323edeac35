#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_TLS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_TLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/service/etcd/etcd_client.h"

namespace strata::server {

// What stands in the files of an EtcdTls.
struct EtcdTlsContent {
  std::string ca;
  std::string cert;
  std::string key;
};

// Errors: InvalidArgument (files that do not fit together, or have no PEM of their kind), those of
// FileError, those of keys::ReadPrivateFile about the key; each names the file.
absl::StatusOr<EtcdTlsContent> ReadEtcdTls(const EtcdTls& tls);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ETCD_TLS_H_

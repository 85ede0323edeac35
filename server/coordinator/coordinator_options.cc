#include <string>

#include "absl/strings/str_cat.h"
#include "common/ipc/unix_socket.h"
#include "server/coordinator/coordinator.h"

namespace strata::server {
namespace {

bool IsWildcard(const std::string& host) {
  return host == "0.0.0.0" || host == "*" || host == "[::]";
}

// What is missing for one of several coordinators.
absl::Status CheckEtcd(const Coordinator::Options& options) {
  const Coordinator::Etcd& etcd = options.etcd;
  if (etcd.endpoints.empty()) {
    const bool is_more =
        !(etcd.ca_file + etcd.cert_file + etcd.key_file + etcd.cluster + etcd.advertise).empty();
    return is_more ? absl::InvalidArgumentError(
                         "etcd: files, a cluster or an address of it, and "
                         "no HOST:PORT where it is")
                   : absl::OkStatus();
  }
  if (!options.on_lost) return absl::InvalidArgumentError("on_lost: is required with etcd");
  const std::string host = options.listen.substr(0, options.listen.rfind(':'));
  if (etcd.advertise.empty() && (UnixPath(options.listen) || IsWildcard(host))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--etcd: --listen ", options.listen,
        " is no address that other hosts know this one by: --advertise HOST:PORT says it"));
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(const char* option, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", absl::FormatDuration(value), " is not positive"));
}

}  // namespace

absl::Status Coordinator::Options::Validate() const {
  if (listen.empty())
    return absl::InvalidArgumentError("listen: HOST:PORT or unix:/PATH is required");
  if (state_dir.empty()) return absl::InvalidArgumentError("state: a directory is required");
  if (heartbeat >= dead_after) {
    return absl::InvalidArgumentError(absl::StrCat("dead_after: ", absl::FormatDuration(dead_after),
                                                   " is not longer than a heartbeat (",
                                                   absl::FormatDuration(heartbeat), ")"));
  }
  if (absl::Status several = CheckEtcd(*this); !several.ok()) return several;
  if (absl::Status wait = CheckPositive("failover", etcd.failover); !wait.ok()) return wait;
  const absl::Status counts = limits.Validate();
  const absl::Status idle = CheckPositive("idle_after", idle_after);
  if (!counts.ok() || !idle.ok()) return counts.ok() ? idle : counts;
  return CheckPositive("heartbeat", heartbeat);
}

}  // namespace strata::server

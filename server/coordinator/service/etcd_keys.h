#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_KEYS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/ids.h"

namespace strata::server {

// The keys of one cluster, all below strata/CLUSTER/. Numbers in them have a fixed width, so that
// keys sort by number. Pure.
class EtcdKeys {
 public:
  // Errors: InvalidArgument: the name must have 1 to 64 letters, digits, '.', '_' and '-'.
  static absl::Status CheckCluster(const std::string& cluster);
  // REQUIRES: CheckCluster(cluster).ok().
  explicit EtcdKeys(const std::string& cluster);

  const std::string& prefix() const { return prefix_; }  // "strata/CLUSTER/"

  std::string Leader() const { return prefix_ + "leader"; }
  std::string Schema() const { return prefix_ + "schema"; }
  // The authority of the members' keys.
  std::string Authority() const { return prefix_ + "authority"; }
  std::string KeyBook() const { return prefix_ + "key_book"; }
  std::string ClusterId() const { return prefix_ + "cluster_id"; }
  std::string LastJobId() const { return prefix_ + "last_job_id"; }
  // The daemons that are out of service.
  std::string Draining() const { return prefix_ + "draining"; }
  // Written by every change.
  std::string LastWrite() const { return prefix_ + "last_write"; }

  std::string Jobs() const { return prefix_ + "jobs/"; }
  std::string Job(JobId job) const;
  std::optional<JobId> JobOf(absl::string_view key) const;

  // Parts of jobs that are too large for one value. A set of parts is written once and never
  // changed.
  std::string PartsOfAll() const { return prefix_ + "parts/"; }
  std::string Parts(JobId job) const;
  std::string PartsOfKeyBook() const { return PartsOfAll() + "key_book/"; }
  // The keys of one set below such a prefix.
  static std::string PartSetIn(const std::string& parts, const std::string& set);
  static std::string PartIn(const std::string& parts, const std::string& set, uint32_t number);

  // Registrations that have been seen.
  std::string SeenBlocks() const { return prefix_ + "seen/"; }
  std::string SeenBlock(uint64_t number) const;
  std::optional<uint64_t> SeenBlockOf(absl::string_view key) const;

  // The end of the range of all keys that begin with `prefix`. REQUIRES: it ends with '/'.
  static std::string EndOf(std::string prefix);

 private:
  const std::string prefix_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_KEYS_H_

#ifndef STRATA_TESTS_SIM_CLUSTER_WATCHED_ENDPOINT_H_
#define STRATA_TESTS_SIM_CLUSTER_WATCHED_ENDPOINT_H_

#include <map>
#include <string>
#include <vector>

#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/sim/sim_endpoint.h"

namespace strata::sim {

class World;

// A process's sealed endpoint, which tells the eavesdropper what he cannot hear: what it hands to
// its owner, and when payloads have another salt.
class WatchedEndpoint final : public transport::SealedEndpoint {
 public:
  WatchedEndpoint(World* world, const transport::SimEndpoint::Options& options, Unsealed takes);

  absl::Status Protect(JobId job, const seal::JobKeys& keys) override;
  void Forget(JobId job) override;
  void Poll(absl::Duration timeout, std::vector<transport::Event>* events) override;

 private:
  World* const world_;
  const std::string name_;
  std::map<JobId, seal::JobKeys> keys_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_WATCHED_ENDPOINT_H_

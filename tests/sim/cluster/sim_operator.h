#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace strata::sim {

class World;

// What users and hosts do: submits the scenario's jobs, cancels some, ends and starts processes of
// daemons and of the coordinator, and keeps workers from shards for a while.
class SimOperator {
 public:
  explicit SimOperator(World* world);

  // Once, after the daemons are there.
  void Start();
  // Whether the worker's connections to the server's shards fail now.
  bool IsKeptFrom(const std::string& worker, const std::string& server) const;

 private:
  void Submit(size_t job);
  void Cancel(uint32_t job);
  void KeepApart();
  // What befalls servers whose jobs have second copies.
  void DisturbServers();
  // Keeps two servers from each other for a while.
  void PartServers();
  void LoseBoth();
  // Two different ones, if there are two.
  std::pair<size_t, size_t> TwoServers();
  // Does it so often, at times that follow each other closely or not at all.
  void Repeat(uint32_t times, std::function<void()> what);
  absl::Duration SomeTime();

  World* const world_;
  std::set<std::pair<std::string, std::string>> kept_apart_;  // worker, server
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_

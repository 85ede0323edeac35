#ifndef STRATA_TESTS_SIM_CLUSTER_SERVER_DRAINS_H_
#define STRATA_TESTS_SIM_CLUSTER_SERVER_DRAINS_H_

#include <string>
#include <vector>

namespace strata::sim {

class World;

// A user takes servers out of service and puts them back, as often as the scenario says: shards
// with second copies leave them by a third one. Once, after the daemons are there.
void DrainServers(World* world);

// A copy is to be filled on the last of these servers, beside those on the others: perhaps
// something happens to one of them, or to the coordinator, meanwhile.
void DisturbMove(const std::vector<std::string>& servers, World* world);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SERVER_DRAINS_H_

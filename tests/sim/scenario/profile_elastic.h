#ifndef STRATA_TESTS_SIM_SCENARIO_PROFILE_ELASTIC_H_
#define STRATA_TESTS_SIM_SCENARIO_PROFILE_ELASTIC_H_

#include "common/transport/sim/random.h"
#include "tests/sim/scenario/scenario.h"

namespace strata::sim {

// How second copies come that are lost, and what happens meanwhile.
void DrawNewCopies(transport::SimRandom* random, Scenario* scenario);

// Nodes of every job come and go, in all modes that keep no weights on nodes but what these begin
// a step with.
void MakeElastic(Scenario* scenario);
// The same, with second copies of shards, whose servers die.
void MakeElasticReplicas(Scenario* scenario);
// No worker has room for a node of the one that dies, and one stands in.
void FillAllWorkers(Scenario* scenario);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SCENARIO_PROFILE_ELASTIC_H_

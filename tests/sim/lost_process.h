#ifndef STRATA_TESTS_SIM_LOST_PROCESS_H_
#define STRATA_TESTS_SIM_LOST_PROCESS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"

namespace strata::sim {

class World;

// The process of `daemon` ("worker w1") dies now, and its host starts another one after a while.
// `end` gets how late the coordinator notices by itself.
void LoseProcess(World* world, const std::string& daemon,
                 const std::function<void(absl::Duration noticed_after)>& end,
                 std::function<void()> start);

// The coordinator has refused the process; its host starts another one, by `start_over`. Only where
// the process before died unnoticed may that be.
void EndRejected(World* world, const std::string& daemon, const std::string& reason,
                 std::function<void()> start_over);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_LOST_PROCESS_H_

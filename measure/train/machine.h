#ifndef STRATA_MEASURE_TRAIN_MACHINE_H_
#define STRATA_MEASURE_TRAIN_MACHINE_H_

#include <cstdint>
#include <string>

namespace strata::bench {

// What figures were measured on.
struct Machine {
  uint32_t cores = 1;       // that this process may use
  std::string processor;    // its name, or "unknown processor"
  double load_average = 0;  // of the last minute, before anything was measured
};

Machine ThisMachine();

// The first "model name" in the text of /proc/cpuinfo; empty: there is none.
std::string ProcessorIn(const std::string& cpuinfo);

}  // namespace strata::bench

#endif  // STRATA_MEASURE_TRAIN_MACHINE_H_

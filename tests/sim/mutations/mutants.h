#ifndef STRATA_TESTS_SIM_MUTATIONS_MUTANTS_H_
#define STRATA_TESTS_SIM_MUTATIONS_MUTANTS_H_

#include <span>

namespace strata::mutants {

// A fault that this program holds. The bodies of functions that it changes do what it says while
// `on` points to true; all are off at first, and the code is sound.
struct Mutant {
  const char* name;
  bool* on;
};

// All, by name. What mutate.py makes of the mutations of a source defines their switches, and its
// table defines this.
std::span<const Mutant> All();

}  // namespace strata::mutants

#endif  // STRATA_TESTS_SIM_MUTATIONS_MUTANTS_H_

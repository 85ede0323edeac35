#ifndef STRATA_COMPARE_SWEEP_SWEEP_LINES_H_
#define STRATA_COMPARE_SWEEP_SWEEP_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compare/sweep/sweep_plan.h"
#include "compare/sweep/sweep_result.h"
#include "compare/sweep/value_axis.h"

namespace strata::compare {

struct LinePoint {
  double x = 0;  // position on the field's axis
  double accuracy = 0;
  size_t rung = 0;
  uint64_t steps = 0;
  bool is_whole = false;  // it had its whole budget
};

// Points that differ in one field alone.
struct SweepLine {
  std::string name;               // settings of the other fields; empty: there are none
  std::vector<LinePoint> points;  // x ascends; those without an accuracy are left out
};

// The lines of a field's chart, one per choice of the other fields' values, in the grid's order.
std::vector<SweepLine> MakeSweepLines(const SweepPlan& plan, const SweepResult& result,
                                      size_t field);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_SWEEP_LINES_H_

#ifndef STRATA_COMPARE_SWEEP_SAMPLE_SWEEP_H_
#define STRATA_COMPARE_SWEEP_SAMPLE_SWEEP_H_

#include "compare/sweep/sweep_report.h"

namespace strata::compare {

// Made-up sweeps, for tests of what is written of them.

// Rates on a logarithmic axis and a field of names, one of them hostile, as is the title; a point
// has failed.
SweepReport SampleSweep();
// One field of four values, halved twice.
SweepReport HalvedSweep();

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_SAMPLE_SWEEP_H_

#ifndef STRATA_COMPARE_CAMPAIGN_SAMPLE_SWEEP_H_
#define STRATA_COMPARE_CAMPAIGN_SAMPLE_SWEEP_H_

#include <cstdint>

#include "compare/campaign/sweep_report.h"
#include "compare/run_record.pb.h"

namespace strata::compare {

struct SampleRun {
  double accuracy = 0;  // below 0: the run has failed
  uint64_t seed = 1;
  uint64_t samples = 6400;
  double trained_s = 2;
};

// Returns the record of a run of 100 steps, with one measurement at its end.
inline proto::RunRecord MakeRecord(const SampleRun& run) {
  proto::RunRecord record;
  record.set_seed(run.seed);
  record.set_trained_s(run.trained_s);
  record.set_samples(run.samples);
  record.set_steps(100);
  record.set_updates(100);
  if (run.accuracy < 0) {
    record.set_failure("rank 0: loss is NaN at step 3");
    record.set_has_diverged(true);
  }
  proto::Measurement* measurement = record.add_measurements();
  measurement->set_step(record.steps());
  measurement->set_samples(record.samples());
  measurement->set_updates(record.updates());
  measurement->set_trained_s(record.trained_s());
  measurement->set_accuracy(run.accuracy);
  return record;
}

// Made-up sweeps, for tests of what is written of them.

// Rates on a logarithmic axis and a field of names, one of them hostile, as is the title; a point
// has failed.
SweepReport SampleSweep();
// One field of four values, halved twice.
SweepReport HalvedSweep();

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SAMPLE_SWEEP_H_

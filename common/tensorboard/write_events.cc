// Writes records of a job's metrics to its event file as fast as it can, until it is killed or has
// written COUNT of them; step k has loss 1/k and 8 k samples.
//
// usage: write_events DIR COUNT [FIRST_STEP]
#include <cstdio>

#include "absl/strings/numbers.h"
#include "common/tensorboard/run_events.h"

int main(int argc, char** argv) {
  uint64_t count = 0, first = 1;
  if (argc < 3 || !absl::SimpleAtoi(argv[2], &count) ||
      (argc > 3 && !absl::SimpleAtoi(argv[3], &first)) || first == 0) {
    std::fputs("usage: write_events DIR COUNT [FIRST_STEP]\n", stderr);
    return 2;
  }
  strata::tensorboard::RunEvents events({.dir = argv[1], .job_text = "name: \"written\"\n"});
  strata::proto::MetricsRecord record;
  for (uint64_t step = first; step < first + count; ++step) {
    record.set_step(step);
    record.set_samples(8 * step);
    record.set_samples_per_s(100);
    record.set_loss(1.0 / static_cast<double>(step));
    const absl::Status status = events.Append(record, step - 1);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      return 1;
    }
  }
  return 0;
}

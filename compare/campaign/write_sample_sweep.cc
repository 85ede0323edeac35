// Writes the report of a made-up sweep into a directory that exists, for tests of the page:
// write_sample_sweep DIRECTORY [halved]
#include <cstdio>
#include <string>

#include "compare/campaign/sample_sweep.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  const absl::Status status = strata::compare::WriteSweepReport(
      argc == 3 ? strata::compare::HalvedSweep() : strata::compare::SampleSweep(), argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

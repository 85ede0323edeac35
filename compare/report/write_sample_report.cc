// Writes the report of a made-up comparison into a directory that exists, for tests of the page:
// write_sample_report DIRECTORY [one-run|all-failed|many-modes|two-seeds|under-way]
#include <cstdio>
#include <string>

#include "compare/report/report.h"
#include "compare/report/sample_input.h"

namespace strata::compare {
namespace {

ReportInput InputOf(const std::string& kind) {
  if (kind == "one-run") return OneRunInput();
  if (kind == "all-failed") return AllFailedInput();
  if (kind == "many-modes") return ManyModesInput();
  if (kind == "two-seeds") return TwoSeedsInput();
  if (kind == "under-way") return UnderWayInput();
  return SampleInput();
}

}  // namespace
}  // namespace strata::compare

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return 2;
  const absl::Status status =
      strata::compare::WriteReport(strata::compare::InputOf(argc == 3 ? argv[2] : ""), argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

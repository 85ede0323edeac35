// Writes the report of SampleInput() into a directory that exists, for tests of the page:
// write_sample_report DIRECTORY
#include <cstdio>

#include "compare/report/report.h"
#include "compare/report/sample_input.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = strata::compare::WriteReport(strata::compare::SampleInput(), argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

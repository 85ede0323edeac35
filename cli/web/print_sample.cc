// Prints a sample scene as /metrics has it, for tests and for the table of docs/metrics.md.

#include <iostream>

#include "cli/web/exposition.h"
#include "cli/web/sample_scene.h"

int main() {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  std::cout << strata::cli::Exposition(strata::cli::testing::SampleScene(now), now);
  return 0;
}
